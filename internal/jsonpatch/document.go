package jsonpatch

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// A document is a JSON text in which the end of every value is found without reading
// it, so that each level of it costs what is on that level.
type document struct {
	text   []byte
	opens  []uint32 // where objects and arrays begin, in order
	closes []uint32 // where each of them ends
}

// A span is where a value is. It is small: there may be one for every few bytes.
type span struct{ from, to uint32 }

// A member is a name and where its value is.
type member struct {
	name  []byte
	value span
}

var (
	errSpace = errors.New("compare JSON: there is white space between tokens")
	errLong  = errors.New("compare JSON: it is too long")
)

// read returns an error unless text is JSON without white space between its tokens.
func read(text []byte) (*document, error) {
	if len(text) > math.MaxUint32 {
		return nil, errLong
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true)) // refused when it came
	if _, err := dec.ReadValue(); err != nil {
		return nil, fmt.Errorf("compare JSON: %w", err)
	}
	if int(dec.InputOffset()) != len(text) {
		return nil, errors.New("compare JSON: something follows the value")
	}
	d := &document{text: text}
	nested := bytes.Count(text, []byte("{")) + bytes.Count(text, []byte("[")) // and those in strings
	d.opens, d.closes = make([]uint32, 0, nested), make([]uint32, 0, nested)
	var open []int // those that have not ended yet, as indexes
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

// value returns the span of the value that begins at a place.
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

// elements returns where the elements of an array are.
func (d *document) elements(array span) []span {
	n := 0
	for i := array.from + 1; i < array.to-1; i = d.value(i).to + 1 { // over the comma
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

// members returns the members of an object, sorted by their names.
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
			name, _ = jsontext.AppendUnquote(nil, quoted) // read strictly
		}
		v := d.value(i + uint32(len(quoted)) + 1)
		all = append(all, member{name, v})
		i = v.to + 1
	}
	slices.SortFunc(all, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	return all
}
