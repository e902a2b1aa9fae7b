package accounts

import (
	"cmp"
	"slices"
	"strings"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// A hit is a term that a search found, and the resource that it belongs to.
type hit struct {
	term string
	id   string // the characters of the identifier after its prefix
}

func (h hit) position() atrium.Position { return atrium.Position{Text: h.term, ID: h.id} }

func (h hit) compare(other hit) int {
	return cmp.Or(strings.Compare(h.term, other.term), strings.Compare(h.id, other.id))
}

// findHits returns up to n hits after a position, nil for the first ones. It reads the range of
// terms from the first with prefix from to the last with prefix to.
func findHits(tx engine.Tx, tenant atrium.TenantID, from, to string, after *atrium.Position, n int) (found []hit, err error) {
	term, id := from, []byte{}
	if after != nil {
		term, id = after.Text, kernel.PackID(after.ID)
	}
	err = tx.Query(`SELECT term, subject_id FROM search_terms
		WHERE tenant_id = $1 AND (term, subject_id) > ($2, $3) AND term < $4 ORDER BY term, subject_id LIMIT $5`,
		engine.Args{kernel.IDArg(tenant), term, id, prefixEnd(to), int64(n)}, func(r engine.Row) error {
			found = append(found, hit{r.Text(0), suffix(kernel.IDAt[atrium.AccountID](r, 1))}) // the prefix does not matter
			return nil
		})
	return found, err
}

// searchPrefix returns the prefix of the terms that a search for words reads.
func searchPrefix(kind string, words []string) string {
	return kind + canonical.Truncate(longest(words), maxTermBytes)
}

// longest returns the longest word, which is likely the rarest.
func longest(words []string) string {
	return slices.MaxFunc(words, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
}

// suffix returns the characters of an identifier after its prefix.
func suffix[T atrium.Identifier](id T) string { return string(id[len(id.Prefix()):]) }
