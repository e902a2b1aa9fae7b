package console

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// A text of 1 MiB in many nested arrays would have 60 times its size with line breaks.
func TestDeepTextsStayShort(t *testing.T) {
	deep := strings.Repeat("[", 58) + strings.Repeat("1,", 1<<19) + "1" + strings.Repeat("]", 58)
	if got := indent(jsontext.Value(deep)); got != deep {
		t.Errorf("%d bytes became %d", len(deep), len(got))
	}
	if shown, cut := raw(jsontext.Value(deep)); len(shown) != maxRaw || !cut {
		t.Errorf("%d bytes are shown", len(shown))
	}
	if shown, cut := raw(jsontext.Value(`{"a":[1,2]}`)); shown != "{\n  \"a\": [\n    1,\n    2\n  ]\n}" || cut {
		t.Errorf("got %q", shown)
	}
}

func FuzzIndentedSize(f *testing.F) {
	f.Add(`{"a":["\\\"[",{"b":{}}, 1.5e3 ,null]}`)
	f.Fuzz(func(t *testing.T, text string) {
		value := jsontext.Value(text)
		if err := value.Indent(jsontext.WithIndent("  ")); err == nil && len(value) > indentedSize(jsontext.Value(text)) {
			t.Errorf("%q became %d bytes, and at most %d were expected", text, len(value), indentedSize(jsontext.Value(text)))
		}
	})
}
