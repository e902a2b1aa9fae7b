package console

import (
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of a content that is laid out. What is beyond them is in its JSON.
const (
	maxLaid     = 300
	maxLaidText = 5000 // code points
)

// layOut returns the tree of the content of a version, and whether that is only a part of it.
func layOut(content jsontext.Value) (tree node, cut bool) {
	b := bounds{nodes: maxLaid, text: maxLaidText}
	tree, err := readTree(content, &b)
	if err != nil { // there is no content
		return node{}, false
	}
	return tree, b.cut
}

// Link returns the address that a text is; "" if it is no absolute HTTP URL.
func (n node) Link() string {
	if n.Kind != kindText || strings.ContainsAny(n.Text, " \t\r\n") {
		return ""
	}
	to, err := url.Parse(n.Text)
	if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "" {
		return ""
	}
	return n.Text
}
