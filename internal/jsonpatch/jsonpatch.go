// Package jsonpatch computes a JSON Patch (RFC 6902) between two JSON values. Memory and the
// size of the patch are linear in the size of the values, whatever they contain.
package jsonpatch

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Diff returns a JSON Patch that changes from into to. Both must be strict JSON without white
// space between tokens, such as strictjson.Compact returns. Otherwise, Diff returns an error.
//
// Scalars are equal if their JSON texts are, so that distinct numbers never compare equal.
// The order of members does not matter. In arrays, Diff skips the equal elements at the
// beginning and at the end, and compares the others by index. If the operations on the parts
// of a value are longer than its replacement, Diff replaces the value. So the patch of a value
// is never longer than one that replaces it.
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

// maxPatch is effectively no limit: diff applies a lower one to each value.
const maxPatch = 1 << 62

// A differ computes one patch.
type differ struct {
	from, to *document
	patch    []byte // operations, each followed by a comma
	path     []byte // JSON Pointer (RFC 6901) to the current value
}

// diff appends the operations that change a into b. It returns false if the patch exceeds
// limit bytes; the appended part is then incomplete.
func (d *differ) diff(a, b span, limit int) bool {
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
		if parts(a, b, min(limit, start+whole)) {
			return true
		}
		d.patch = d.patch[:start]
	}
	return d.operation("replace", is, limit)
}

// operation appends an operation on the current path. value is nil for an operation without
// a value. It returns false if the patch exceeds limit bytes.
func (d *differ) operation(op string, value []byte, limit int) bool {
	d.patch = append(append(append(d.patch, `{"op":"`...), op...), `","path":`...)
	d.patch, _ = jsontext.AppendQuote(d.patch, d.path) // never fails: the names are valid UTF-8
	if value != nil {
		d.patch = append(append(d.patch, `,"value":`...), value...)
	}
	d.patch = append(d.patch, '}', ',')
	return len(d.patch) <= limit
}

// inPart calls f with the path of a member or element of the current value.
func (d *differ) inPart(token string, f func() bool) bool {
	length := len(d.path)
	d.path = append(append(d.path, '/'), token...)
	ok := f()
	d.path = d.path[:length]
	return ok
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

func (d *differ) objects(a, b span, limit int) bool {
	old, now := d.from.members(a), d.to.members(b)
	for len(old) > 0 || len(now) > 0 { // merges the sorted members
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
		if !d.inPart(pointerEscaper.Replace(string(name)), func() bool {
			switch {
			case order < 0:
				return d.operation("remove", nil, limit)
			case order > 0:
				return d.operation("add", d.to.at(is), limit)
			}
			return d.diff(was, is, limit)
		}) {
			return false
		}
	}
	return true
}

func (d *differ) arrays(a, b span, limit int) bool {
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
		if !d.inPart(strconv.Itoa(first+i), func() bool { return d.diff(old[i], now[i], limit) }) {
			return false
		}
	}
	for i := len(old) - 1; i >= both; i-- {
		if !d.inPart(strconv.Itoa(first+i), func() bool { return d.operation("remove", nil, limit) }) {
			return false
		}
	}
	for i := both; i < len(now); i++ {
		if !d.inPart(strconv.Itoa(first+i), func() bool { return d.operation("add", d.to.at(now[i]), limit) }) {
			return false
		}
	}
	return true
}
