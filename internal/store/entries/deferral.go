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

// deferLarge removes the targets whose accounts are missing or have no name yet, from the first that
// exceeds maxRows, in the order of their drafts. The outcome of their drafts is ErrDeferred. missing
// has the keys in byDomain of missing accounts, by domain hash.
func (b *appendTx) deferLarge(byID, byDomain targets, missing map[kernel.TenantKey]kernel.TenantKey) {
	if b.maxRows == 0 {
		return
	}
	type named struct {
		key   kernel.TenantKey
		in    targets
		first int // draft
	}
	var large []named
	for _, all := range []targets{byID, byDomain} {
		for k, t := range all {
			isMissing := t.id == "" && t.hash != ""
			if isMissing || t.unnamed && b.claimedName(t) != "" {
				large = append(large, named{k, all, slices.Min(t.drafts)})
			}
		}
	}
	slices.SortFunc(large, func(a, b named) int { return cmp.Compare(a.first, b.first) })
	for _, l := range large {
		t := l.in[l.key]
		rows := 1
		for _, i := range t.drafts {
			rows = max(rows, 1+b.drafts[i].Words)
		}
		if b.rows == 0 || b.rows+rows <= b.maxRows {
			b.rows += rows
			continue
		}
		b.rows = b.maxRows // drafts keep their order: nothing smaller fits, either
		for _, i := range t.drafts {
			b.outcomes[i].Err = atrium.ErrDeferred
		}
		delete(l.in, l.key)
		delete(missing, kernel.TenantKey{Tenant: l.key.Tenant, Key: t.hash})
	}
}
