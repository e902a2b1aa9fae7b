package strictjson_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/strictjson"
)

func TestInvalidJSONIsRejectedWithItsLocation(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	for body, where := range map[string]string{
		``:                              "",
		` `:                             "",
		`null`:                          "",
		`[]`:                            "",
		`"a"`:                           "",
		`{`:                             "",
		`{"a":1`:                        "",
		`{"a":1}x`:                      "",
		`{"a":1}{}`:                     "",
		"\ufeff{}":                      "",
		`{"a":1,"a":2}`:                 "/a",
		`{"a":{"b":1,"b":2}}`:           "/a/b",
		`{"a":[{"b":1},{"b":1,"b":2}]}`: "/a/1/b",
		`{"a":1,"\u0061":2}`:            "/a",
		"{\"a\":\"\xff\"}":              "/a",
		`{"a":"\ud800"}`:                "/a",
		`{"a":"\udc00\ud800"}`:          "/a",
		`{"a":01}`:                      "",
		`{"a":+1}`:                      "/a",
		`{"a":NaN}`:                     "/a",
		`{"a":1,}`:                      "",
		`{'a':1}`:                       "",
		`{"a":"` + "\n" + `"}`:          "/a",
		deep(65):                        strings.Repeat("/a", 64),
		strings.Repeat("[", 200_000):    strings.Repeat("/0", 63),
		`{"x":[],"a":` + strings.Repeat("[", 200_000): "/a" + strings.Repeat("/0", 62),
		`{"` + strings.Repeat("n", 500) + `":x}`:      "",
	} {
		_, err := strictjson.Parse([]byte(body))
		wantFault(t, body, err, where, "")
	}
	if _, err := strictjson.Parse([]byte(deep(64))); err != nil {
		t.Errorf("64 levels were rejected: %v", err)
	}
	if _, err := strictjson.Parse([]byte(`{"a":"[[[[` + strings.Repeat(`\"[`, 100) + `"}`)); err != nil {
		t.Errorf("brackets in a string count as nesting: %v", err)
	}
}

func TestInvalidJSONSaysWhatIsWrong(t *testing.T) {
	const (
		early   = "ends too early: a closing quote, bracket or brace is missing"
		name    = "expected the name of a field in double quotes"
		value   = "expected a value; text is in double quotes"
		others  = value + ", and the others are numbers, true, false, null, objects and arrays"
		colon   = "expected a colon after the name of the field"
		comma   = "expected a comma or the end of the object"
		inArray = "expected a comma or the end of the array"
		last    = "there must be no comma before the end"
		token   = "expected a number, true, false or null"
		control = "a line break, tab or control character in text must be escaped"
		escape  = "the escape sequence is not valid, or half of a surrogate pair is missing"
		utf8    = "the text is not UTF-8"
		comment = "comments are not allowed"
	)
	at := func(offset int, problem string) string {
		return fmt.Sprintf("is not strict JSON at byte %d: %s", offset, problem)
	}
	for body, want := range map[string]string{
		` `: "must not be empty",
		`{`: early, `{"a"`: early, `{"a":`: early, `{"a":1`: early, `{"a":"x`: early, `{"a":nu`: early, `{"a":"\u12`: early, `{"a":[{`: early,
		`{'a':1}`: at(1, name), `{a:1}`: at(1, name), `{1:2}`: at(1, name), `{“a”:1}`: at(1, name), `{"a":1,b:2}`: at(7, name),
		`{"a":'x'}`: at(5, value), `{"a":[1,'x']}`: at(8, value), `{"a":True}`: at(5, others), `{"a":+1}`: at(5, others), `{"a":}`: at(5, others),
		`{"a" 1}`: at(5, colon), `{"a":1 "b":2}`: at(7, comma), `{"a":1;"b":2}`: at(6, comma), `{"a":1]`: at(6, comma), `{"a":01}`: at(6, comma),
		`{"a":[1 2]}`: at(8, inArray), `{"a":[1}`: at(7, inArray), `{"a":1,}`: at(6, last), `{"a":[1,]}`: at(8, last), `{"a":{"b":1, } }`: at(13, last),
		`{"a":nul}`: at(8, token), `{"a":1.}`: at(7, token), "{\"a\":\"\n\"}": at(6, control), "{\"a\x01\":1}": at(3, control),
		`{"a":"\x"}`: at(6, escape), `{"a":"\ud800"}`: at(6, escape), "{\"a\":\"\xff\"}": at(6, utf8), "\ufeff{}": at(0, "it begins with a byte order mark"),
		`{/*c*/"a":1}`: at(1, comment), "{\"a\":1, //c\n\"b\":2}": at(8, comment), `x`: at(0, others), `{"a":1}x`: "has data after its end, at byte 7",
	} {
		_, err := strictjson.Parse([]byte(body))
		e, ok := errors.AsType[*atrium.Error](err)
		if !ok || len(e.Faults) != 1 || e.Faults[0].Detail != want {
			t.Errorf("%q: %v, want %q", body, err, want)
		}
	}
}

// wantFault checks that err has one fault, at where and with the detail, unless detail is "".
func wantFault(t *testing.T, what string, err error, where, detail string) {
	t.Helper()
	e, ok := errors.AsType[*atrium.Error](err)
	if !ok || e.Code != atrium.CodeInvalidRequest || len(e.Faults) != 1 {
		t.Errorf("%.40q: error %v is not an invalid request with one fault", what, err)
		return
	}
	if f := e.Faults[0]; f.Where != where || detail != "" && f.Detail != detail {
		t.Errorf("%.40q: fault is at %.80q, want %.80q (%s)", what, f.Where, where, f.Detail)
	}
}

func TestEveryFaultIsReported(t *testing.T) {
	o, err := strictjson.Parse([]byte(`{"t":1,"b":"x","n":-1,"a":{},"o":[],"z":null,"u/~":0}`))
	if err != nil {
		t.Fatal(err)
	}
	o.Text("t", strictjson.Required, nil)
	o.Text("missing", strictjson.Required, nil)
	o.Text("z", strictjson.Optional, nil)
	o.Bool("b")
	o.Integer("n", 1, 9)
	o.Array("a", strictjson.Optional)
	o.Object("o", strictjson.Optional)
	o.RejectUnknown()
	var got []string
	for _, f := range o.Faults() {
		got = append(got, f.Where)
	}
	if want := "/t /missing /z /b /n /a /o /u~1~0"; strings.Join(got, " ") != want {
		t.Errorf("faults are at %v, want %s", got, want)
	}
}

func TestANullableNullIsAbsent(t *testing.T) {
	o, _ := strictjson.Parse([]byte(`{"a":null}`))
	if text, ok := o.Text("a", strictjson.Nullable, nil); ok || text != "" || len(o.Faults()) != 0 {
		t.Errorf("got %q, %v, %v", text, ok, o.Faults())
	}
}

func TestValuesAreReturnedUnchanged(t *testing.T) {
	const payload = `{ "b" : 1.50 , "a":"\u0000\/é" }`
	o, err := strictjson.Parse([]byte(` {"x":"\"","payload" :` + payload + "\n}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(o.Object("payload", strictjson.Required)); got != payload {
		t.Errorf("got %s", got)
	}
	if got := string(strictjson.Compact([]byte(payload))); got != `{"b":1.50,"a":"\u0000\/é"}` {
		t.Errorf("Compact returned %s", got)
	}
	if got, _ := o.Text("x", strictjson.Required, nil); got != `"` {
		t.Errorf("text is %q", got)
	}
}

func TestDigitsAcceptsOnlyDigits(t *testing.T) {
	for s, want := range map[string]int64{"0": 0, "7": 7, "100": 100, "00100": 100, "": -1, "+1": -1, "-1": -1, "1.0": -1, "1e2": -1, "\t1": -1, "101": -1, "99999999999999999999999": -1, "١": -1} {
		n, ok := strictjson.Digits(s, 100)
		if !ok {
			n = -1
		}
		if n != want {
			t.Errorf("%q is %d, want %d", s, n, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":[1,{"b":null}]}`, `{"a":"\ud83d\ude00"}`, "{\"\xff\":1}", `[[[`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := strictjson.Parse(b)
		strict := jsontext.Value(b)
		if fits := depth(b) <= strictjson.MaxDepth; fits && (err == nil) != (strict.IsValid() && strict.Kind() == '{') {
			t.Fatalf("Parse returned %v, but jsontext says valid: %v", err, strict.IsValid())
		}
		if err != nil {
			e, ok := errors.AsType[*atrium.Error](err)
			if !ok || len(e.Faults) != 1 || len(e.Faults[0].Where) > 256 {
				t.Fatalf("error is %v", err)
			}
			return
		}
		again, err := strictjson.Parse(strictjson.Compact(b))
		if err != nil {
			t.Fatalf("%q is invalid after Compact: %v", b, err)
		}
		o.RejectUnknown()
		again.RejectUnknown()
		if len(o.Faults()) != len(again.Faults()) {
			t.Fatalf("%q has other members after Compact", b)
		}
	})
}

// depth returns the maximum number of open brackets in b, including those in strings.
func depth(b []byte) (deepest int) {
	open := 0
	for _, c := range b {
		switch c {
		case '{', '[':
			open++
			deepest = max(deepest, open)
		case '}', ']':
			open--
		}
	}
	return deepest
}

func TestFaultsOfInnerObjectsAreInTheOutermost(t *testing.T) {
	o, err := strictjson.Parse([]byte(`{"a/b":{"c":{"d":1,"e":null},"f":[]},"g":[ 1 , {"h": 2} ]}`))
	if err != nil {
		t.Fatal(err)
	}
	ab := o.Inner("a/b", strictjson.Required)
	c := ab.Inner("c", strictjson.Required)
	c.Text("d", strictjson.Required, nil)
	c.Inner("e", strictjson.Nullable)
	c.WholeFault("is odd")
	ab.Inner("f", strictjson.Optional)
	ab.Inner("missing", strictjson.Required)
	c.RejectUnknown()
	o.RejectUnknown()
	var got []string
	for _, f := range o.Faults() {
		got = append(got, f.Where+" "+f.Detail)
	}
	want := []string{
		"/a~1b/c/d must be a string", "/a~1b/c is odd", "/a~1b/f must be an object", "/a~1b/missing is required",
		"/g is not a known field",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestElementsAreReturnedUnchanged(t *testing.T) {
	array := []byte(`[ 1.0 , {"a": [ ]} ,"x"]`)
	for most, want := range map[int]bool{2: false, 3: true, 4: true} {
		got, ok := strictjson.Elements(array, most)
		if ok != want || ok && (len(got) != 3 || string(got[0]) != "1.0" || string(got[1]) != `{"a": [ ]}` || string(got[2]) != `"x"`) {
			t.Errorf("at most %d: %q, %v", most, got, ok)
		}
	}
	if got, ok := strictjson.Elements([]byte(`[ ]`), 0); !ok || len(got) != 0 {
		t.Errorf("empty array: %q, %v", got, ok)
	}
}

func TestTextsReportsEachFaultWithItsIndex(t *testing.T) {
	check := func(text string) string {
		if text == "bad" {
			return "is bad"
		}
		return ""
	}
	for body, want := range map[string][]string{
		`{"a":["x","\u0079"]}`:           {"x", "y"},
		`{}`:                             nil,
		`{"a":[]}`:                       {"/in/a"},
		`{"a":["1","2","3","4"]}`:        {"/in/a"},
		`{"a":["bad",1,"x"]}`:            {"/in/a/0", "/in/a/1"},
		`{"a":[null,["x"],{"a":"bad"}]}`: {"/in/a/0", "/in/a/1", "/in/a/2"},
		`{"a":"x"}`:                      {"/in/a"},
	} {
		o, err := strictjson.Parse([]byte(`{"in":` + body + `}`))
		if err != nil {
			t.Fatal(body, err)
		}
		got := o.Inner("in", strictjson.Required).Texts("a", strictjson.Optional, 3, check)
		for _, f := range o.Faults() {
			got = append(got, f.Where)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}
