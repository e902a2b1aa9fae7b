package docsui

import (
	"bytes"
	"html/template"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

var renderer = goldmark.New(goldmark.WithExtensions(extension.Table))

// fitted makes room on the page for what Markdown renders: a wide table scrolls by itself, and the
// headings of a description are below those of the page.
var fitted = strings.NewReplacer(
	"<table>", `<div class="table" tabindex="0" role="region" aria-label="Table"><table>`, "</table>", "</table></div>",
	"<h3>", "<h4>", "</h3>", "</h4>",
)

// markdown renders a description of a document.
func markdown(text string) template.HTML {
	var b bytes.Buffer
	if err := renderer.Convert([]byte(text), &b); err != nil {
		panic(err) //nolint:forbidigo // a bytes.Buffer takes every write
	}
	return template.HTML(fitted.Replace(b.String())) //nolint:gosec // the documents are constants, and the renderer drops raw HTML
}

// sections splits a text at its headings of the second level.
func sections(text string) (intro template.HTML, all []section) {
	parts := strings.Split("\n"+text, "\n## ")
	for _, part := range parts[1:] {
		title, rest, _ := strings.Cut(part, "\n")
		all = append(all, section{"rules-" + slug(title), title, markdown(rest)})
	}
	return markdown(parts[0]), all
}

// slug returns a title as part of an identifier.
func slug(title string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(title), func(r rune) bool { return !unicode.IsLetter(r) }), "-")
}
