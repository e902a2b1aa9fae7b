package summary

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

// What Default shows of a payload.
const (
	defaultValues = 5
	defaultLength = 40 // of a value, in code points
)

// Default returns the summary of a payload without a template: the names and the values of its first members that
// are not objects or arrays. It reads the payload only so far.
func Default(payload []byte) string {
	var l line
	d := jsontext.NewDecoder(bytes.NewBuffer(payload), jsontext.AllowDuplicateNames(true))
	if d.PeekKind() != '{' {
		l.write(string(payload))
		return l.String()
	}
	_, _ = d.ReadToken() // the brace
	for values := 0; values < defaultValues && d.PeekKind() == '"'; {
		token, _ := d.ReadToken() // the name: the payload is valid
		name := token.String()
		if kind := d.PeekKind(); kind == '{' || kind == '[' {
			if d.SkipValue() != nil {
				break
			}
			continue
		}
		value, err := d.ReadToken()
		if err != nil {
			break
		}
		if values > 0 {
			l.write(" · ")
		}
		l.write(name + " " + atrium.Shorten(defaultLength, value.String()))
		values++
	}
	return l.String()
}

// Of returns the summary of the payload of an entry with a source and a type: that of its template, or the default.
func (all Templates) Of(source, entryType string, payload []byte) string {
	if t := all.Find(source, entryType); t != nil {
		return t.Render(payload)
	}
	return Default(payload)
}
