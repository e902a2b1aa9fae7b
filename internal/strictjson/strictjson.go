// Package strictjson reads JSON objects strictly and names every fault in them.
//
// Strictly means RFC 8259 with RFC 7493 (I-JSON) on top: no member name twice in
// one object, no invalid UTF-8, no lone surrogate, no byte order mark, nothing
// behind the value, and nesting of MaxDepth levels at most. Numbers keep their
// digits: nothing is ever turned into a floating-point number.
package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

// MaxDepth is how many objects and arrays may stand one inside of another.
const MaxDepth = 64

// maxPointer bounds the pointers in faults, in bytes: they hold names that the
// sender chose.
const maxPointer = 256

// An Object is a JSON object that was read strictly. Its methods take members
// out of it and collect the faults of those that are not as they must be. It is
// used by one goroutine.
type Object struct {
	text    []byte // what it was read from
	members []member
	scratch []byte         // for a name that is compared
	faults  []atrium.Fault // of the outermost one, of all within it
	outer   *Object        // the one that it is a member of; nil for none
	path    string         // the pointer to it
}

// A member says where it is in the text, and is small: there may be one for every few
// bytes of that.
type member struct {
	name, value, end uint32 // where the name begins with its quote, and the value begins and ends
	escaped          bool   // the name has escape sequences
	taken            bool
}

// name returns the name of a member.
func (o *Object) name(m *member) string {
	quoted := o.quoted(m)
	if m.escaped {
		return string(unquoted(quoted))
	}
	return string(quoted[1 : len(quoted)-1])
}

// quoted returns the name of a member with its quotes.
func (o *Object) quoted(m *member) []byte {
	from := o.text[m.name:m.value]
	return from[:bytes.LastIndexByte(from, '"')+1]
}

// isNamed reports whether a member has the name.
func (o *Object) isNamed(m *member, name string) bool {
	quoted := o.quoted(m)
	if m.escaped {
		o.scratch, _ = jsontext.AppendUnquote(o.scratch[:0], quoted)
		return string(o.scratch) == name
	}
	return string(quoted[1:len(quoted)-1]) == name
}

// Parse reads an object from b, which must not change while the object is used.
// If b is not strict JSON or no object, the error is an *atrium.Error with the
// one fault that was found first.
func Parse(b []byte) (*Object, error) {
	if at := tooDeepAt(b); at >= 0 {
		return nil, tooDeep(jsontext.NewDecoder(bytes.NewBuffer(b), duplicatesAllowed), int64(at))
	}
	return ParseBatch(b)
}

// ParseBatch is Parse for an object that holds objects which are each parsed in turn: it
// leaves it to that to find those that are nested too deep. Only what has more than
// 10,000 levels is not taken.
func ParseBatch(b []byte) (*Object, error) {
	if len(b) > maxText {
		return nil, atrium.Invalid(bodyFault("", "is too long"))
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(b), duplicatesAllowed)
	o := &Object{text: b, members: make([]member, 0, 8)}
	if kind := dec.PeekKind(); kind != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return nil, syntaxFault(b, err)
		}
		return nil, atrium.Invalid(bodyFault("", "must be an object"))
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, syntaxFault(b, err)
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadValue()
		if err != nil {
			return nil, syntaxFault(b, err)
		}
		m := member{name: uint32(int(dec.InputOffset()) - len(name)), escaped: bytes.IndexByte(name, '\\') >= 0}
		value, err := dec.ReadValue()
		if err != nil {
			return nil, syntaxFault(b, err)
		}
		m.end = uint32(dec.InputOffset())
		m.value = m.end - uint32(len(value))
		o.members = append(doubled(o.members), m)
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, syntaxFault(b, err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, atrium.Invalid(bodyFault("", fmt.Sprintf("has something after its end, at byte %d", dec.InputOffset())))
	}
	if at := duplicateAt(b); at >= 0 {
		return nil, duplicate(b, at)
	}
	return o, nil
}

// maxText is the longest text that a member's offsets can name.
const maxText = math.MaxUint32

// duplicatesAllowed has the decoder not look for them: it would keep the names of a large
// object in a map of many times their size.
var duplicatesAllowed = jsontext.AllowDuplicateNames(true)

var openObject, openArray = []byte("{"), []byte("[")

// tooDeepAt returns the offset at which b opens one object or array too many,
// or -1. What is no JSON at all is found by the decoder.
func tooDeepAt(b []byte) int {
	if bytes.Count(b, openObject)+bytes.Count(b, openArray) <= MaxDepth { // counted many bytes at a time
		return -1
	}
	depth, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString:
			switch c {
			case '\\':
				i++
			case '"':
				inString = false
			}
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return i
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return -1
}

// tooDeep reads up to the offset to learn where in the document it is.
func tooDeep(dec *jsontext.Decoder, at int64) error {
	for dec.InputOffset() < at {
		if kind := dec.PeekKind(); dec.StackDepth() == MaxDepth && (kind == '{' || kind == '[') {
			break
		}
		if _, err := dec.ReadToken(); err != nil {
			return syntaxFault(nil, err)
		}
	}
	return atrium.Invalid(bodyFault(string(dec.StackPointer()), fmt.Sprintf("is nested more than %d levels deep", MaxDepth)))
}

// syntaxFault says where a document stops to be strict JSON.
func syntaxFault(b []byte, err error) error {
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !ok && len(bytes.TrimSpace(b)) == 0:
		return atrium.Invalid(bodyFault("", "must not be empty"))
	case !ok:
		return atrium.Invalid(bodyFault("", "ends before it is complete"))
	}
	return atrium.Invalid(bodyFault(string(syntax.JSONPointer), fmt.Sprintf("is not strict JSON at byte %d", syntax.ByteOffset)))
}

func bodyFault(pointer, detail string) atrium.Fault {
	for len(pointer) > maxPointer {
		cut := strings.LastIndexByte(pointer[:maxPointer+1], '/')
		pointer = pointer[:max(cut, 0)]
	}
	return atrium.Fault{In: atrium.InBody, Where: pointer, Detail: detail}
}

// Fault notes a fault of a member, unless there are atrium.MaxFaults.
func (o *Object) Fault(name, detail string) {
	if !o.isFull() {
		o.fault(o.path+"/"+pointerEscaper.Replace(name), detail)
	}
}

// WholeFault notes a fault of the object as a whole, unless there are atrium.MaxFaults.
func (o *Object) WholeFault(detail string) {
	if !o.isFull() {
		o.fault(o.path, detail)
	}
}

func (o *Object) fault(pointer, detail string) {
	outermost := o.outermost()
	outermost.faults = append(outermost.faults, bodyFault(pointer, detail))
}

func (o *Object) outermost() *Object {
	for o.outer != nil {
		o = o.outer
	}
	return o
}

// isFull reports whether there are as many faults as are ever made.
func (o *Object) isFull() bool { return len(o.outermost().faults) >= atrium.MaxFaults }

// pointerEscaper is the escaping of RFC 6901 section 3.
var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// Faults returns what was found wrong so far, in objects within this one too: the first
// atrium.MaxFaults.
func (o *Object) Faults() []atrium.Fault { return o.faults }

// Has reports whether the object has the member, null or not.
func (o *Object) Has(name string) bool {
	for i := range o.members {
		if o.isNamed(&o.members[i], name) {
			return true
		}
	}
	return false
}

// Names returns the names of all members, in their order.
func (o *Object) Names() []string {
	names := make([]string, len(o.members))
	for i := range o.members {
		names[i] = o.name(&o.members[i])
	}
	return names
}

// Value takes a member of any kind, exactly as it was written; nil if there is
// none. The bytes are part of what was parsed.
func (o *Object) Value(name string) []byte {
	for i := range o.members {
		if m := &o.members[i]; o.isNamed(m, name) {
			m.taken = true
			return o.text[m.value:m.end:m.end]
		}
	}
	return nil
}

// Need says whether a member may be left out, and whether it may be null.
type Need int

// The needs.
const (
	Optional Need = iota // may be left out
	Required             // must be there
	Nullable             // may be left out or null, which is the same
)

// take returns a member of one of the kinds, or nil. Its absence, or another
// kind, is a fault if the need says so.
func (o *Object) take(name string, need Need, what string, kinds string) []byte {
	v := o.Value(name)
	switch {
	case v == nil && need == Required:
		o.Fault(name, "is required")
	case v == nil || need == Nullable && v[0] == 'n':
		return nil
	case strings.IndexByte(kinds, v[0]) < 0:
		o.Fault(name, "must be "+what)
		return nil
	}
	return v
}

// Text takes a string member. check, which may be nil, says what is wrong with
// it, or "". Without the member, or with a fault, it returns "" and false.
func (o *Object) Text(name string, need Need, check func(string) string) (string, bool) {
	v := o.take(name, need, "a string", `"`)
	if v == nil {
		return "", false
	}
	var text string
	if body := v[1 : len(v)-1]; bytes.IndexByte(body, '\\') < 0 {
		text = string(body)
	} else {
		text = string(unquoted(v))
	}
	if check != nil {
		if fault := check(text); fault != "" {
			o.Fault(name, fault)
			return "", false
		}
	}
	return text, true
}

// Bool takes a boolean member; false without it.
func (o *Object) Bool(name string) bool {
	v := o.take(name, Optional, "true or false", "tf")
	return v != nil && v[0] == 't'
}

// Digits returns the number that s writes in decimal digits alone. It is false
// if s has anything else in it, or is more than most.
func Digits(s string, most int64) (n int64, ok bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		if n = n*10 + int64(s[i]-'0'); n > most {
			return 0, false
		}
	}
	return n, s != ""
}

// Object takes a member that is an object, exactly as it was written.
func (o *Object) Object(name string, need Need) []byte {
	return o.take(name, need, "an object", "{")
}

// Inner takes a member that is an object, to take members out of it in turn. What is
// wrong with these is noted in the outermost object. Without the member, or with a
// fault, it returns nil.
func (o *Object) Inner(name string, need Need) *Object {
	v := o.Object(name, need)
	if v == nil {
		return nil
	}
	inner, err := Parse(v)
	if err != nil { // it was read strictly before
		o.Fault(name, "is not strict JSON")
		return nil
	}
	inner.outer, inner.path = o, o.path+"/"+pointerEscaper.Replace(name)
	return inner
}

// Array takes a member that is an array, exactly as it was written.
func (o *Object) Array(name string, need Need) []byte {
	return o.take(name, need, "an array", "[")
}

// Elements returns the elements of an array that was read strictly, exactly as they
// were written, or false if it has more than most.
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

// Untaken notes a fault for every member that nothing has taken, up to atrium.MaxFaults.
func (o *Object) Untaken() {
	for i := range o.members {
		m := &o.members[i]
		if m.taken {
			continue
		}
		if o.isFull() {
			return
		}
		o.Fault(o.name(m), "is not a member that is known here")
	}
}

// Compact returns a JSON value without the white space between its tokens and
// otherwise as it is.
func Compact(v []byte) []byte {
	out := make([]byte, 0, len(v))
	inString := false
	for i := 0; i < len(v); i++ {
		c := v[i]
		switch {
		case inString:
			switch c {
			case '\\':
				out = append(out, c)
				i++
				c = v[i]
			case '"':
				inString = false
			}
		case c == '"':
			inString = true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			continue
		}
		out = append(out, c)
	}
	return out
}
