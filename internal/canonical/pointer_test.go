package canonical_test

import (
	"bytes"
	"testing"

	"atrium/internal/canonical"
)

func TestPointersFindValues(t *testing.T) {
	const document = ` { "a" : { "b" : [ 1.50 , { "c" : "x" } ] , "" : null } , "a/b" : 1 , "m~n" : 2 , "0" : [ ] , "\u00e9" : true , "é1" : false } `
	for pointer, want := range map[string]string{
		"/a/b/0": "1.50", "/a/b/1/c": `"x"`, "/a/": "null", "/a~1b": "1", "/m~0n": "2", "/é": "true", "/é1": "false", "/0": "[ ]",
		"": document[1 : len(document)-1], "/a/b/1": `{ "c" : "x" }`,
		"/a/b/2": "", "/a/b/-": "", "/a/b/00": "", "/a/b/01": "", "/a/b/+1": "", "/0/0": "", "/A": "", "/a/b/0/x": "", "/a/b/1/d": "", "/b": "",
		"/a/b/99999999999999999999": "",
	} {
		p, ok := canonical.ParsePointer(pointer)
		if got := p.In([]byte(document)); !ok || string(got) != want {
			t.Errorf("%q finds %q (%v), want %q", pointer, got, ok, want)
		}
	}
}

func TestInvalidPointersAreRejected(t *testing.T) {
	for _, text := range []string{"a", "a/b", "/~", "/~2", "/a~", "#/a"} {
		if p, ok := canonical.ParsePointer(text); ok {
			t.Errorf("ParsePointer(%q) = %q, want false", text, p)
		}
	}
}

func TestPointersFindNothingInInvalidJSON(t *testing.T) {
	p, _ := canonical.ParsePointer("/a/1")
	for _, v := range []string{``, `{`, `{"a"`, `{"a":`, `{"a":[`, `{"a":[0,`, `{"a":[0,}`, `{1:2}`} {
		if got := p.In([]byte(v)); got != nil {
			t.Errorf("found %[2]q in %[1]q", v, got)
		}
	}
}

func TestFormsAreEqualIfValuesAre(t *testing.T) {
	form := func(v string) []byte {
		t.Helper()
		b, err := canonical.Value([]byte(v))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, same := range [][2]string{{"1.50", "15e-1"}, {"-0", "0.0"}, {`"\u00e9"`, `"é"`}, {" true", "true "}, {`{"a":1,"b":2}`, `{"b":2.0,"a":1}`}} {
		if !bytes.Equal(form(same[0]), form(same[1])) {
			t.Errorf("%s and %s have different forms", same[0], same[1])
		}
	}
	for _, other := range [][2]string{{"1", `"1"`}, {"null", "false"}, {"0", "false"}, {`"a"`, `"A"`}, {"1", "1.0000000000000000000001"}} {
		if bytes.Equal(form(other[0]), form(other[1])) {
			t.Errorf("%s and %s have the same form", other[0], other[1])
		}
	}
	if _, err := canonical.Value([]byte("{")); err == nil {
		t.Error("Value accepted incomplete JSON")
	}
}
