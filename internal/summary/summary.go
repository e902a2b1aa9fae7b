// Package summary makes a line about an entry of its payload, by a template of the tenant.
//
// A template is text, in which {/name} stands for the value at the JSON Pointer /name (RFC 6901) in the
// payload. There is nothing else: no conditions, no formats and no way to write {.
package summary

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/canonical"
)

// A Template is a parsed template.
type Template []part

// A part is a text, or the pointer to a value if that is not nil.
type part struct {
	text    string
	pointer canonical.Pointer
}

// Parse parses a template. fault is the detail of an atrium.Fault, or "" if the template is valid.
func Parse(template string) (t Template, fault string) {
	if fault := atrium.CheckText(template, 1, atrium.MaxSummaryTemplate); fault != "" {
		return nil, fault
	}
	pointers := 0
	for rest := template; rest != ""; {
		text, after, found := strings.Cut(rest, "{")
		if text != "" {
			t = append(t, part{text: text})
		}
		if !found {
			break
		}
		at := utf8.RuneCountInString(template[:len(template)-len(after)])
		inner, after, found := strings.Cut(after, "}")
		pointer, valid := canonical.ParsePointer(inner)
		switch {
		case !found:
			return nil, fmt.Sprintf("must have a } after the { at character %d", at)
		case !valid || len(pointer) == 0:
			return nil, fmt.Sprintf("must have a JSON Pointer, such as /name, in the braces at character %d", at)
		case pointers == atrium.MaxSummaryPointers:
			return nil, fmt.Sprintf("must have at most %d pointers", atrium.MaxSummaryPointers)
		}
		t, rest = append(t, part{pointer: pointer}), after
		pointers++
	}
	return t, ""
}

// Render returns the summary of a payload: one line of at most atrium.MaxSummary code points. A pointer that
// leads to nothing, null, an object or an array gives nothing. Each pointer reads the payload at most once.
func (t Template) Render(payload []byte) string {
	var l line
	for _, p := range t {
		if p.pointer == nil {
			l.write(p.text)
		} else {
			l.write(value(p.pointer.In(payload)))
		}
		if l.full {
			break
		}
	}
	return l.String()
}

// value returns the text of a JSON string, number or boolean, and "" for all else.
func value(v jsontext.Value) string {
	switch v.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, v)
		if err != nil {
			return ""
		}
		return string(text)
	case '0', 't', 'f':
		return string(v)
	}
	return ""
}

// A line is one line of text of at most atrium.MaxSummary code points, without white space at its ends. The last
// one is … if there was more.
type line struct {
	runes []rune
	space bool // before the next rune that is not white space
	full  bool
}

// write appends a text. It replaces white space by one space, and characters that cannot be seen as
// atrium.PrintableRune does.
func (l *line) write(text string) {
	for _, r := range text {
		if unicode.IsSpace(r) {
			l.space = true
			continue
		}
		if l.space && len(l.runes) > 0 {
			l.append(' ')
		}
		l.space = false
		if l.append(atrium.PrintableRune(r)); l.full {
			return
		}
	}
}

func (l *line) append(r rune) {
	if l.full = len(l.runes) >= atrium.MaxSummary; !l.full {
		l.runes = append(l.runes, r)
	}
}

func (l *line) String() string {
	if l.full {
		l.runes[atrium.MaxSummary-1] = '…'
	}
	return string(l.runes)
}

// Templates are the templates of a tenant by source and type. The zero value has none.
type Templates map[[2]string]Template

// New returns the templates of a tenant. It leaves out those that this release cannot parse.
func New(all atrium.SummaryTemplates) Templates {
	parsed := Templates{}
	for _, t := range all {
		if template, fault := Parse(t.Template); fault == "" {
			parsed[[2]string{t.Source, t.Type}] = template
		}
	}
	return parsed
}

// Find returns the template for entries with a source and a type: the one for both, or else the one for the
// source. It is nil if there is neither.
func (all Templates) Find(source, entryType string) Template {
	if t := all[[2]string{source, entryType}]; t != nil {
		return t
	}
	return all[[2]string{source, ""}]
}
