// Package strictjson parses JSON objects strictly and reports all faults in their members.
//
// It accepts I-JSON (RFC 7493): JSON (RFC 8259) without duplicate member names, invalid
// UTF-8 or lone surrogates. It also rejects byte order marks, data after the value, and
// nesting deeper than MaxDepth. Numbers keep their digits and are never converted to
// floating point.
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

// MaxDepth is the maximum nesting depth of objects and arrays.
const MaxDepth = 64

// maxPointer is the maximum length of a pointer in a fault, in bytes. Pointers contain
// member names, which the client chooses.
const maxPointer = 256

// An Object is a parsed JSON object. Its methods decode members and collect the faults of
// invalid ones: decode all members first, then call RejectUnknown and Faults. An Object is
// not safe for concurrent use.
type Object struct {
	text    []byte // the parsed text
	members []member
	scratch []byte         // buffer for unescaped names
	faults  []atrium.Fault // of this object and all inner ones; only used in the outermost object
	outer   *Object        // the object that has this one as a member; nil for the outermost
	path    string         // JSON Pointer to the object
}

// A member has the offsets of a member in the text. It is small, because there may be one
// for every few bytes of text.
type member struct {
	name, value, end uint32 // of the opening quote of the name, the value, and the end of the value
	escaped          bool   // the name has escape sequences
	decoded          bool   // a method has decoded the member
}

// name returns the name of a member.
func (o *Object) name(m *member) string {
	quoted := o.quoted(m)
	if m.escaped {
		return string(unquoted(quoted))
	}
	return string(quoted[1 : len(quoted)-1])
}

// quoted returns the name of a member as a JSON string.
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

// Parse parses an object from b, which must not change while the object is used. If b is
// not strict JSON or not an object, the error is an *atrium.Error with the first fault.
func Parse(b []byte) (*Object, error) {
	if at := tooDeepAt(b, MaxDepth); at >= 0 {
		return nil, tooDeep(b, int64(at), MaxDepth)
	}
	return ParseBatch(b)
}

// ParseBatch is Parse for an object with a batch of objects, each of which the caller parses
// with Parse. It does not enforce MaxDepth, so that only the batch items that are nested too
// deep are rejected. The decoder's limit of 10,000 levels still applies.
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
		return nil, atrium.Invalid(bodyFault("", fmt.Sprintf("has data after its end, at byte %d", dec.InputOffset())))
	}
	if at := duplicateAt(b); at >= 0 {
		return nil, duplicate(b, at)
	}
	return o, nil
}

// maxText is the maximum length of a text: the offsets of a member have 32 bits.
const maxText = math.MaxUint32

// duplicatesAllowed disables the decoder's detection of duplicate names, which stores the
// names of an object in a map of many times their size. See duplicate.go.
var duplicatesAllowed = jsontext.AllowDuplicateNames(true)

var openObject, openArray = []byte("{"), []byte("[")

// tooDeepAt returns the offset of the first object or array in b that exceeds a depth, or
// -1. The decoder detects invalid JSON.
func tooDeepAt(b []byte, most int) int {
	if bytes.Count(b, openObject)+bytes.Count(b, openArray) <= most { // bytes.Count is vectorized
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
			if depth++; depth > most {
				return i
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return -1
}

// tooDeep returns the error for nesting that exceeds a depth at an offset of b.
func tooDeep(b []byte, at int64, most int) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(b), duplicatesAllowed)
	for dec.InputOffset() < at {
		if kind := dec.PeekKind(); dec.StackDepth() == most && (kind == '{' || kind == '[') {
			break
		}
		if _, err := dec.ReadToken(); err != nil {
			return syntaxFault(b, err)
		}
	}
	return atrium.Invalid(bodyFault(string(dec.StackPointer()), fmt.Sprintf("is nested more than %d levels deep", most)))
}

func bodyFault(pointer, detail string) atrium.Fault {
	for len(pointer) > maxPointer {
		cut := strings.LastIndexByte(pointer[:maxPointer+1], '/')
		pointer = pointer[:max(cut, 0)]
	}
	return atrium.Fault{In: atrium.InBody, Where: strings.Clone(pointer), Detail: detail} // a copy: the log of refused requests keeps it
}

// Fault adds a fault of a member, unless there are atrium.MaxFaults already.
func (o *Object) Fault(name, detail string) {
	if !o.isFull() {
		o.fault(o.path+"/"+pointerEscaper.Replace(name), detail)
	}
}

// WholeFault adds a fault of the object itself, unless there are atrium.MaxFaults already.
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

// isFull reports whether there are atrium.MaxFaults faults.
func (o *Object) isFull() bool { return len(o.outermost().faults) >= atrium.MaxFaults }

// pointerEscaper escapes a token of a JSON Pointer (RFC 6901 section 3).
var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// Faults returns the first atrium.MaxFaults faults of the object and its inner objects. o
// must be the outermost object.
func (o *Object) Faults() []atrium.Fault { return o.faults }

// Has reports whether the object has the member, even if it is null.
func (o *Object) Has(name string) bool {
	for i := range o.members {
		if o.isNamed(&o.members[i], name) {
			return true
		}
	}
	return false
}

// Names returns the names of all members in order.
func (o *Object) Names() []string {
	names := make([]string, len(o.members))
	for i := range o.members {
		names[i] = o.name(&o.members[i])
	}
	return names
}

// Value decodes a member of any type. It returns the JSON text of the value, which is a
// part of the parsed text, or nil if there is no such member.
func (o *Object) Value(name string) []byte {
	for i := range o.members {
		if m := &o.members[i]; o.isNamed(m, name) {
			m.decoded = true
			return o.text[m.value:m.end:m.end]
		}
	}
	return nil
}

// Presence states whether a member may be absent or null.
type Presence int

// The presences.
const (
	Optional Presence = iota // may be absent, but not null
	Required                 // must be present and not null
	Nullable                 // may be absent or null, which mean the same
)

// decode returns the JSON text of a member, or nil if it is absent, null or has a fault.
// typeName names the type in the fault of another type. firstBytes are the bytes that a
// value of the type may begin with.
func (o *Object) decode(name string, presence Presence, typeName, firstBytes string) []byte {
	v := o.Value(name)
	switch {
	case v == nil && presence == Required:
		o.Fault(name, "is required")
	case v == nil || presence == Nullable && v[0] == 'n':
		return nil
	case strings.IndexByte(firstBytes, v[0]) < 0:
		o.Fault(name, "must be "+typeName)
		return nil
	}
	return v
}

// Text decodes a string member. If check is not nil, it returns the detail of a fault, or ""
// for a valid text. Text returns "" and false if the member is absent, null or has a fault.
func (o *Object) Text(name string, presence Presence, check func(string) string) (string, bool) {
	v := o.decode(name, presence, "a string", `"`)
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

// Bool decodes an optional boolean member. It returns false if the member is absent or has a fault.
func (o *Object) Bool(name string) bool {
	v := o.decode(name, Optional, "true or false", "tf")
	return v != nil && v[0] == 't'
}

// Digits parses a number from 0 to most that consists of decimal digits only. It returns
// false for any other text.
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

// Object returns the JSON text of an object member, or nil if it is absent, null or has a
// fault.
func (o *Object) Object(name string, presence Presence) []byte {
	return o.decode(name, presence, "an object", "{")
}

// Inner decodes an object member. The faults of its members are added to the outermost
// object. Inner returns nil if the member is absent, null or has a fault.
func (o *Object) Inner(name string, presence Presence) *Object {
	v := o.Object(name, presence)
	if v == nil {
		return nil
	}
	inner, err := Parse(v)
	if err != nil { // unreachable: v was parsed with o
		o.Fault(name, "is not strict JSON")
		return nil
	}
	inner.outer, inner.path = o, o.path+"/"+pointerEscaper.Replace(name)
	return inner
}

// RejectUnknown adds a fault for each member that no method has decoded, up to
// atrium.MaxFaults.
func (o *Object) RejectUnknown() {
	for i := range o.members {
		m := &o.members[i]
		if m.decoded {
			continue
		}
		if o.isFull() {
			return
		}
		o.Fault(o.name(m), "is not a known field")
	}
}

// Unknown returns the number of members that no method has decoded, and the names of the first most
// of them.
func (o *Object) Unknown(most int) (count int, names []string) {
	for i := range o.members {
		m := &o.members[i]
		if m.decoded {
			continue
		}
		if count++; count <= most {
			names = append(names, o.name(m))
		}
	}
	return count, names
}

// Compact returns a valid JSON value without the white space between its tokens.
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
