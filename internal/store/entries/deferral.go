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

// maxAccountRows is the maximum number of rows that an append writes for new accounts and names. One
// account may exceed it.
const maxAccountRows = 128

// fits reports whether the transaction can write the rows of one more account, with the words that
// the drafts claim, and counts them. Once an account does not fit, no later one does, so that drafts
// keep their order.
func (b *appendTx) fits(drafts []int) bool {
	rows := 1
	for _, i := range drafts {
		rows = max(rows, 1+b.drafts[i].Words)
	}
	if b.rows > 0 && b.rows+rows > maxAccountRows {
		b.rows = maxAccountRows
		return false
	}
	b.rows += rows
	return true
}

// inOrder sorts the keys of targets by their first drafts.
func inOrder(keys []kernel.TenantKey, all targets) {
	slices.SortFunc(keys, func(a, b kernel.TenantKey) int {
		return cmp.Compare(slices.Min(all[a].drafts), slices.Min(all[b].drafts))
	})
}

// deferTarget removes a target. The outcome of its drafts is ErrDeferred.
func (b *appendTx) deferTarget(all targets, k kernel.TenantKey) {
	for _, i := range all[k].drafts {
		b.outcomes[i].Err = atrium.ErrDeferred
	}
	delete(all, k)
}

// deferAccounts removes targets whose accounts are missing and do not fit into the transaction.
func (b *appendTx) deferAccounts(byDomain targets, missing map[kernel.TenantKey]kernel.TenantKey) {
	if len(missing) == 0 {
		return
	}
	hashes := make(map[kernel.TenantKey]kernel.TenantKey, len(missing)) // by key of the target
	keys := make([]kernel.TenantKey, 0, len(missing))
	for h, k := range missing {
		hashes[k] = h
		keys = append(keys, k)
	}
	inOrder(keys, byDomain)
	for _, k := range keys {
		if !b.fits(byDomain[k].drafts) {
			delete(missing, hashes[k])
			b.deferTarget(byDomain, k)
		}
	}
}

// deferNames removes targets that name an account without a name and do not fit into the
// transaction.
func (b *appendTx) deferNames(byID, byDomain targets) {
	for _, all := range []targets{byDomain, byID} {
		var keys []kernel.TenantKey
		for k, t := range all {
			if t.unnamed && b.claimedName(t) != "" {
				keys = append(keys, k)
			}
		}
		inOrder(keys, all)
		for _, k := range keys {
			if !b.fits(all[k].drafts) {
				b.deferTarget(all, k)
			}
		}
	}
}
