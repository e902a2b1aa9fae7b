// Package jsonpatch makes the patch that leads from one JSON value to another
// (RFC 6902), in time and space that the values bound.
package jsonpatch

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Diff returns a JSON Patch that makes to of from. Both are strict JSON without white
// space between its tokens, as strictjson.Compact returns it; the error says that one
// is not.
//
// Values are the same if they are written the same, so that no number is ever taken
// for another; the order of members does not count. Elements of arrays are compared
// place by place between those that are the same at the beginning and at the end.
// Where a patch of the parts would be longer than the whole, the whole is replaced:
// the patch of a member or an element is never longer than to replace it.
func Diff(from, to []byte) (patch []byte, err error) {
	d := &differ{patch: []byte{'['}}
	if d.from, err = read(from); err != nil {
		return nil, err
	}
	if d.to, err = read(to); err != nil {
		return nil, err
	}
	d.diff(span{0, uint32(len(from))}, span{0, uint32(len(to))}, maxPatch)
	return append(bytes.TrimSuffix(d.patch, []byte{','}), ']'), nil
}

// maxPatch is no bound: that of the whole value is less.
const maxPatch = 1 << 62

// A differ makes one patch.
type differ struct {
	from, to *document
	patch    []byte // operations, with a comma behind each
	path     []byte // of the value that is looked at, as a JSON Pointer (RFC 6901)
}

// diff adds what makes b of a. It is false, and the patch is of no use, if the patch
// would become longer than room.
func (d *differ) diff(a, b span, room int) bool {
	was, is := d.from.at(a), d.to.at(b)
	if bytes.Equal(was, is) {
		return true
	}
	start := len(d.patch)
	if was[0] == is[0] && (was[0] == '{' || was[0] == '[') {
		parts := d.objects
		if was[0] == '[' {
			parts = d.arrays
		}
		whole := len(`{"op":"replace","path":"","value":},`) + len(d.path) + len(is)
		if parts(a, b, min(room, start+whole)) {
			return true
		}
		d.patch = d.patch[:start]
	}
	return d.operation("replace", is, room)
}

// operation adds an operation on the value at the path; value is nil for none.
func (d *differ) operation(op string, value []byte, room int) bool {
	d.patch = append(append(append(d.patch, `{"op":"`...), op...), `","path":`...)
	d.patch, _ = jsontext.AppendQuote(d.patch, d.path) // of names that were read strictly
	if value != nil {
		d.patch = append(append(d.patch, `,"value":`...), value...)
	}
	d.patch = append(d.patch, '}', ',')
	return len(d.patch) <= room
}

// below calls f with the path of a part of the value that is looked at.
func (d *differ) below(token string, f func() bool) bool {
	length := len(d.path)
	d.path = append(append(d.path, '/'), token...)
	ok := f()
	d.path = d.path[:length]
	return ok
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

func (d *differ) objects(a, b span, room int) bool {
	old, now := d.from.members(a), d.to.members(b)
	for len(old) > 0 || len(now) > 0 { // in the order of all names
		order := 0
		switch {
		case len(now) == 0:
			order = -1
		case len(old) == 0:
			order = 1
		default:
			order = bytes.Compare(old[0].name, now[0].name)
		}
		var name []byte
		var was, is span
		if order <= 0 {
			name, was, old = old[0].name, old[0].value, old[1:]
		}
		if order >= 0 {
			name, is, now = now[0].name, now[0].value, now[1:]
		}
		if !d.below(pointerEscaper.Replace(string(name)), func() bool {
			switch {
			case order < 0:
				return d.operation("remove", nil, room)
			case order > 0:
				return d.operation("add", d.to.at(is), room)
			}
			return d.diff(was, is, room)
		}) {
			return false
		}
	}
	return true
}

func (d *differ) arrays(a, b span, room int) bool {
	old, now := d.from.elements(a), d.to.elements(b)
	same := func(was, is span) bool { return bytes.Equal(d.from.at(was), d.to.at(is)) }
	first := 0
	for first < min(len(old), len(now)) && same(old[first], now[first]) {
		first++
	}
	old, now = old[first:], now[first:]
	for len(old) > 0 && len(now) > 0 && same(old[len(old)-1], now[len(now)-1]) {
		old, now = old[:len(old)-1], now[:len(now)-1]
	}
	both := min(len(old), len(now))
	for i := range both {
		if !d.below(strconv.Itoa(first+i), func() bool { return d.diff(old[i], now[i], room) }) {
			return false
		}
	}
	for i := len(old) - 1; i >= both; i-- {
		if !d.below(strconv.Itoa(first+i), func() bool { return d.operation("remove", nil, room) }) {
			return false
		}
	}
	for i := both; i < len(now); i++ {
		if !d.below(strconv.Itoa(first+i), func() bool { return d.operation("add", d.to.at(now[i]), room) }) {
			return false
		}
	}
	return true
}
