package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

// This file decodes members that are arrays, and texts that are.

// InnerArray decodes an array member whose elements are objects, at most most. The faults of their
// members are added to the outermost object. InnerArray returns nil if the member is absent, null or has
// a fault, and otherwise the elements that are objects.
func (o *Object) InnerArray(name string, presence Presence, most int) (all []*Object) {
	array := o.Array(name, presence)
	if array == nil {
		return nil
	}
	elements, ok := Elements(array, most)
	if !ok {
		o.Fault(name, fmt.Sprintf("must have at most %d elements", most))
		return nil
	}
	for i, element := range elements {
		path := o.path + "/" + pointerEscaper.Replace(name) + "/" + strconv.Itoa(i)
		if element[0] != '{' {
			if !o.isFull() {
				o.fault(path, "must be an object")
			}
			continue
		}
		inner, err := Parse(element)
		if err != nil { // unreachable: it was parsed with o
			o.Fault(name, "is not strict JSON")
			return nil
		}
		inner.outer, inner.path = o, path
		all = append(all, inner)
	}
	return all
}

// Texts decodes an array member of 1 to most strings. check returns the detail of a fault of one, or "".
// Texts returns nil if the member is absent, null or has a fault.
func (o *Object) Texts(name string, presence Presence, most int, check func(string) string) (texts []string) {
	array := o.Array(name, presence)
	if array == nil {
		return nil
	}
	elements, ok := Elements(array, most)
	if !ok || len(elements) == 0 {
		o.Fault(name, fmt.Sprintf("must have 1 to %d elements", most))
		return nil
	}
	valid := true
	for i, element := range elements {
		text, fault := "", "must be a string"
		if element[0] == '"' {
			text = string(unquoted(element))
			fault = check(text)
		}
		if fault != "" {
			valid = false
			if !o.isFull() {
				o.fault(o.path+"/"+pointerEscaper.Replace(name)+"/"+strconv.Itoa(i), fault)
			}
		}
		texts = append(texts, text)
	}
	if !valid {
		return nil
	}
	return texts
}

// Array returns the JSON text of an array member, or nil if it is absent, null or has a
// fault.
func (o *Object) Array(name string, presence Presence) []byte {
	return o.decode(name, presence, "an array", "[")
}

// Elements returns the JSON text of each element of a parsed array. It returns false if the
// array has more than most elements.
func Elements(array []byte, most int) (elements [][]byte, ok bool) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(array), duplicatesAllowed)
	if _, err := dec.ReadToken(); err != nil {
		return nil, false
	}
	for dec.PeekKind() != ']' {
		v, err := dec.ReadValue()
		if err != nil || len(elements) == most {
			return nil, false
		}
		end := int(dec.InputOffset())
		elements = append(elements, array[end-len(v):end:end])
	}
	return elements, true
}

// Objects parses an object, or an array of at most most objects, and returns the JSON text of each. A text is nested at most
// MaxDepth-1 levels, so that it can be a member of an object. If b is not strict JSON or something else, the error is an
// *atrium.Error with the first fault.
func Objects(b []byte, most int) (objects [][]byte, err error) {
	start := skipSpace(b, 0)
	inArray := start < len(b) && b[start] == '['
	deepest := MaxDepth - 1
	if inArray {
		deepest = MaxDepth
	}
	if at := tooDeepAt(b, deepest); at >= 0 {
		return nil, tooDeep(b, int64(at), deepest)
	}
	if !inArray {
		if _, err := ParseBatch(b); err != nil {
			return nil, err
		}
		return [][]byte{bytes.Trim(b, " \t\r\n")}, nil
	}
	if len(b) > maxText {
		return nil, atrium.Invalid(bodyFault("", "is too long"))
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(b), duplicatesAllowed)
	if _, err := dec.ReadToken(); err != nil {
		return nil, syntaxFault(b, err)
	}
	for dec.PeekKind() != ']' {
		v, err := dec.ReadValue()
		switch {
		case err != nil:
			return nil, syntaxFault(b, err)
		case v[0] != '{':
			return nil, atrium.Invalid(bodyFault("/"+strconv.Itoa(len(objects)), "must be an object"))
		case len(objects) == most:
			return nil, atrium.Invalid(bodyFault("", fmt.Sprintf("must have at most %d elements", most)))
		}
		end := int(dec.InputOffset())
		objects = append(objects, b[end-len(v):end:end])
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, syntaxFault(b, err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, atrium.Invalid(bodyFault("", fmt.Sprintf("has data after its end, at byte %d", dec.InputOffset())))
	}
	if at := duplicateAt(b); at >= 0 {
		return nil, duplicate(b, at)
	}
	return objects, nil
}
