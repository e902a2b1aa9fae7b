package canonical

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Value returns the canonical form of a JSON value. Two forms are equal if and only if the
// values are: white space, the order of members and the notation of numbers do not matter.
// It returns an error if v is not JSON.
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

// A Pointer is a parsed JSON Pointer (RFC 6901).
type Pointer []string

// ParsePointer parses a JSON Pointer. It returns false if text is invalid.
func ParsePointer(text string) (Pointer, bool) {
	p := jsontext.Pointer(text)
	return slices.Collect(p.Tokens()), p.IsValid()
}

// In returns the value at the pointer in the JSON value v, as a part of v. It returns nil if
// there is none.
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

// enterMember reads an object up to the value of a member and reports whether it exists.
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

// enterElement reads an array up to an element and reports whether it exists. A number with
// leading zeros is not an element.
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
