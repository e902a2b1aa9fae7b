package strictjson

import (
	"bytes"
	"hash/maphash"
	"math"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

// This file finds members of one object that have the same name, in objects of any size,
// with eight bytes of memory for each name of the objects that are open.

// A namePlace is where a name begins with its quote, and above that, where names are
// sorted, half of its hash: then equal names come together, the first one first.
type namePlace uint64

func (p namePlace) hash() uint32 { return uint32(p >> 32) }
func (p namePlace) at() int      { return int(uint32(p)) }

// fewNames is how many names of one object are compared with each other without being
// sorted.
const fewNames = 8

// duplicateAt returns the offset of the first name in b that a member before it in the
// same object has, or -1. b is JSON, but for that, and has at most maxText bytes.
func duplicateAt(b []byte) int {
	seed := maphash.MakeSeed() // so that nobody can choose names with the same hash
	first := math.MaxInt
	var names []namePlace // of the objects that are open
	var starts []int      // where the names of each of them begin
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

// duplicateOf returns where the first of the names is that one before it is equal to, or
// -1. It changes their order.
func duplicateOf(b []byte, names []namePlace, seed maphash.Seed) int {
	if len(names) > fewNames {
		for i, p := range names {
			names[i] |= namePlace(maphash.Bytes(seed, nameAt(b, p.at())) >> 32 << 32)
		}
		slices.Sort(names)
	}
	first := math.MaxInt
	for i := range names {
		// Few names have no hash, and are all compared. Of others, those that follow.
		for j := i + 1; j < len(names) && names[j].hash() == names[i].hash(); j++ {
			if sameName(b, names[i].at(), names[j].at()) {
				first = min(first, names[j].at())
				break // the others come later
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

// HasMoreNames reports whether b has more member names than most, in all objects
// together. b need not be JSON.
func HasMoreNames(b []byte, most int) bool {
	if bytes.Count(b, colon) <= most { // counted many bytes at a time
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

// nameAt returns the name whose quote is at an offset.
func nameAt(b []byte, at int) []byte {
	quoted := b[at:endOfString(b, at)]
	if bytes.IndexByte(quoted, '\\') >= 0 {
		return unquoted(quoted)
	}
	return quoted[1 : len(quoted)-1]
}

// endOfString returns the offset behind the string that begins at one.
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

// doubled returns s with room for one more element. A slice that is full becomes twice as
// large: append would copy a large one more often, and allocate twice as much in all.
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

// unquoted returns the text of a JSON string that was read strictly.
func unquoted(v []byte) []byte {
	text, _ := jsontext.AppendUnquote(nil, v)
	return text
}

// duplicate returns the error for the name at an offset.
func duplicate(b []byte, at int) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(b), duplicatesAllowed)
	for dec.InputOffset() <= int64(at) {
		if _, err := dec.ReadToken(); err != nil {
			return syntaxFault(b, err)
		}
	}
	return atrium.Invalid(bodyFault(string(dec.StackPointer()), "has the same name as a member before it"))
}
