package strictjson

import (
	"bytes"
	"hash/maphash"
	"math"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

// This file detects duplicate member names. For each name in the currently open objects, it
// needs eight bytes of memory.

// A namePlace has the offset of the opening quote of a name in its lower 32 bits. If the
// names are sorted, its upper 32 bits have half of the name's hash: equal names are then
// adjacent, in order of their offsets.
type namePlace uint64

func (p namePlace) hash() uint32 { return uint32(p >> 32) }
func (p namePlace) at() int      { return int(uint32(p)) }

// fewNames is the maximum number of names of an object that are compared pairwise, without
// sorting.
const fewNames = 8

// duplicateAt returns the offset of the first name in b that duplicates an earlier name of
// the same object, or -1. b is otherwise valid JSON of at most maxText bytes.
func duplicateAt(b []byte) int {
	seed := maphash.MakeSeed() // so that clients cannot cause collisions
	first := math.MaxInt
	var names []namePlace // of the open objects
	var starts []int      // index of the first name of each open object
	for i := 0; i < len(b); {
		switch b[i] {
		case '{':
			starts = append(starts, len(names))
		case '}':
			start := starts[len(starts)-1]
			if at := duplicateOf(b, names[start:], seed); at >= 0 {
				first = min(first, at)
			}
			names, starts = names[:start], starts[:len(starts)-1]
		case '"':
			end := endOfString(b, i)
			if j := skipSpace(b, end); j < len(b) && b[j] == ':' {
				names = append(doubled(names), namePlace(i))
			}
			i = end
			continue
		}
		i++
	}
	if first == math.MaxInt {
		return -1
	}
	return first
}

// duplicateOf returns the offset of the first name that duplicates an earlier one, or -1. It
// may reorder the names.
func duplicateOf(b []byte, names []namePlace, seed maphash.Seed) int {
	if len(names) > fewNames {
		for i, p := range names {
			names[i] |= namePlace(maphash.Bytes(seed, nameAt(b, p.at())) >> 32 << 32)
		}
		slices.Sort(names)
	}
	first := math.MaxInt
	for i := range names {
		// Up to fewNames names have no hash: all pairs are compared. Others are sorted, and
		// only names with equal hashes are compared.
		for j := i + 1; j < len(names) && names[j].hash() == names[i].hash(); j++ {
			if sameName(b, names[i].at(), names[j].at()) {
				first = min(first, names[j].at())
				break // further duplicates have higher offsets
			}
		}
	}
	if first == math.MaxInt {
		return -1
	}
	return first
}

func sameName(b []byte, one, other int) bool {
	c, d := b[one+1], b[other+1]
	return (c == d || c == '\\' || d == '\\') && bytes.Equal(nameAt(b, one), nameAt(b, other))
}

// HasMoreNames reports whether all objects in b together have more than most member names.
// b need not be valid JSON.
func HasMoreNames(b []byte, most int) bool {
	if bytes.Count(b, colon) <= most { // bytes.Count is vectorized
		return false
	}
	names, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case c == ':' && !inString:
			names++
		}
	}
	return names > most
}

var colon = []byte(":")

// nameAt returns the name whose opening quote is at an offset.
func nameAt(b []byte, at int) []byte {
	quoted := b[at:endOfString(b, at)]
	if bytes.IndexByte(quoted, '\\') >= 0 {
		return unquoted(quoted)
	}
	return quoted[1 : len(quoted)-1]
}

// endOfString returns the offset after the string that begins at an offset.
func endOfString(b []byte, at int) int {
	for i := at + 1; ; i++ {
		i += bytes.IndexByte(b[i:], '"')
		backslashes := 0
		for b[i-1-backslashes] == '\\' {
			backslashes++
		}
		if backslashes%2 == 0 {
			return i + 1
		}
	}
}

// doubled returns s with capacity for another element. It doubles the capacity of a full
// slice: append grows large slices in smaller steps, which allocates twice as much in total.
func doubled[T any](s []T) []T {
	if len(s) < cap(s) {
		return s
	}
	return append(make([]T, 0, 2*len(s)+8), s...)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// unquoted returns the text of a valid JSON string.
func unquoted(v []byte) []byte {
	text, _ := jsontext.AppendUnquote(nil, v)
	return text
}

// duplicate returns the error for a duplicate name at an offset.
func duplicate(b []byte, at int) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(b), duplicatesAllowed)
	for dec.InputOffset() <= int64(at) {
		if _, err := dec.ReadToken(); err != nil {
			return syntaxFault(b, err)
		}
	}
	return atrium.Invalid(bodyFault(string(dec.StackPointer()), "duplicates the name of an earlier field"))
}
