// Package appendjson writes the JSON of the answers that are asked for most, without
// reflection. What it writes is byte for byte what package rest would encode by it: tests
// beside those answers hold both against each other.
package appendjson

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/strictjson"
)

// A Writer appends to a text. Commas and colons, and the names of members, are its
// caller's. It is used by one goroutine.
type Writer struct {
	Text []byte
	Err  error // why the text is not to be used: some string was not UTF-8
}

// Literal appends JSON as it is.
func (w *Writer) Literal(text string) { w.Text = append(w.Text, text...) }

// String appends a string.
func (w *Writer) String(s string) {
	if !plain(s) {
		var err error
		if w.Text, err = jsontext.AppendQuote(w.Text, s); err != nil {
			w.Err = err
		}
		return
	}
	w.Text = append(w.Text, '"')
	w.Text = append(w.Text, s...)
	w.Text = append(w.Text, '"')
}

// Nullable appends a string, and null for nil.
func (w *Writer) Nullable(s *string) {
	if s == nil {
		w.Literal("null")
		return
	}
	w.String(*s)
}

// Member appends a string behind the comma, the name and the colon of a member, and
// nothing for nil.
func (w *Writer) Member(name string, s *string) {
	if s != nil {
		w.Literal(name)
		w.String(*s)
	}
}

// Int appends a whole number.
func (w *Writer) Int(n int64) { w.Text = strconv.AppendInt(w.Text, n, 10) }

// Bool appends true or false.
func (w *Writer) Bool(b bool) { w.Text = strconv.AppendBool(w.Text, b) }

// Time appends an instant.
func (w *Writer) Time(t atrium.Time) {
	w.Text = append(w.Text, '"')
	w.Text, _ = t.AppendText(w.Text)
	w.Text = append(w.Text, '"')
}

// NullableTime appends an instant, and null for nil.
func (w *Writer) NullableTime(t *atrium.Time) {
	if t == nil {
		w.Literal("null")
		return
	}
	w.Time(*t)
}

// Value appends JSON that was read strictly when it was stored, without the white space
// between its tokens, and null for nil.
func (w *Writer) Value(v []byte) {
	switch {
	case v == nil:
		w.Literal("null")
	case compact(v):
		w.Text = append(w.Text, v...)
	default:
		w.Text = append(w.Text, strictjson.Compact(v)...)
	}
}

// plain reports whether all of s stands in a JSON string as it is. It may be false for
// some of which that is so.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// compact reports whether there is no white space between the tokens of JSON that was
// read strictly. It may be false where there is none. What it looks for, most values do
// not have, and package bytes finds that out many bytes at a time.
func compact(v []byte) bool {
	for _, c := range []byte("\t\n\r\\") { // none of the first three is ever in a string
		if bytes.IndexByte(v, c) >= 0 {
			return false
		}
	}
	for {
		space := bytes.IndexByte(v, ' ')
		if space < 0 {
			return true
		}
		if bytes.Count(v[:space], quote)%2 == 0 { // of no string, as no quote is escaped
			return false
		}
		v = v[space:]
		v = v[bytes.IndexByte(v, '"')+1:]
	}
}

var quote = []byte(`"`)
