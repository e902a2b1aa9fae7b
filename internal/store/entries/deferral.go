package entries

import (
	"cmp"
	"slices"

	"atrium"
	"atrium/internal/store/kernel"
)

// This file bounds the rows that an append writes for accounts. Entries of existing accounts are
// cheap, but a new account, or the first name of one, has a row in the search index for each of its
// words. Other tenants wait for the transaction.

// maxAccountRows is the maximum number of rows that TryAppend writes for new accounts and names. One
// account may exceed it.
const maxAccountRows = 128

// deferLarge limits the accounts that are created or named to those whose rows fit into maxRows, in
// the order of the drafts. It removes the targets of all others; the outcome of their drafts is
// ErrDeferred. missing has the keys in byDomain of missing accounts, by domain hash.
func (b *appendTx) deferLarge(byID, byDomain targets, missing map[kernel.TenantKey]kernel.TenantKey) {
	if b.maxRows == 0 {
		return
	}
	type candidate struct {
		key   kernel.TenantKey
		in    targets
		first int // draft
	}
	var candidates []candidate
	for _, all := range []targets{byID, byDomain} {
		for k, t := range all {
			isMissing := t.id == "" && t.hash != ""
			if isMissing || t.unnamed && b.claimedName(t) != "" {
				candidates = append(candidates, candidate{k, all, slices.Min(t.drafts)})
			}
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.first, b.first) })
	for _, c := range candidates {
		t := c.in[c.key]
		rows := 1
		for _, i := range t.drafts {
			rows = max(rows, 1+b.drafts[i].Words)
		}
		if b.rows == 0 || b.rows+rows <= b.maxRows {
			b.rows += rows
			continue
		}
		b.rows = b.maxRows // so that no later one fits, and drafts keep their order
		for _, i := range t.drafts {
			b.outcomes[i].Err = atrium.ErrDeferred
		}
		delete(c.in, c.key)
		delete(missing, kernel.TenantKey{Tenant: c.key.Tenant, Key: t.hash})
	}
}
