package appendjson_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/appendjson"
	"atrium/internal/strictjson"
)

// texts are strings with all that is written in some way of its own.
var texts = []string{
	"", "a", `"`, `\`, "\x00\x1f\x7f", "<>&\u2028\u2029", "é漢😀", "\xff", "a\xc3", strings.Repeat("a", 100) + "\n", "\ufffd", "\ufeff",
}

func FuzzStringsAreWrittenAsEncodingWritesThem(f *testing.F) {
	for _, s := range texts {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, wantErr := json.Marshal(s)
		w := appendjson.Writer{Text: []byte("before")}
		w.String(s)
		if (w.Err != nil) != (wantErr != nil) {
			t.Fatalf("%q: %v, want %v", s, w.Err, wantErr)
		}
		if wantErr == nil && string(w.Text) != "before"+string(want) {
			t.Fatalf("%q is %s, want %s", s, w.Text, want)
		}
	})
}

func FuzzValuesAreWrittenAsEncodingWritesThem(f *testing.F) {
	for _, v := range []string{
		`[]`, ` [ ] `, `"a b"`, `"a" `, `{"a b": 1}`, `{"a b":1}`, `{"a b":1 }`, `["a b","c d"]`, `["a b", "c d"]`, "[1,\n2]", "[1,\t2]", "[1\r]",
		`["\" "]`, `["\\" ]`, `["\\ ","a"]`, `[" ", " "]`, `[" "," "]`, `{" ":[" ",{" ":" "}]}`, `[1e999,1.0,-0]`, `["\u0000\/"]`, `null`, `"é 漢 "`,
	} {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, v []byte) {
		o, err := strictjson.Parse(append(append([]byte(`{"v":`), v...), '}'))
		if err != nil || len(o.Names()) != 1 {
			return // would not have been stored
		}
		want, err := json.Marshal(jsontext.Value(v), jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true))
		if err != nil {
			t.Fatal(err)
		}
		var w appendjson.Writer
		if w.Value(v); w.Err != nil || string(w.Text) != string(want) {
			t.Fatalf("%q is %q, %v, want %q", v, w.Text, w.Err, want)
		}
	})
}

func TestWhatIsNotThereIsNull(t *testing.T) {
	var w appendjson.Writer
	w.Nullable(nil)
	w.NullableTime(nil)
	w.Value(nil)
	w.Member(`,"a":`, nil)
	if string(w.Text) != "nullnullnull" {
		t.Errorf("wrote %s", w.Text)
	}
	w.Text = nil
	w.Nullable(new("a"))
	w.NullableTime(new(atrium.Time(0)))
	w.Member(`,"a":`, new(""))
	w.Bool(true)
	w.Int(-7)
	if want := `"a""1970-01-01T00:00:00.000Z","a":""true-7`; string(w.Text) != want {
		t.Errorf("wrote %s, want %s", w.Text, want)
	}
}

func BenchmarkValue(b *testing.B) {
	v := []byte(`[{"actionId":"action_1","actionIndex":0,"purpose":"primary","buttonTitle":"Book a call","actionType":"link","url":"https://example.com/call"}]`)
	w := appendjson.Writer{Text: make([]byte, 0, 1024)}
	b.ReportAllocs()
	for b.Loop() {
		w.Text = w.Text[:0]
		w.Value(v)
	}
}
