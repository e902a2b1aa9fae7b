package jsonpatch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"atrium/internal/jsonpatch"
	"atrium/internal/strictjson"
)

func TestDiff(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`{"a":1}`, `{"a":1}`, `[]`},
		{`{"a":1,"b":[2]}`, `{"b":[2],"a":1}`, `[]`},
		{`1`, `2`, `[{"op":"replace","path":"","value":2}]`},
		{`{}`, `null`, `[{"op":"replace","path":"","value":null}]`},
		{`{"title":"one","unchanged":"a long text"}`, `{"title":"two","unchanged":"a long text"}`, `[{"op":"replace","path":"/title","value":"two"}]`},
		{`{"text":"some text that is long enough","b":1}`, `{"text":"some text that is long enough","c":null}`, `[{"op":"remove","path":"/b"},{"op":"add","path":"/c","value":null}]`},
		{`{"a/b~c":{"":1},"text":"some text that is long enough"}`, `{"a/b~c":{"":2},"text":"some text that is long enough"}`, `[{"op":"replace","path":"/a~1b~0c/","value":2}]`},
		{`["first of them","second of them","third of them"]`, `["first of them","third of them"]`, `[{"op":"remove","path":"/1"}]`},
		{`["first of them","third of them","four"]`, `["first of them","second","third of them","four"]`, `[{"op":"add","path":"/1","value":"second"}]`},
		{`[1]`, `[2,3,4,5,6,7,8,9]`, `[{"op":"replace","path":"","value":[2,3,4,5,6,7,8,9]}]`},
		// Numbers that are equal, or not representable, in floating point.
		{`9007199254740993`, `9007199254740992`, `[{"op":"replace","path":"","value":9007199254740992}]`},
		{`1.0`, `1`, `[{"op":"replace","path":"","value":1}]`},
		{`1e400`, `1e401`, `[{"op":"replace","path":"","value":1e401}]`},
		{`0.1`, `0.1000000000000000055`, `[{"op":"replace","path":"","value":0.1000000000000000055}]`},
	} {
		got, err := jsonpatch.Diff([]byte(c.from), []byte(c.to))
		if err != nil || string(got) != c.want {
			t.Errorf("Diff(%s, %s) = %s, %v, want %s", c.from, c.to, got, err, c.want)
		}
	}
}

func TestInvalidInputIsAnError(t *testing.T) {
	for _, bad := range []string{``, `[1,`, `{"a":}`, `{"a"}`, `[1}`, `["`, `1 2`, `[1] `, ` 1`, `[1, 2]`, "{\"a\":\n1}", `]`, "\"\xff\"", `tru`} {
		for _, pair := range [][2]string{{bad, `{}`}, {`[]`, bad}, {bad, bad}} {
			if got, err := jsonpatch.Diff([]byte(pair[0]), []byte(pair[1])); err == nil {
				t.Errorf("Diff(%q, %q) = %s, want an error", pair[0], pair[1], got)
			}
		}
	}
}

// values generates JSON values with few distinct parts, so that two of them are similar.
func values() *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any { return draw(t, 0) })
}

func draw(t *rapid.T, depth int) any {
	kinds := 6
	if depth == 4 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return json.Number(rapid.SampledFrom([]string{"0", "1", "1.0", "9007199254740992", "9007199254740993"}).Draw(t, "number"))
	case 3:
		return rapid.SampledFrom([]string{"", "a", "~/\"\\\u2028<", "a text that is somewhat longer than a path is"}).Draw(t, "text")
	case 4:
		array := make([]any, rapid.IntRange(0, 5).Draw(t, "length"))
		for i := range array {
			array[i] = draw(t, depth+1)
		}
		return array
	default:
		object := map[string]any{}
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			object[rapid.SampledFrom([]string{"", "a", "b", "/", "~1", "é"}).Draw(t, "name")] = draw(t, depth+1)
		}
		return object
	}
}

func TestThePatchChangesOneValueIntoTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := encode(t, values().Draw(t, "from")), encode(t, values().Draw(t, "to"))
		checkPatch(t, from, to)
	})
}

func FuzzDiff(f *testing.F) {
	f.Add([]byte(`{"a":[1,2,{"b":null}]}`), []byte(`{"a":[2,{"b":0}],"c":"\ud83d\ude80"}`))
	f.Add([]byte(`{"\u0061":1}`), []byte(`{"a":1}`))
	f.Fuzz(func(t *testing.T, from, to []byte) {
		for _, v := range []*[]byte{&from, &to} {
			wrapped := append(append([]byte(`{"v":`), *v...), '}')
			o, err := strictjson.Parse(wrapped)
			if err != nil || len(o.Names()) != 1 {
				return
			}
			*v = strictjson.Compact(o.Value("v"))
		}
		checkPatch(t, from, to)
	})
}

type tb interface {
	Fatalf(format string, args ...any)
}

func encode(t tb, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return b
}

func decode(t tb, b []byte) (v any) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return v
}

// checkPatch checks that the patch changes from into to, and that it is no longer than one
// that replaces the whole value.
func checkPatch(t tb, from, to []byte) {
	patch, err := jsonpatch.Diff(from, to)
	if err != nil {
		t.Fatalf("from %s to %s: %v", from, to, err)
	}
	if most := len(`[{"op":"replace","path":"","value":}]`) + len(to); len(patch) > most {
		t.Fatalf("the patch from %s to %s has %d bytes, want at most %d: %s", from, to, len(patch), most, patch)
	}
	var operations []operation
	if err := json.Unmarshal(patch, &operations); err != nil {
		t.Fatalf("%s: %v", patch, err)
	}
	v := decode(t, from)
	for _, o := range operations {
		if v, err = o.apply(t, v, o.Path); err != nil {
			t.Fatalf("apply %s to %s: %v", patch, from, err)
		}
	}
	if !reflect.DeepEqual(v, decode(t, to)) {
		t.Fatalf("%s applied to %s\nis\n%s\nwant\n%s", patch, from, encode(t, v), to)
	}
}

// An operation is an operation of a patch (RFC 6902 section 4).
type operation struct {
	Op    string
	Path  string
	Value json.RawMessage
}

func (o operation) apply(t tb, v any, path string) (any, error) {
	if path == "" {
		if o.Op != "replace" || o.Value == nil {
			return nil, errors.New("only replace is allowed for the whole value")
		}
		return decode(t, o.Value), nil
	}
	token, rest, deeper := strings.Cut(path[1:], "/")
	token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	if deeper {
		rest = "/" + rest
	}
	switch v := v.(type) {
	case map[string]any:
		child, has := v[token]
		switch {
		case !deeper && o.Op == "add" && !has:
			v[token] = decode(t, o.Value)
			return v, nil
		case !has:
			return nil, fmt.Errorf("no member %q", token)
		case !deeper && o.Op == "remove":
			delete(v, token)
			return v, nil
		}
		changed, err := o.apply(t, child, rest)
		v[token] = changed
		return v, err
	case []any:
		i, err := strconv.Atoi(token)
		switch {
		case err != nil || i < 0 || i > len(v) || i == len(v) && (deeper || o.Op != "add"):
			return nil, fmt.Errorf("no element %s", token)
		case !deeper && o.Op == "add":
			return slices.Insert(v, i, decode(t, o.Value)), nil
		case !deeper && o.Op == "remove":
			return slices.Delete(v, i, i+1), nil
		}
		changed, err := o.apply(t, v[i], rest)
		v[i] = changed
		return v, err
	}
	return nil, fmt.Errorf("%s points into a scalar", path)
}

// With these values, the patch or the time of a naive comparison grows quadratically: a long
// path in each operation, or a search for the longest common subsequence.
func TestLargeValuesTakeBoundedTimeAndSpace(t *testing.T) {
	const size = 1 << 20
	numbers := func(digit string, n int) string { return strings.TrimSuffix(strings.Repeat(digit+",", n), ",") }
	deep := func(inner string) string { return strings.Repeat(`{"a":[`, 30) + inner + strings.Repeat(`]}`, 30) }
	for name, c := range map[string]struct{ from, to string }{
		"elements":                   {"[" + numbers("0", size/2) + "]", "[" + numbers("1", size/2) + "]"},
		"elements under a long name": {`{"` + strings.Repeat("k", size/2) + `":[` + numbers("0", size/4) + "]}", `{"` + strings.Repeat("k", size/2) + `":[` + numbers("1", size/4) + "]}"},
		"elements removed":           {"[" + numbers("0", size/2) + "]", "[1]"},
		"deep elements":              {deep(numbers("0", size/2)), deep(numbers("1", size/2))},
		"every second element":       {"[" + numbers(`0,"a"`, size/6) + "]", "[" + numbers(`1,"a"`, size/6) + "]"},
		"shifted elements":           {"[" + numbers("1,2,3", size/6) + ",0]", "[0," + numbers("2,3,1", size/6) + "]"},
	} {
		began := time.Now()
		patch, err := jsonpatch.Diff([]byte(c.from), []byte(c.to))
		if most := len(c.to) + 64; err != nil || len(patch) > most {
			t.Errorf("%s: %d bytes, %v, want at most %d", name, len(patch), err, most)
		}
		if took := time.Since(began); took > 20*time.Second { // usually less than a second
			t.Errorf("%s took %v", name, took)
		}
	}
}
