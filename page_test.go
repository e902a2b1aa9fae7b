package atrium_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"atrium"
)

func TestPageSizeCountsTextsAsJSON(t *testing.T) {
	text := make([]byte, 0, 128)
	for c := range byte(128) {
		text = append(text, c)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(string(text)); err != nil {
		t.Fatal(err)
	}
	id, quotesAndNewline := string(text), len("\"\"\n")
	p := atrium.Page{Name: string(text), Title: string(text), Context: string(text), HeaderActionID: &id, Actions: text, Scripts: text, FooterLinks: text, Metadata: text, BrandID: "brand"}
	if want := 4*(b.Len()-quotesAndNewline) + 4*len(text) + len("brand"); p.Size() != want {
		t.Errorf("the size is %d, want %d", p.Size(), want)
	}
}
