package canonical

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Value returns the form of a JSON value that is the same for equal values and no
// others: white space, the order of members and the spelling of numbers do not
// count. The error says that it is not JSON.
func Value(v []byte) ([]byte, error) {
	var f form
	b, err := f.append(nil, v)
	if err != nil || len(f.objects) == 0 {
		return b, err
	}
	sorted := bytes.NewBuffer(make([]byte, 0, len(b)))
	f.writeSorted(sorted, b)
	return sorted.Bytes(), nil
}

// A Pointer is a JSON Pointer (RFC 6901), ready to be followed.
type Pointer []string

// ParsePointer reads a pointer. It is false if the text is none.
func ParsePointer(text string) (Pointer, bool) {
	p := jsontext.Pointer(text)
	return slices.Collect(p.Tokens()), p.IsValid()
}

// In returns what the pointer leads to in a JSON value, nil for nothing. The bytes
// are part of the value.
func (p Pointer) In(v []byte) []byte {
	dec := jsontext.NewDecoder(bytes.NewBuffer(v), jsontext.AllowDuplicateNames(true))
	for _, token := range p {
		found := false
		switch dec.PeekKind() {
		case '{':
			found = enterMember(dec, token)
		case '[':
			found = enterElement(dec, token)
		}
		if !found {
			return nil
		}
	}
	found, err := dec.ReadValue()
	if err != nil {
		return nil
	}
	end := int(dec.InputOffset())
	return v[end-len(found) : end : end]
}

// enterMember reads an object up to the value of the member.
func enterMember(dec *jsontext.Decoder, name string) bool {
	if _, err := dec.ReadToken(); err != nil {
		return false
	}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return false
		}
		if token.String() == name {
			return true
		}
		if dec.SkipValue() != nil {
			return false
		}
	}
	return false
}

// enterElement reads an array up to the element, whose number has no leading zeros.
func enterElement(dec *jsontext.Decoder, number string) bool {
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != number {
		return false
	}
	if _, err := dec.ReadToken(); err != nil {
		return false
	}
	for range n {
		if dec.PeekKind() == ']' || dec.SkipValue() != nil {
			return false
		}
	}
	return dec.PeekKind() != ']' && dec.PeekKind() != 0
}
