package jsonpatch

import (
	"bytes"
	"errors"
	"fmt"
	"sort"

	"github.com/go-json-experiment/json/jsontext"
)

// A document is a JSON text in which the end of every value is found without reading
// it, so that each level of it costs what is on that level.
type document struct {
	text   []byte
	opens  []int // where objects and arrays begin, in order
	closes []int // where each of them ends
}

// A span is where a value is.
type span struct{ from, to int }

var errSpace = errors.New("compare JSON: there is white space between tokens")

// read returns an error unless text is JSON without white space between its tokens.
func read(text []byte) (*document, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true)) // refused when it came
	if _, err := dec.ReadValue(); err != nil {
		return nil, fmt.Errorf("compare JSON: %w", err)
	}
	if int(dec.InputOffset()) != len(text) {
		return nil, errors.New("compare JSON: something follows the value")
	}
	d := &document{text: text}
	var open []int // those that have not ended yet, as indexes
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = d.endOfString(i) - 1
		case '{', '[':
			open = append(open, len(d.opens))
			d.opens, d.closes = append(d.opens, i), append(d.closes, 0)
		case '}', ']':
			d.closes[open[len(open)-1]] = i + 1
			open = open[:len(open)-1]
		case ' ', '\t', '\n', '\r':
			return nil, errSpace
		}
	}
	return d, nil
}

func (d *document) at(s span) []byte { return d.text[s.from:s.to] }

// value returns the span of the value that begins at a place.
func (d *document) value(from int) span {
	switch d.text[from] {
	case '"':
		return span{from, d.endOfString(from)}
	case '{', '[':
		return span{from, d.closes[sort.SearchInts(d.opens, from)]}
	}
	to := from
	for to < len(d.text) && d.text[to] != ',' && d.text[to] != '}' && d.text[to] != ']' {
		to++
	}
	return span{from, to}
}

func (d *document) endOfString(from int) int {
	for i := from + 1; ; i++ {
		switch d.text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// elements returns where the elements of an array are.
func (d *document) elements(array span) (all []span) {
	for i := array.from + 1; i < array.to-1; i++ { // over the comma
		v := d.value(i)
		all = append(all, v)
		i = v.to
	}
	return all
}

// members returns where the members of an object are, by their names.
func (d *document) members(object span) map[string]span {
	all := map[string]span{}
	for i := object.from + 1; i < object.to-1; i++ { // over the comma
		name := d.value(i)
		text, _ := jsontext.AppendUnquote(nil, d.at(name)) // read strictly
		v := d.value(name.to + 1)
		all[string(text)] = v
		i = v.to
	}
	return all
}
