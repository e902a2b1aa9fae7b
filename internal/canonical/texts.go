package canonical

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// HasText reports whether a string in the JSON value v, a member name included, is one of texts in
// canonical form (Name). It stops at the first one, or where v is not JSON.
func HasText(v []byte, texts map[string]bool) bool {
	dec := jsontext.NewDecoder(bytes.NewBuffer(v), jsontext.AllowDuplicateNames(true))
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return false
		}
		if token.Kind() == '"' && texts[Name(token.String())] {
			return true
		}
	}
}
