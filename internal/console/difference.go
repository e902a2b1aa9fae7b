package console

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

// A difference says what differs between the contents of two versions, member by member.
type difference struct {
	Rows []changedMember
	Same []sameMember
	More bool // there are more rows or equal members than those

	Changes, Equal int64 // members, also those that are not shown

	bytes int // that may still be shown
	cells int // of alignment tables that are left for lists and words
}

// A changedMember is a member with different values in two contents.
type changedMember struct {
	Name     string
	Old, New side
}

// maxNamed is the number of members that Names has.
const maxNamed = 5

// Names returns the names of the first members that differ.
func (d *difference) Names() string {
	var names []string
	for _, r := range d.Rows {
		name := r.Name
		if name == "" {
			name = "the content"
		}
		if len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
		if len(names) > maxNamed {
			return strings.Join(names[:maxNamed], ", ") + " and more"
		}
	}
	return strings.Join(names, ", ")
}

// A side is a value of one of the contents.
type side struct {
	Pieces  []piece
	Missing bool // the content has no such member
}

// A sameMember is a member with the same value in two contents.
type sameMember struct{ Name, Value string }

// A piece is a part of a text. A marked one is not in the other text.
type piece struct {
	Text   string
	Marked bool
}

// Bounds of a comparison. What is beyond them is counted.
const (
	maxChanges    = 300
	maxDiffBytes  = 256 << 10
	maxElements   = 100     // of a list that are aligned
	maxWords      = 1000    // of a text that are aligned
	maxCells      = 2 << 20 // of all tables that align them: about 40 ms
	maxDiffedText = 8 << 10 // bytes of a text whose words are compared; a longer one is marked as a whole
)

// compare returns what differs between two contents. Either can be missing.
func compare(from, to jsontext.Value) *difference {
	d := &difference{bytes: maxDiffBytes, cells: maxCells}
	d.value(nil, from, to, 0)
	return d
}

// value compares two values. A missing one is nil.
func (d *difference) value(name []string, from, to jsontext.Value, depth int) {
	if string(from) == string(to) {
		d.same(name, from, depth)
		return
	}
	if depth < maxDepth {
		if before, after, ok := both(from, to, parseObject); ok {
			d.objects(name, before, after, depth)
			return
		}
		if before, after, ok := both(from, to, parseArray); ok {
			d.arrays(name, before, after, depth)
			return
		}
		if from != nil && to != nil && (container(from) || container(to)) { // of different kinds
			d.value(name, from, nil, depth)
			d.value(name, nil, to, depth)
			return
		}
	}
	d.changed(name, from, to)
}

func (d *difference) objects(name []string, before, after object, depth int) {
	old, current := before.values(), after.values()
	for _, p := range after {
		d.value(inside(name, p.name), old[p.name], p.value, depth+1)
	}
	for _, p := range before {
		if current[p.name] == nil {
			d.value(inside(name, p.name), p.value, nil, depth+1)
		}
	}
}

// inside returns the name of a member of a member.
func inside(name []string, member string) []string { return append(name[:len(name):len(name)], member) }

// arrays compares two lists. Elements that both have in the same order are the same, wherever they are.
func (d *difference) arrays(name []string, before, after []jsontext.Value, depth int) {
	for _, p := range d.sideBySide(texts(before), texts(after), maxElements) {
		var from, to jsontext.Value
		index := p.left
		if p.left >= 0 {
			from = before[p.left]
		}
		if p.right >= 0 {
			to, index = after[p.right], p.right
		}
		d.value(inside(name, strconv.Itoa(index+1)), from, to, depth+1) // people count from 1
	}
}

func texts(values []jsontext.Value) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = string(v)
	}
	return all
}

// container reports whether a value is an object or a list.
func container(v jsontext.Value) bool { return v.Kind() == '{' || v.Kind() == '[' }

// both returns the members of two values that parse accepts. One of them can be missing. It returns false unless one has members.
func both[T ~[]E, E any](from, to jsontext.Value, parse func(jsontext.Value) (T, bool)) (before, after T, ok bool) {
	for value, members := range map[*jsontext.Value]*T{&from: &before, &to: &after} {
		if *value == nil {
			continue
		}
		if *members, ok = parse(*value); !ok {
			return nil, nil, false
		}
	}
	return before, after, len(before)+len(after) > 0
}

// same counts the members of a value that both contents have.
func (d *difference) same(name []string, value jsontext.Value, depth int) {
	if value == nil {
		return
	}
	if depth < maxDepth {
		if members, _ := parseObject(value); len(members) > 0 {
			for _, p := range members {
				d.same(inside(name, p.name), p.value, depth+1)
			}
			return
		}
		if elements, _ := parseArray(value); len(elements) > 0 {
			for i, e := range elements {
				d.same(inside(name, strconv.Itoa(i+1)), e, depth+1)
			}
			return
		}
	}
	d.Equal++
	if len(d.Same) == maxChanges {
		d.More = true
		return
	}
	d.Same = append(d.Same, sameMember{memberName(name), atrium.Shorten(200, shownValue(value))})
}

// memberName returns the name of a member: those of all objects around it, and its position in lists.
func memberName(name []string) string { return atrium.Shorten(200, strings.Join(name, " › ")) }

// shownValue returns a value that is no list or object as people read it.
func shownValue(value jsontext.Value) string {
	if value.Kind() == '"' {
		text, err := jsontext.AppendUnquote(nil, value)
		if err == nil {
			return string(text)
		}
	}
	return string(value)
}

func (d *difference) changed(name []string, from, to jsontext.Value) {
	d.Changes++
	if len(d.Rows) == maxChanges || d.bytes <= 0 {
		d.More = true
		return
	}
	before, after := shownValue(from), shownValue(to)
	row := changedMember{Name: memberName(name)}
	switch {
	case from != nil && to != nil && from.Kind() == '"' && to.Kind() == '"' && max(len(before), len(after)) <= maxDiffedText:
		row.Old.Pieces, row.New.Pieces = d.compareWords(before, after)
	default:
		row.Old, row.New = d.whole(from, before), d.whole(to, after)
	}
	d.bytes -= len(before) + len(after)
	d.Rows = append(d.Rows, row)
}

// whole returns a value as one piece.
func (d *difference) whole(value jsontext.Value, text string) side {
	if value == nil || text == "" {
		return side{Missing: value == nil}
	}
	if len(text) > d.bytes {
		text, d.More = strings.ToValidUTF8(text[:d.bytes], "")+"…", true
	}
	return side{Pieces: []piece{{text, true}}}
}

// compareWords marks the words of two texts that the other text does not have in this order. If only white space
// differs, it marks all.
func (d *difference) compareWords(from, to string) (before, after []piece) {
	left, right := words(from), words(to)
	inLeft, inRight := make([]bool, len(left)), make([]bool, len(right))
	marked := false
	for _, p := range d.sideBySide(trimmed(left), trimmed(right), maxWords) {
		if p.same {
			continue
		}
		marked = true
		if p.left >= 0 {
			inLeft[p.left] = true
		}
		if p.right >= 0 {
			inRight[p.right] = true
		}
	}
	if !marked {
		return []piece{{from, true}}, []piece{{to, true}}
	}
	return pieces(left, inLeft), pieces(right, inRight)
}

// words splits a text behind white space: each word has the white space that follows it.
func words(text string) (all []string) {
	for text != "" {
		end := strings.IndexFunc(text, isSpace)
		if end < 0 {
			return append(all, text)
		}
		rest := strings.TrimLeftFunc(text[end:], isSpace)
		all = append(all, text[:len(text)-len(rest)])
		text = rest
	}
	return all
}

func isSpace(r rune) bool { return r == ' ' || r == '\n' || r == '\t' || r == '\r' }

func trimmed(words []string) []string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = strings.TrimRightFunc(w, isSpace)
	}
	return all
}

// pieces joins words of the same kind. White space behind the last of marked words is not marked.
func pieces(words []string, marked []bool) (all []piece) {
	add := func(text string, marked bool) {
		if n := len(all); n > 0 && all[n-1].Marked == marked {
			all[n-1].Text += text
		} else if text != "" {
			all = append(all, piece{text, marked})
		}
	}
	for i, w := range words {
		if marked[i] && (i+1 == len(words) || !marked[i+1]) {
			word := strings.TrimRightFunc(w, isSpace)
			add(word, true)
			add(w[len(word):], false)
			continue
		}
		add(w, marked[i])
	}
	return all
}

// A pair is a place in two lists that are shown side by side: the indexes of their elements there, and -1 where a list has none.
type pair struct {
	left, right int
	same        bool // both have it
}

// sideBySide aligns two lists: equal elements are in the same pair. Where more than most elements of a list differ, or the
// comparison has no cells left, they are paired without a match.
func (d *difference) sideBySide(left, right []string, most int) (pairs []pair) {
	before, after := 0, 0
	for before < min(len(left), len(right)) && left[before] == right[before] {
		pairs = append(pairs, pair{before, before, true})
		before++
	}
	for after < min(len(left), len(right))-before && left[len(left)-1-after] == right[len(right)-1-after] {
		after++
	}
	endLeft, endRight := len(left)-after, len(right)-after
	pairs = append(pairs, d.align(left[:endLeft], right[:endRight], before, most)...)
	for i := range after {
		pairs = append(pairs, pair{endLeft + i, endRight + i, true})
	}
	return pairs
}

// align returns the pairs of two lists from an index on, with a longest common subsequence.
func (d *difference) align(left, right []string, from, most int) (pairs []pair) {
	rows, columns := len(left)-from, len(right)-from
	cells := (rows + 1) * (columns + 1)
	if rows > most || columns > most || cells > d.cells {
		return zip(from, len(left), from, len(right))
	}
	d.cells -= cells
	longest := make([]uint16, (rows+1)*(columns+1)) // of the rest of both lists
	at := func(i, j int) *uint16 { return &longest[(i-from)*(columns+1)+j-from] }
	for i := len(left) - 1; i >= from; i-- {
		for j := len(right) - 1; j >= from; j-- {
			if *at(i, j) = max(*at(i+1, j), *at(i, j+1)); left[i] == right[j] {
				*at(i, j) = *at(i+1, j+1) + 1
			}
		}
	}
	i, j, fromLeft, fromRight := from, from, from, from
	for i < len(left) && j < len(right) {
		switch {
		case left[i] == right[j]:
			pairs = append(pairs, zip(fromLeft, i, fromRight, j)...)
			pairs = append(pairs, pair{i, j, true})
			i, j = i+1, j+1
			fromLeft, fromRight = i, j
		case *at(i+1, j) >= *at(i, j+1):
			i++
		default:
			j++
		}
	}
	return append(pairs, zip(fromLeft, len(left), fromRight, len(right))...)
}

// zip returns pairs of different elements between indexes.
func zip(left, endLeft, right, endRight int) (pairs []pair) {
	for left < endLeft || right < endRight {
		p := pair{-1, -1, false}
		if left < endLeft {
			p.left, left = left, left+1
		}
		if right < endRight {
			p.right, right = right, right+1
		}
		pairs = append(pairs, p)
	}
	return pairs
}
