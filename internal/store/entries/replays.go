package entries

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file resolves drafts of an append that are already stored: under their idempotency keys, or
// under their identifiers if the outcome of an earlier commit was unknown.

var findKeys = engine.NewBatch(`SELECT e.tenant_id, e.key_match, e.entry_id, e.account_id, e.created_at, e.source, e.type,
		e.acknowledged_account_id, e.fingerprint,
		(SELECT 1 FROM erasures x WHERE x.tenant_id = batch.tenant_id AND x.account_id = e.account_id), `+rowBytes+`
	FROM batch JOIN entries e ON e.tenant_id = batch.tenant_id AND e.key_match = batch.key_match`,
	"tenant_id bytea", "key_match bytea")

// replayStored sets the outcomes of drafts whose keys belong to stored entries, and returns the
// other drafts.
func (b *appendTx) replayStored() (pending []int, err error) {
	var rows []engine.Args
	seen := map[kernel.TenantKey]bool{}
	for i, d := range b.drafts {
		if b.keyMatch[i] != nil && !seen[b.key(i)] {
			seen[b.key(i)] = true
			rows = append(rows, engine.Args{kernel.IDArg(d.TenantID), b.keyMatch[i]})
		}
	}
	type stored struct {
		receipt     atrium.Receipt
		account     atrium.AccountID
		fingerprint []byte
	}
	byKey := map[kernel.TenantKey]stored{}
	erased := map[kernel.TenantKey]erasedEntry{}
	if err := b.findKeysAndAccounts(rows, func(r engine.Row) {
		receipt, account := scanReceipt(r, 2)
		k := kernel.TenantKey{Tenant: kernel.IDAt[atrium.TenantID](r, 0), Key: string(r.Bytes(1))}
		if !r.Null(9) {
			erased[k] = erasedEntry{receipt.EntryID, int(r.Int(10))}
			return
		}
		byKey[k] = stored{receipt, account, r.Bytes(8)}
	}); err != nil {
		return nil, fmt.Errorf("find keys and accounts: %w", err)
	}
	if err := b.freeKeys(erased); err != nil { // before the erasure deletes the entries
		return nil, fmt.Errorf("free keys of erased entries: %w", err)
	}
	for i, d := range b.drafts {
		entry, ok := byKey[b.key(i)]
		switch {
		case b.outcomes[i].Err != nil:
		case b.keyMatch[i] == nil || !ok:
			pending = append(pending, i)
		case entry.receipt.EntryID == d.ID: // the same draft, stored by a commit whose outcome was unknown
			b.outcomes[i].Receipt = entry.receipt
			b.confirm(d.TenantID, entry.account)
		default:
			b.replay(i, entry.receipt, entry.fingerprint)
			b.confirm(d.TenantID, entry.account)
		}
	}
	return pending, nil
}

// findKeysAndAccounts looks up keys, and in the same round trip locks the accounts of the drafts
// that name domains. The accounts of drafts that turn out to be stored are locked in vain.
func (b *appendTx) findKeysAndAccounts(keys []engine.Args, each func(engine.Row)) error {
	all := make([]int, len(b.drafts))
	for i := range all {
		all[i] = i
	}
	_, byDomain, _, _ := b.targets(all)
	if len(byDomain) == 0 || b.mayHaveMerged(byDomain) {
		_, err := b.tx.Batch(findKeys, keys, func(r engine.Row) error {
			each(r)
			return nil
		})
		return err
	}
	for k := range byDomain {
		b.looked[kernel.TenantKey{Tenant: k.Tenant, Key: string(kernel.Hash16(k.Key))}] = true
	}
	if err := b.tx.PipelineQuery(findKeys, keys, each); err != nil {
		return err
	}
	return b.lockByDomain(kernel.SortedKeys(b.looked), func(hash kernel.TenantKey, a accounts.Locked) { b.locked[hash] = a })
}

// scanReceipt reads the receipt of an entry from entry_id, account_id, created_at, source, type
// and acknowledged_account_id, starting at the given column. account is the current account of the
// entry: an operator may have moved it.
func scanReceipt(r engine.Row, first int) (receipt atrium.Receipt, account atrium.AccountID) {
	account = kernel.IDAt[atrium.AccountID](r, first+1)
	return atrium.Receipt{
		EntryID: kernel.IDAt[atrium.EntryID](r, first), AccountID: cmp.Or(kernel.IDAt[atrium.AccountID](r, first+5), account),
		CreatedAt: atrium.Time(r.Int(first + 2)), Source: r.Text(first + 3), Type: r.Text(first + 4),
	}, account
}

var findEntries = engine.NewBatch(`SELECT e.tenant_id, e.entry_id, e.account_id, e.created_at, e.source, e.type, e.acknowledged_account_id
	FROM batch JOIN entries e ON e.tenant_id = batch.tenant_id AND e.entry_id = batch.entry_id`,
	"tenant_id bytea", "entry_id bytea")

// findStored sets the outcomes of drafts without a key that are stored under their identifiers,
// and returns the other drafts.
func (b *appendTx) findStored(drafts []int) (pending []int, err error) {
	var rows []engine.Args
	for _, i := range drafts {
		if d := b.drafts[i]; b.keyMatch[i] == nil {
			rows = append(rows, engine.Args{kernel.IDArg(d.TenantID), kernel.IDArg(d.ID)})
		}
	}
	stored := map[kernel.TenantKey]atrium.Receipt{}
	_, err = b.tx.Batch(findEntries, rows, func(r engine.Row) error {
		tenant := kernel.IDAt[atrium.TenantID](r, 0)
		receipt, account := scanReceipt(r, 1)
		stored[kernel.TenantKey{Tenant: tenant, Key: string(receipt.EntryID)}] = receipt
		b.confirm(tenant, account)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find entries: %w", err)
	}
	for _, i := range drafts {
		if receipt, ok := stored[kernel.TenantKey{Tenant: b.drafts[i].TenantID, Key: string(b.drafts[i].ID)}]; ok {
			b.outcomes[i].Receipt = receipt
		} else {
			pending = append(pending, i)
		}
	}
	return pending, nil
}

// confirm makes the acknowledgment of an existing entry as durable as that of a new one. If commits
// wait for standbys, an entry whose commit had an unknown outcome may not have reached them.
// Writing its account again produces a later commit, which waits for the standbys.
func (b *appendTx) confirm(tenant atrium.TenantID, account atrium.AccountID) {
	if b.replicated {
		b.toConfirm.add(tenant, string(account))
	}
}

// replay sets the outcome of draft i, whose key belongs to an existing entry.
func (b *appendTx) replay(i int, receipt atrium.Receipt, fingerprint []byte) {
	if !bytes.Equal(fingerprint, b.drafts[i].Fingerprint) {
		b.outcomes[i].Err = kernel.KeyReused()
		return
	}
	receipt.Replayed = true
	b.outcomes[i].Receipt = receipt
}

var removeKeys = engine.NewBatch(`UPDATE entries SET key_match = NULL FROM batch
	WHERE entries.tenant_id = batch.tenant_id AND entries.entry_id = batch.entry_id`, "tenant_id bytea", "entry_id bytea")

// maxFreedBytes limits the rows of entries whose keys one append releases, unless the first has
// more: an embedded engine writes the whole row again.
const maxFreedBytes = 4 << 20

// An erasedEntry is an entry whose account is erased and that is not deleted yet.
type erasedEntry struct {
	id    atrium.EntryID
	bytes int // of its row
}

// freeKeys releases the idempotency keys of erased entries, which are given by key. Above
// maxFreedBytes, the drafts with these keys are Unavailable: the erasure deletes the entries soon,
// and then the keys are free.
func (b *appendTx) freeKeys(erased map[kernel.TenantKey]erasedEntry) error {
	var rows []engine.Args
	bytes, full := 0, false
	for i, d := range b.drafts { // in order, so that every engine releases the same keys
		e, ok := erased[b.key(i)]
		if b.keyMatch[i] == nil || !ok || e.id == "" {
			continue
		}
		if full = full || bytes > 0 && bytes+e.bytes > maxFreedBytes; full {
			b.outcomes[i].Err = atrium.Unavailable(errors.New("the entry that had the key is being erased"))
			continue
		}
		bytes += e.bytes
		rows = append(rows, engine.Args{kernel.IDArg(d.TenantID), kernel.IDArg(e.id)})
		erased[b.key(i)] = erasedEntry{} // other drafts may have the same key
	}
	if len(rows) == 0 {
		return nil
	}
	_, err := b.tx.Batch(removeKeys, rows, nil)
	return err
}
