package console

import (
	"bytes"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A contentText is a text in the content of a version, which can be changed without JSON.
type contentText struct {
	Name, Title, Value string
	Long               bool
}

// maxPointer is the maximum length in bytes of the JSON pointer to a text that a form has a field for.
const maxPointer = 500

// errTexts is returned for a content for whose texts a form has no fields.
var errTexts = errors.New("too large for fields")

// contentTexts returns the texts in a content, or nil if it is too large or has too many of them.
func contentTexts(content string) (texts []contentText) {
	_, err := eachText(content, func(pointer jsontext.Pointer, text string) string {
		var parts []string
		for part := range pointer.Tokens() {
			if n, err := strconv.Atoi(part); err == nil {
				part = strconv.Itoa(n + 1) // people count from 1
			}
			parts = append(parts, part)
		}
		texts = append(texts, contentText{
			"text:" + string(pointer), strings.Join(parts, " › "), text, strings.ContainsRune(text, '\n') || len(text) > 60,
		})
		return text
	})
	if err != nil {
		return nil
	}
	return texts
}

// changeTexts returns a content with the texts that a form has for it.
func changeTexts(content string, form url.Values) (string, error) {
	return eachText(content, func(pointer jsontext.Pointer, text string) string {
		name := "text:" + string(pointer)
		entered := lines(form.Get(name))
		if !form.Has(name) || entered == lines(text) {
			return text
		}
		return strings.ToValidUTF8(entered, "\uFFFD")
	})
}

// eachText replaces each text in a JSON value by what a function returns for its JSON pointer, and returns the
// value as it is indented elsewhere. If no text changes, it returns the value as it is. It does nothing, and returns an
// error, for a value of more than maxRowBytes, with more than maxRows texts, or with pointers of more than maxPointer.
func eachText(content string, replace func(pointer jsontext.Pointer, text string) string) (string, error) {
	if len(content) > maxRowBytes {
		return content, errTexts
	}
	var b bytes.Buffer
	d, e := jsontext.NewDecoder(strings.NewReader(content)), jsontext.NewEncoder(&b)
	changed, texts := false, 0
	for depth := -1; depth != 0; depth = d.StackDepth() {
		if kind := d.PeekKind(); kind == '0' { // keeps its digits
			value, err := d.ReadValue()
			if err == nil {
				err = e.WriteValue(value)
			}
			if err != nil {
				return content, err
			}
			continue
		}
		token, err := d.ReadToken()
		if err != nil {
			return content, err
		}
		if kind, n := d.StackIndex(d.StackDepth()); token.Kind() == '"' && (kind != '{' || n%2 == 0) {
			pointer := d.StackPointer()
			if texts++; texts > maxRows || len(pointer) > maxPointer {
				return content, errTexts
			}
			before := token.String()
			after := replace(pointer, before)
			changed = changed || after != before
			token = jsontext.String(after)
		}
		if err := e.WriteToken(token); err != nil {
			return content, err
		}
	}
	if !changed {
		return content, nil
	}
	return indent(b.Bytes()), nil
}
