package docsui

import (
	"html/template"
	"slices"
	"strconv"
	"strings"
)

// A shape describes the values of a schema.
type shape struct {
	Type        string   // such as "string or null" or "array of Account"
	Limits      []string // such as "1 to 100 characters"
	Values      []string // the only values
	Description template.HTML
	Members     []member // of an object, or of the objects in an array
	Choices     []choice // schemas, one of which the value has
}

// A member is a member of an object.
type member struct {
	Name     string
	Required bool
	shape
}

// A choice is one of several schemas.
type choice struct {
	Name string
	shape
}

// shape describes a schema.
func (v node) shape() shape {
	s := shape{Description: markdown(v.at("description").text())}
	choices := v.at("oneOf").items()
	if len(choices) == 2 && choices[1].at("type").text() == "null" {
		inner := choices[0].shape()
		inner.Type += " or null"
		if s.Description != "" {
			inner.Description = s.Description
		}
		return inner
	}
	for _, c := range choices {
		s.Choices = append(s.Choices, choice{c.ref(), c.shape()})
	}
	kind := v.at("type").text()
	switch {
	case len(choices) > 0:
		s.Type = "one of " + strconv.Itoa(len(choices)) + " forms"
	case kind == "array":
		items := v.at("items")
		inner := items.shape()
		s.Type = "array of " + inner.plural(items)
		s.Description += inner.Description
		s.Members, s.Choices, s.Values = inner.Members, inner.Choices, inner.Values
	case kind == "object", v.at("allOf").exists():
		s.Type, s.Members = "object", v.memberShapes()
	default:
		s.Type = kind
		if format := v.at("format").text(); format != "" {
			s.Type += ", " + format
		}
	}
	if s.Type == "" {
		s.Type = "any JSON value"
	}
	if value := v.at("const"); value.exists() {
		s.Values = []string{value.text()}
	}
	s.Values = append(s.Values, v.at("enum").texts()...)
	s.Limits = v.limits()
	return s
}

// plural returns how an array of the schema calls its items.
func (s shape) plural(schema node) string {
	switch {
	case s.Type == "object" && schema.ref() != "":
		return schema.ref()
	case len(s.Choices) > 0:
		return "values in " + s.Type
	case s.Type == "any JSON value":
		return "any JSON values"
	}
	return strings.Replace(s.Type+"s", ",", "s,", 1)
}

// memberShapes returns the members of an object, including those of all parts of allOf.
func (v node) memberShapes() (all []member) {
	for _, part := range v.at("allOf").items() {
		all = append(all, part.memberShapes()...)
	}
	required := v.at("required").texts()
	for name, schema := range v.at("properties").members() {
		all = append(all, member{name, slices.Contains(required, name), schema.shape()})
	}
	return all
}

// limits describes the constraints of a schema on sizes, values and texts.
func (v node) limits() (all []string) {
	add := func(text string) {
		if text != "" {
			all = append(all, text)
		}
	}
	// A pattern that only excludes characters is in the rules for all requests. Any other one says more
	// than the lengths.
	if p := v.at("pattern").text(); p != "" && !v.at("format").exists() && !strings.Contains(p, `\x00`) {
		add("matches " + p)
	} else {
		add(span(v.at("minLength").text(), v.at("maxLength").text(), " character"))
	}
	add(span(v.at("minItems").text(), v.at("maxItems").text(), " item"))
	add(span(v.at("minimum").text(), v.at("maximum").text(), ""))
	if v.at("uniqueItems").text() == "true" {
		add("without duplicates")
	}
	if value := v.at("default"); value.exists() {
		add("default " + value.json())
	}
	return all
}

// span describes a range of which either end may be missing.
func span(least, most, unit string) string {
	if unit != "" && most != "1" && (most != "" || least != "1") {
		unit += "s"
	}
	switch {
	case least == "" && most == "":
		return ""
	case most == "":
		return "at least " + least + unit
	case least == "" || least == "0":
		return "at most " + most + unit
	}
	return least + " to " + most + unit
}
