package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

// This file says what is wrong with text that is not strict JSON.

// syntaxFault returns the error for b, which is not strict JSON. err is that of a decoder of b.
func syntaxFault(b []byte, err error) error {
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case len(bytes.TrimSpace(b)) == 0:
		return atrium.Invalid(bodyFault("", "must not be empty"))
	case !ok:
		return atrium.Invalid(bodyFault("", endsEarly))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return atrium.Invalid(bodyFault(string(syntax.JSONPointer), endsEarly))
	}
	return atrium.Invalid(bodyFault(string(syntax.JSONPointer),
		fmt.Sprintf("is not strict JSON at byte %d: %s", syntax.ByteOffset, syntaxProblem(b, int(syntax.ByteOffset)))))
}

// endsEarly is the detail of text that is valid so far.
const endsEarly = "ends too early: a closing quote, bracket or brace is missing"

var byteOrderMark = []byte("\ufeff")

// syntaxProblem says what is wrong at the offset of a syntax error. It does not repeat the text.
func syntaxProblem(b []byte, at int) string {
	dec := jsontext.NewDecoder(bytes.NewBuffer(b), duplicatesAllowed)
	for err := error(nil); err == nil; {
		_, err = dec.ReadToken()
	}
	kind, count := dec.StackIndex(dec.StackDepth())
	end := int(dec.InputOffset())
	token := skipSpace(b, end) // where the invalid one begins, after a separator
	separated := token < len(b) && (b[token] == ',' || b[token] == ':')
	if separated {
		token = skipSpace(b, token+1)
	}
	bad := byte(0)
	if token < len(b) {
		bad = b[token]
	}
	inObject := kind == '{'
	switch {
	case at == 0 && bytes.HasPrefix(b, byteOrderMark):
		return "it begins with a byte order mark"
	case at > token:
		return tokenProblem(b[token:], at-token)
	case bad == '/' || bad == '#':
		return "comments are not allowed"
	case inObject && count%2 == 1 && !separated:
		return "expected a colon after the name of the field"
	case inObject && count%2 == 0 && count > 0 && !separated:
		return "expected a comma or the end of the object"
	case kind == '[' && count > 0 && !separated:
		return "expected a comma or the end of the array"
	case separated && (bad == '}' || bad == ']') && count%2 == 0 == inObject:
		return "there must be no comma before the end"
	case inObject && count%2 == 0:
		return "expected the name of a field in double quotes"
	case bad == '\'':
		return "expected a value; text is in double quotes"
	}
	return "expected a value; text is in double quotes, and the others are numbers, true, false, null, objects and arrays"
}

// tokenProblem says what is wrong within a token, at an offset.
func tokenProblem(token []byte, at int) string {
	switch rest := token[at:]; {
	case token[0] != '"':
		return "expected a number, true, false or null"
	case len(rest) > 0 && rest[0] < ' ':
		return "a line break, tab or control character in text must be escaped"
	case len(rest) > 0 && rest[0] == '\\':
		return "the escape sequence is not valid, or half of a surrogate pair is missing"
	case !utf8.Valid(rest[:min(len(rest), utf8.UTFMax)]):
		return "the text is not UTF-8"
	}
	return "the text is not valid"
}
