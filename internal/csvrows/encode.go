// Package csvrows writes lists of JSON objects as CSV, and reads CSV into JSON objects. Cells are safe to
// open in spreadsheets: a text that a spreadsheet would evaluate gets a leading apostrophe, which reading
// removes.
package csvrows

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// lenient accepts duplicate names and invalid UTF-8: strictness is up to the API.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// An Encoder writes objects as CSV (RFC 4180), after a row with the names of the members.
type Encoder struct {
	members []string
	clean   func(string) string
	csv     *csv.Writer
	started bool // the names were written
}

// NewEncoder returns an encoder that writes to w. A member is a path of names with dots, or several paths
// joined by colons. clean is applied to each text; nil for none. Lines end with LF, or with CRLF as RFC 4180
// wants.
func NewEncoder(w io.Writer, members []string, clean func(string) string, crlf bool) *Encoder {
	e := &Encoder{members: members, clean: clean, csv: csv.NewWriter(w)}
	e.csv.UseCRLF = crlf
	return e
}

// Encode writes a row for each object, and flushes it.
func (e *Encoder) Encode(objects []jsontext.Value) error {
	if !e.started {
		e.started = true
		if err := e.csv.Write(e.members); err != nil {
			return err
		}
	}
	for _, object := range objects {
		cells, err := Texts(object, e.members, e.clean)
		if err != nil {
			return err
		}
		for i := range cells {
			cells[i] = Escape(cells[i])
		}
		if err := e.csv.Write(cells); err != nil {
			return err
		}
	}
	e.csv.Flush()
	return e.csv.Error()
}

// Note writes a row with a text in its first cell, and flushes it.
func (e *Encoder) Note(text string) error {
	cells := make([]string, len(e.members))
	cells[0] = text
	err := e.csv.Write(cells)
	e.csv.Flush()
	if err == nil {
		err = e.csv.Error()
	}
	return err
}

// formulaStarts are the first characters of cells that some spreadsheet evaluates (OWASP, CSV Injection).
const formulaStarts = "=+-@\t\r\n＝＋－＠"

// evaluated reports whether a spreadsheet evaluates a text, or would without some apostrophes before it.
func evaluated[T string | []byte](text T) bool {
	for i := range len(text) {
		if text[i] != '\'' {
			first, _ := utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))]))
			return strings.ContainsRune(formulaStarts, first)
		}
	}
	return false
}

// Escape keeps a spreadsheet from evaluating a text: the text may come from a client.
func Escape(text string) string {
	if evaluated(text) {
		return "'" + text
	}
	return text
}

// Unescape reverses Escape.
func Unescape[T string | []byte](text T) T {
	if len(text) > 0 && text[0] == '\'' && evaluated(text) {
		return text[1:]
	}
	return text
}

// Texts returns the text of each member of a JSON object.
func Texts(object jsontext.Value, members []string, clean func(string) string) ([]string, error) {
	cells := make([]string, len(members))
	for i, paths := range members {
		var texts []string
		for path := range strings.SplitSeq(paths, ":") {
			v, err := Lookup(object, path)
			if err != nil {
				return nil, err
			}
			texts = append(texts, Text(v, clean))
		}
		cells[i] = strings.Join(texts, ":")
	}
	return cells, nil
}

// Lookup returns the value at a path of member names, or nil.
func Lookup(v jsontext.Value, path string) (jsontext.Value, error) {
	for name := range strings.SplitSeq(path, ".") {
		var members map[string]jsontext.Value
		if v.Kind() != '{' {
			return nil, nil
		}
		if err := json.Unmarshal(v, &members, lenient); err != nil {
			return nil, fmt.Errorf("read response: %w", err)
		}
		v = members[name]
	}
	return v, nil
}

// Text formats a JSON value for a cell: texts without quotes, list items separated by spaces, and "" for
// null.
func Text(v jsontext.Value, clean func(string) string) string {
	var text string
	switch v.Kind() {
	case jsontext.KindInvalid, 'n':
		return ""
	case '"':
		b, err := jsontext.AppendUnquote(nil, v)
		if err != nil {
			return ""
		}
		text = string(b)
	case '[':
		var items []jsontext.Value
		if err := json.Unmarshal(v, &items, lenient); err != nil {
			return ""
		}
		texts := make([]string, len(items))
		for i, item := range items {
			texts[i] = Text(item, clean)
		}
		return strings.Join(texts, " ")
	default:
		text = string(v)
	}
	if clean != nil {
		text = clean(text)
	}
	return text
}
