// Package jsonshape generates JSON objects of a given size whose shape is costly to
// process. Tests and benchmarks use them to find work that grows faster than its input.
package jsonshape

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// MinSize is the smallest size, in bytes, that every shape supports.
const MinSize = 1 << 10

// MaxDepth is the deepest nesting of any shape, the outermost object included. It leaves
// room to put an object inside a request body or an import line, which may be nested 64
// levels deep.
const MaxDepth = 60

// A Shape generates objects. Make returns strict JSON, exactly size bytes long and the
// same on every call. size must be at least MinSize.
type Shape struct {
	Name string
	Make func(size int) []byte
}

// All lists every shape.
var All = []Shape{
	{"wide", Wide},
	{"unsorted", Unsorted},
	{"deep", Deep},
	{"nested", Nested},
	{"long-names", LongNames},
	{"escaped-names", EscapedNames},
	{"long-numbers", LongNumbers},
	{"escapes", Escapes},
	{"objects", Objects},
	{"arrays", Arrays},
}

// Sizes are the sizes that benchmarks compare, in bytes.
var Sizes = []int{1 << 10, 32 << 10, 1 << 20}

// Wide returns an object with as many members as fit, sorted by name.
func Wide(size int) []byte {
	return fill(size, "{", "}", func(i int) string { return shortMember(size, i) })
}

// Unsorted is Wide in reverse order of names.
func Unsorted(size int) []byte {
	last := bytes.Count(Wide(size), []byte{':'}) - 1
	return fill(size, "{", "}", func(i int) string {
		if i > last {
			return strings.Repeat(" ", size)
		}
		return shortMember(size, last-i)
	})
}

// shortMember returns member i of an object of the size: its name has just enough
// characters to be unique, and sorts after that of member i-1.
func shortMember(size, i int) string {
	width := len(strconv.FormatInt(int64(size/8), 36))
	name := strconv.FormatInt(int64(i), 36)
	return `"` + strings.Repeat("0", width-len(name)) + name + `":0`
}

// Deep returns an object with an array of values that are each nested to MaxDepth. Every
// object in them is unsorted.
func Deep(size int) []byte {
	const levels = MaxDepth - 2
	chain := strings.Repeat(`{"b":`, levels) + "0" + strings.Repeat(`,"a":0}`, levels)
	return fill(size, `{"a":[`, "]}", func(int) string { return chain })
}

// Nested returns a wide object inside MaxDepth-1 unsorted objects.
func Nested(size int) []byte {
	head, tail := strings.Repeat(`{"b":`, MaxDepth-1)+"{", "}"+strings.Repeat(`,"a":0}`, MaxDepth-1)
	return fill(size, head, tail, func(i int) string { return shortMember(size, i) })
}

// LongNames returns an object whose names are long, differ only at the end, and are in
// reverse order.
func LongNames(size int) []byte {
	length := min(size/8, 16<<10)
	return fill(size, "{", "}", func(i int) string {
		return fmt.Sprintf(`"%s%06d":0`, strings.Repeat("n", length), 999_999-i)
	})
}

// EscapedNames is Wide with an escape sequence in every name.
func EscapedNames(size int) []byte {
	return fill(size, "{", "}", func(i int) string {
		m := shortMember(size, i)
		return fmt.Sprintf(`"\u%04x%s`, m[1], m[2:])
	})
}

// LongNumbers returns an object with four numbers: a whole number, a fraction and two
// exponents, each with about a quarter of all digits.
func LongNumbers(size int) []byte {
	head, tail := `{"a":[1`, `]}`
	digits := (size - len(head) - len(tail) - len(`,0.,1e1,1e-1`)) / 4
	zeros, nines := strings.Repeat("0", digits), strings.Repeat("9", digits)
	numbers := nines + ",0." + zeros + ",1e1" + zeros + ",1e-1" + nines
	return pad(size, head+numbers, tail)
}

// Escapes returns an object with one string that is made of escape sequences.
func Escapes(size int) []byte {
	head, tail := `{"a":"`, `"}`
	return pad(size, head+strings.Repeat(`\u00e9`, (size-len(head)-len(tail))/6)+`"`, "}")
}

// Objects returns an object with an array of as many small, unsorted objects as fit.
func Objects(size int) []byte {
	return fill(size, `{"a":[`, "]}", func(int) string { return `{"b":0,"a":0}` })
}

// Arrays returns an object with an array of as many empty arrays as fit.
func Arrays(size int) []byte {
	return fill(size, `{"a":[`, "]}", func(int) string { return "[]" })
}

// Extend returns an object with all members of object, followed by those of members.
// Both are objects without white space around them, and no name may be in both.
func Extend(object, members []byte) []byte {
	out := bytes.Clone(object[:len(object)-1])
	if len(object) > len("{}") {
		out = append(out, ',')
	}
	return append(out, members[1:]...)
}

// fill returns as many items as fit between head and tail.
func fill(size int, head, tail string, item func(i int) string) []byte {
	b := make([]byte, 0, size)
	b = append(b, head...)
	for i := 0; ; i++ {
		text := item(i)
		if i > 0 {
			text = "," + text
		}
		if len(b)+len(text)+len(tail) > size {
			return pad(size, string(b), tail)
		}
		b = append(b, text...)
	}
}

// pad puts white space between head and tail.
func pad(size int, head, tail string) []byte {
	return []byte(head + strings.Repeat(" ", size-len(head)-len(tail)) + tail)
}
