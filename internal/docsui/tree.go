package docsui

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"atrium/api"
)

// A node is a value in a document. Reading a member that is not there returns a node without a
// value, which has no members either.
type node struct{ root, value *yaml.Node }

// parse reads the JSON of a document with the YAML parser, which keeps the order of members and
// the notation of numbers.
func parse(d api.Document) (node, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(d.JSON(), &root); err != nil {
		return node{}, err
	}
	return node{root.Content[0], root.Content[0]}, nil
}

func (v node) exists() bool { return v.value != nil }

// text returns a scalar as text, and "" for other values.
func (v node) text() string {
	if v.value == nil {
		return ""
	}
	return v.value.Value
}

// at returns the value at a path of member names. A member of a reference is one that stands next
// to $ref, or else one of the target.
func (v node) at(path ...string) node {
	for _, name := range path {
		found := v.member(name)
		if to := v.target(); !found.exists() && to.exists() {
			found = to.at(name)
		}
		v = found
	}
	return v
}

func (v node) member(name string) node {
	for other, value := range v.members() {
		if other == name {
			return value
		}
	}
	return node{root: v.root}
}

// ref returns the name of the component that v refers to, and "" if v is not a reference.
func (v node) ref() string {
	path := v.member("$ref").text()
	return path[strings.LastIndexByte(path, '/')+1:]
}

// target returns the component that v refers to.
func (v node) target() node {
	path, ok := strings.CutPrefix(v.member("$ref").text(), "#/")
	if !ok {
		return node{root: v.root}
	}
	return node{v.root, v.root}.at(strings.Split(path, "/")...)
}

// members returns the members of an object in order. It does not follow references.
func (v node) members() iter.Seq2[string, node] {
	return func(yield func(string, node) bool) {
		if v.value == nil || v.value.Kind != yaml.MappingNode {
			return
		}
		for pair := range slices.Chunk(v.value.Content, 2) {
			if !yield(pair[0].Value, node{v.root, pair[1]}) {
				return
			}
		}
	}
}

// items returns the elements of an array.
func (v node) items() (all []node) {
	if v.value == nil || v.value.Kind != yaml.SequenceNode {
		return nil
	}
	for _, item := range v.value.Content {
		all = append(all, node{v.root, item})
	}
	return all
}

// texts returns the elements of an array of scalars.
func (v node) texts() (all []string) {
	for _, item := range v.items() {
		all = append(all, item.text())
	}
	return all
}

// json returns v as JSON on one line.
func (v node) json() string {
	switch {
	case v.value.Kind == yaml.MappingNode:
		members := []string{}
		for name, value := range v.members() {
			members = append(members, quote(name)+":"+value.json())
		}
		return "{" + strings.Join(members, ",") + "}"
	case v.value.Kind == yaml.SequenceNode:
		items := []string{}
		for _, item := range v.items() {
			items = append(items, item.json())
		}
		return "[" + strings.Join(items, ",") + "]"
	case v.value.ShortTag() == "!!str":
		return quote(v.value.Value)
	}
	return v.value.Value
}

// indented returns v as JSON with a line for each member and element.
func (v node) indented() string {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(v.json()), "", "  "); err != nil {
		panic(err) //nolint:forbidigo // v is part of a document, which tests render
	}
	return b.String()
}

// quote returns a JSON string in which <, > and & are not escaped.
func quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string in a strings.Builder
	return strings.TrimSuffix(b.String(), "\n")
}
