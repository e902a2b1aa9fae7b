package jsonshape_test

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"atrium/internal/jsonshape"
)

func TestEveryShapeIsStrictJSONOfItsSize(t *testing.T) {
	for _, shape := range jsonshape.All {
		for _, size := range []int{jsonshape.MinSize, 1025, 32 << 10, 1 << 20, 1<<20 + 7} {
			b := shape.Make(size)
			if len(b) != size {
				t.Errorf("%s: %d bytes, want %d", shape.Name, len(b), size)
			}
			if depth := check(t, shape.Name, b); depth > jsonshape.MaxDepth {
				t.Errorf("%s: nested %d levels deep", shape.Name, depth)
			}
			if padding := bytes.Count(b, []byte(" ")); padding > size/2 {
				t.Errorf("%s: %d of %d bytes are white space", shape.Name, padding, size)
			}
		}
	}
}

// check reads an object and returns its nesting depth.
func check(t *testing.T, name string, b []byte) (depth int) {
	t.Helper()
	if b[0] != '{' {
		t.Fatalf("%s: not an object", name)
	}
	if v := jsontext.Value(b); !v.IsValid() { // which refuses duplicate names
		t.Fatalf("%s: not strict JSON: %.60s…", name, b)
	}
	open := 0
	for _, c := range b { // no shape has brackets in strings
		switch c {
		case '{', '[':
			open++
			depth = max(depth, open)
		case '}', ']':
			open--
		}
	}
	return depth
}

func TestExtendAddsMembers(t *testing.T) {
	for object, want := range map[string]string{`{}`: `{"b":2}`, `{"a":1}`: `{"a":1,"b":2}`} {
		if got := string(jsonshape.Extend([]byte(object), []byte(`{"b":2}`))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
