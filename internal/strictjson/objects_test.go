package strictjson_test

import (
	"bytes"
	"strings"
	"testing"

	"atrium/internal/strictjson"
)

func TestObjectsAreTheirExactBytes(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"a":`, n-1) + "{}" + strings.Repeat("}", n-1) }
	for text, want := range map[string][]string{
		`{"a":1}`:                          {`{"a":1}`},
		" {\"a\" : 1.50e0}\r\n":            {`{"a" : 1.50e0}`},
		`[]`:                               {},
		` [ {"a":1} , {"a":2 , "b":"é"}] `: {`{"a":1}`, `{"a":2 , "b":"é"}`},
		nested(63):                         {nested(63)},
		"[" + nested(63) + "]":             {nested(63)},
	} {
		got, err := strictjson.Objects([]byte(text), 2)
		if err != nil || len(got) != len(want) {
			t.Errorf("%.80s: %s, %v", text, got, err)
			continue
		}
		for i := range want {
			if string(got[i]) != want[i] {
				t.Errorf("%.80s: %s, want %s", text, got[i], want[i])
			}
		}
	}
	for text, fault := range map[string]string{
		``: "must not be empty", ` `: "must not be empty", `1`: "must be an object", `"a"`: "must be an object", `[1]`: `"/0": must be an object`, `[{},[]]`: `"/1": must be an object`,
		`[{},{},{}]`: "at most 2 elements", `{"a":1,"a":2}`: "duplicates", `[{"a":{"b":1,"b":2}}]`: `"/0/a/b": duplicates`, `[{}`: "ends too early", `[{},]`: "not strict JSON",
		`[{}] x`: "data after its end", `{} {}`: "data after its end", "\ufeff{}": "byte order mark", nested(64): "more than 63 levels", "[" + nested(64) + "]": "more than 64 levels",
		"{\"a\":\"\xff\"}": "not UTF-8", `[{"a":"\ud800"}]`: "surrogate",
	} {
		if got, err := strictjson.Objects([]byte(text), 2); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%.80s: %s, %v, want %s", text, got, err, fault)
		}
	}
}

func FuzzObjects(f *testing.F) {
	f.Add([]byte(`{"a":1}`))
	f.Add([]byte(`[{"a":[1]},{"b":"\u0000"}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		objects, err := strictjson.Objects(b, 10)
		if err != nil {
			return
		}
		for _, object := range objects {
			body := append(append([]byte(`{"payload":`), object...), '}')
			o, err := strictjson.Parse(body)
			if err != nil || !bytes.Equal(o.Object("payload", strictjson.Required), object) {
				t.Fatalf("%q is no payload: %v", object, err)
			}
		}
	})
}
