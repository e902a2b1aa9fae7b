package jsonpatch

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// A document is a JSON text with an index of its objects and arrays. It finds the end of a
// value without reading it, so that iterating over a value does not read the levels below.
type document struct {
	text   []byte
	opens  []uint32 // offsets of objects and arrays, in order
	closes []uint32 // the end of each
}

// A span has the offsets of a value. It is small, because there may be one for every few bytes.
type span struct{ from, to uint32 }

// A member has the name and the span of a member.
type member struct {
	name  []byte
	value span
}

var (
	errSpace = errors.New("compare JSON: white space between tokens")
	errLong  = errors.New("compare JSON: the text is too long")
)

// read indexes text. It returns an error unless text is JSON without white space between tokens.
func read(text []byte) (*document, error) {
	if len(text) > math.MaxUint32 {
		return nil, errLong
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true)) // strictjson has rejected them
	if _, err := dec.ReadValue(); err != nil {
		return nil, fmt.Errorf("compare JSON: %w", err)
	}
	if int(dec.InputOffset()) != len(text) {
		return nil, errors.New("compare JSON: data after the value")
	}
	d := &document{text: text}
	nested := bytes.Count(text, []byte("{")) + bytes.Count(text, []byte("[")) // includes those in strings
	d.opens, d.closes = make([]uint32, 0, nested), make([]uint32, 0, nested)
	var open []int // indexes of open objects and arrays
	for i := uint32(0); i < uint32(len(text)); i++ {
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

// value returns the span of the value that begins at an offset.
func (d *document) value(from uint32) span {
	switch d.text[from] {
	case '"':
		return span{from, d.endOfString(from)}
	case '{', '[':
		n, _ := slices.BinarySearch(d.opens, from)
		return span{from, d.closes[n]}
	}
	to := from
	for to < uint32(len(d.text)) && d.text[to] != ',' && d.text[to] != '}' && d.text[to] != ']' {
		to++
	}
	return span{from, to}
}

func (d *document) endOfString(from uint32) uint32 {
	for i := from + 1; ; i++ {
		switch d.text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// elements returns the spans of the elements of an array.
func (d *document) elements(array span) []span {
	n := 0
	for i := array.from + 1; i < array.to-1; i = d.value(i).to + 1 { // skips the comma
		n++
	}
	all := make([]span, 0, n)
	for i := array.from + 1; i < array.to-1; {
		v := d.value(i)
		all = append(all, v)
		i = v.to + 1
	}
	return all
}

// members returns the members of an object, sorted by name.
func (d *document) members(object span) []member {
	n := 0
	for i := object.from + 1; i < object.to-1; i = d.value(d.endOfString(i)+1).to + 1 {
		n++
	}
	all := make([]member, 0, n)
	for i := object.from + 1; i < object.to-1; {
		quoted := d.at(d.value(i))
		name := quoted[1 : len(quoted)-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			name, _ = jsontext.AppendUnquote(nil, quoted) // never fails: read has validated it
		}
		v := d.value(i + uint32(len(quoted)) + 1)
		all = append(all, member{name, v})
		i = v.to + 1
	}
	slices.SortFunc(all, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	return all
}
