package console

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

// Kinds of a node.
const (
	kindObject = "object"
	kindArray  = "array"
	kindText   = "text"
	kindValue  = "value" // a number, true, false or null
)

// A node is a JSON value as a page shows it: a tree that can be folded.
type node struct {
	Key      string // the name of a member; "" in arrays and for the root
	Kind     string
	Text     string // of a text or value
	Children []node
	More     bool // there are more children than the page shows
}

// Bounds of a tree. What is beyond them is in the raw payload.
const (
	maxNodes = 2000
	maxDepth = 20
	maxText  = 2000 // code points
)

// parseNode returns the tree of a JSON text.
func parseNode(text jsontext.Value) (node, error) {
	return readTree(text, &bounds{nodes: maxNodes, text: maxText})
}

// The bounds of a tree say how much of a JSON text it may have.
type bounds struct {
	nodes int  // that are left
	text  int  // code points of a text
	cut   bool // something was left out
}

// readTree returns the tree of a JSON text within bounds.
func readTree(text jsontext.Value, b *bounds) (node, error) {
	return readNode(jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true)), "", b, 0)
}

// shorten returns a text within the bounds.
func (b *bounds) shorten(text string) string {
	short := atrium.Shorten(b.text, text)
	b.cut = b.cut || short != text
	return short
}

func readNode(d *jsontext.Decoder, key string, left *bounds, depth int) (n node, err error) {
	n.Key = left.shorten(key)
	left.nodes--
	kind := d.PeekKind()
	if kind != '{' && kind != '[' {
		token, err := d.ReadToken()
		if err != nil {
			return n, err
		}
		n.Kind, n.Text = kindValue, left.shorten(token.String())
		if kind == '"' {
			n.Kind = kindText
		}
		return n, nil
	}
	n.Kind = kindArray
	if kind == '{' {
		n.Kind = kindObject
	}
	if depth == maxDepth || left.nodes <= 0 {
		n.More, left.cut = true, true
		return n, d.SkipValue()
	}
	if _, err := d.ReadToken(); err != nil {
		return n, err
	}
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		name := ""
		if n.Kind == kindObject {
			token, err := d.ReadToken()
			if err != nil {
				return n, err
			}
			name = token.String()
		}
		if n.More = n.More || left.nodes <= 0; n.More {
			left.cut = true
			if err := d.SkipValue(); err != nil {
				return n, err
			}
			continue
		}
		child, err := readNode(d, name, left, depth+1)
		if err != nil {
			return n, err
		}
		n.Children = append(n.Children, child)
	}
	_, err = d.ReadToken()
	return n, err
}

// maxIndented is the maximum size of a JSON text with line breaks, in bytes. Deep nesting makes it many times
// as long as the text.
const maxIndented = 512 << 10

// maxRaw is how much of a JSON text a page shows as text, in bytes.
const maxRaw = 64 << 10

// raw returns the beginning of a JSON text with line breaks, and whether that is not all of it.
func raw(text jsontext.Value) (shown string, cut bool) {
	if shown = indent(text); len(shown) <= maxRaw {
		return shown, false
	}
	return strings.ToValidUTF8(shown[:maxRaw], ""), true
}

// indentedSize returns the maximum size of a JSON text with line breaks, in bytes.
func indentedSize(text jsontext.Value) (size int) {
	depth, inText := 0, false
	for i := 0; i < len(text); i++ {
		size++
		switch c := text[i]; {
		case inText && c == '\\':
			i++
			size++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			depth++
			size += 1 + 2*depth
		case c == '}' || c == ']':
			depth--
			size += 1 + 2*max(0, depth)
		case c == ',':
			size += 1 + 2*depth
		case c == ':':
			size++
		}
	}
	return size
}

// indent returns a JSON text with line breaks, or the text itself if it is not valid, or would become longer
// than maxIndented.
func indent(text jsontext.Value) string {
	if indentedSize(text) > maxIndented {
		return string(text)
	}
	value := text.Clone()
	if err := value.Indent(jsontext.WithIndent("  ")); err != nil {
		return string(text)
	}
	return strings.TrimSpace(string(value))
}
