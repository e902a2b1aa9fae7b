package canonical

import (
	"bytes"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// A form encodes JSON values so that two encodings are equal if and only if the values are.
// A value is encoded as a byte for its kind and its content with length prefixes.
//
// First, append encodes the members of objects in their given order and records the objects
// whose members are not sorted by name. Then, writeSorted writes the encoding with sorted
// members. It writes each byte once, however deep objects are nested, so the time is linear
// in the size of the value, apart from sorting the names.
type form struct {
	dec     *jsontext.Decoder
	objects []object // ordered by start
	sorted  []member // the sorted members of objects
	members []member // of the objects that are being read
}

// An object has unsorted members, or is sorted and contains such an object. Its offsets refer
// to the encoded bytes, which cannot reach 2 GiB: the limits of bodies and lines are far lower.
type object struct {
	start, end   int32 // of the members
	next         int32 // index of the first object that starts after end
	first, count int32 // sorted[first:first+count] are the members; count is 0 if they are in order
}

// A member starts with its name. Its value contains objects[first:last].
type member struct{ start, nameEnd, end, first, last int32 }

// append appends the encoding of the JSON value v. It does not check for duplicate names,
// which strictjson rejects.
func (f *form) append(b, v []byte) ([]byte, error) {
	f.dec = jsontext.NewDecoder(bytes.NewBuffer(v), jsontext.AllowDuplicateNames(true))
	return f.appendValue(b)
}

func (f *form) appendValue(b []byte) ([]byte, error) {
	switch kind := f.dec.PeekKind(); kind {
	case '{':
		return f.appendObject(b)
	case '[':
		return f.appendArray(b)
	case '"':
		v, err := f.dec.ReadValue()
		if err != nil {
			return nil, err
		}
		return appendString(append(b, '"'), v)
	case '0':
		v, err := f.dec.ReadValue()
		if err != nil {
			return nil, err
		}
		return appendPrefixed(append(b, '0'), normalNumber(string(v))), nil
	default: // a literal, which its kind identifies, or an error
		_, err := f.dec.ReadToken()
		return append(b, byte(kind)), err
	}
}

func (f *form) appendArray(b []byte) ([]byte, error) {
	if _, err := f.dec.ReadToken(); err != nil {
		return nil, err
	}
	b = append(b, '[')
	for f.dec.PeekKind() != ']' {
		var err error
		if b, err = f.appendValue(b); err != nil {
			return nil, err
		}
	}
	_, err := f.dec.ReadToken()
	return append(b, ']'), err
}

func (f *form) appendObject(b []byte) ([]byte, error) {
	if _, err := f.dec.ReadToken(); err != nil {
		return nil, err
	}
	b = append(b, '{')
	at, outer, sorted := len(f.objects), len(f.members), true
	f.objects = append(f.objects, object{start: int32(len(b))})
	for f.dec.PeekKind() != '}' {
		m := member{start: int32(len(b)), first: int32(len(f.objects))}
		name, err := f.dec.ReadValue()
		if err != nil {
			return nil, err
		}
		if b, err = appendString(b, name); err != nil {
			return nil, err
		}
		m.nameEnd = int32(len(b))
		if b, err = f.appendValue(b); err != nil {
			return nil, err
		}
		m.end, m.last = int32(len(b)), int32(len(f.objects))
		sorted = sorted && (len(f.members) == outer || f.members[len(f.members)-1].compare(b, m) < 0)
		f.members = append(f.members, m)
	}
	if _, err := f.dec.ReadToken(); err != nil {
		return nil, err
	}
	members := f.members[outer:]
	f.members = f.members[:outer]
	o := &f.objects[at]
	if o.end, o.next = int32(len(b)), int32(len(f.objects)); !sorted {
		slices.SortFunc(members, func(x, y member) int { return x.compare(b, y) })
		o.first, o.count = int32(len(f.sorted)), int32(len(members))
		f.sorted = append(f.sorted, members...)
	} else if len(f.objects) == at+1 {
		f.objects = f.objects[:at]
	}
	return append(b, '}'), nil
}

// compare compares the encoded names of two members in b.
func (m member) compare(b []byte, with member) int {
	return bytes.Compare(b[m.start:m.nameEnd], b[with.start:with.nameEnd])
}

// appendString appends the text of a JSON string, prefixed with its length.
func appendString(b []byte, quoted jsontext.Value) ([]byte, error) {
	if text := quoted[1 : len(quoted)-1]; bytes.IndexByte(text, '\\') < 0 {
		return appendPrefixed(b, []byte(text)), nil // the decoder has validated the UTF-8
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return nil, err
	}
	return appendPrefixed(b, text), nil
}

// writeSorted writes b with the members of each object sorted by name. b ends with the
// encoding that append returned. w must not return errors.
func (f *form) writeSorted(w io.Writer, b []byte) {
	f.writeRange(w, b, 0, int32(len(b)), 0, int32(len(f.objects)))
}

// writeRange writes b[start:end], which contains objects[first:last].
func (f *form) writeRange(w io.Writer, b []byte, start, end, first, last int32) {
	for first < last {
		o := &f.objects[first]
		if o.count == 0 { // only inner objects are unsorted
			first++
			continue
		}
		_, _ = w.Write(b[start:o.start])
		for _, m := range f.sorted[o.first : o.first+o.count] {
			f.writeRange(w, b, m.start, m.end, m.first, m.last)
		}
		start, first = o.end, o.next
	}
	_, _ = w.Write(b[start:end])
}
