package csvrows

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestRowsAreRFC4180(t *testing.T) {
	var b bytes.Buffer
	e := NewEncoder(&b, []string{"name", "claimed.domain", "scopes", "number:hash"}, nil, true)
	err := e.Encode([]jsontext.Value{
		jsontext.Value(`{"name":"a \"b\", c\nd","claimed":{"domain":"x.example"},"scopes":["a","b"],"number":1,"hash":"f"}`),
		jsontext.Value(`{"name":"=1+1","claimed":null}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "name,claimed.domain,scopes,number:hash\r\n" + "\"a \"\"b\"\", c\r\nd\",x.example,a b,1:f\r\n" + "'=1+1,,,:\r\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	if _, err := csv.NewReader(&b).ReadAll(); err != nil {
		t.Error(err)
	}
}

func TestSpreadsheetsEvaluateNoCellAndReadingRestoresIt(t *testing.T) {
	for _, text := range []string{"", "plain", "=1+1", "+1", "-1", "@a", "\ta", "\ra", "'=1+1", "''=1", "'plain", "'", "a=1", "\n=1", "＝1", "＋1", "－1", "＠a", "'＝1", "\xff", "é"} {
		cell := Escape(text)
		if strings.IndexAny(cell, "=+-@\t\r\n＝＋－＠") == 0 {
			t.Errorf("%q is %q", text, cell)
		}
		if back := Unescape(cell); back != text {
			t.Errorf("%q is %q, and then %q", text, cell, back)
		}
	}
}
