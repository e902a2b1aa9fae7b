package canonical

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// HasText reports whether a string in the JSON value v, a member name included, is one of texts in
// canonical form (Name). It stops at the first one, or where v is not JSON.
func HasText(v []byte, texts map[string]bool) bool {
	return anyText(v, func(s string) bool { return texts[s] })
}

// ContainsText reports whether a string in the JSON value v, a member name included, contains part, when
// both are in canonical form (Name). It stops at the first one, or where v is not JSON.
func ContainsText(v []byte, part string) bool {
	return anyText(v, func(s string) bool { return strings.Contains(s, part) })
}

func anyText(v []byte, is func(canonical string) bool) bool {
	dec := jsontext.NewDecoder(bytes.NewBuffer(v), jsontext.AllowDuplicateNames(true))
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return false
		}
		if token.Kind() == '"' && is(Name(token.String())) {
			return true
		}
	}
}
