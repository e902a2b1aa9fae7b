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

// A hit is a term that a search has found, and whose it is.
type hit struct {
	term string
	id   string // the characters of an identifier behind its prefix
}

func (h hit) position() atrium.Position { return atrium.Position{Text: h.term, ID: h.id} }

func (h hit) compare(other hit) int {
	return cmp.Or(strings.Compare(h.term, other.term), strings.Compare(h.id, other.id))
}

// hits returns up to n hits behind a position, nil for the first, among the terms that
// begin with one text, or come up to those that begin with another.
func hits(tx engine.Tx, tenant atrium.TenantID, from, to string, after *atrium.Position, n int) (found []hit, err error) {
	term, id := from, []byte{}
	if after != nil {
		term, id = after.Text, kernel.PackID(after.ID)
	}
	err = tx.Query(`SELECT term, subject_id FROM search_terms
		WHERE tenant_id = $1 AND (term, subject_id) > ($2, $3) AND term < $4 ORDER BY term, subject_id LIMIT $5`,
		engine.Args{kernel.IDArg(tenant), term, id, behind(to), int64(n)}, func(r engine.Row) error {
			found = append(found, hit{r.Text(0), suffix(kernel.IDAt[atrium.AccountID](r, 1))}) // or any other identifier
			return nil
		})
	return found, err
}

// sought returns what the terms of a kind begin with that a search for words reads.
func sought(kind string, words []string) string { return kind + canonical.Cut(longest(words), maxTerm) }

// longest returns the longest of some words, which is likely the rarest.
func longest(words []string) string {
	return slices.MaxFunc(words, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
}

// suffix returns the characters of an identifier behind its prefix.
func suffix[T atrium.Identifier](id T) string { return string(id[len(id.Prefix()):]) }
