package entries

import (
	"bytes"
	"cmp"
	"fmt"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
	"atrium/internal/store/tombstones"
)

// This file resolves drafts of an append that are already stored: under their idempotency keys, or
// under their identifiers if the outcome of an earlier commit was unknown. A key stays bound when its
// entry is erased: to the entry until it is deleted, and then to its tombstone.

var findKeys = engine.NewBatch(`SELECT e.tenant_id, e.key_match, e.entry_id, e.account_id, e.created_at, e.source, e.type,
		e.acknowledged_account_id, e.fingerprint,
		(SELECT 1 FROM erasures x WHERE x.tenant_id = batch.tenant_id AND x.account_id = e.account_id)
	FROM batch JOIN entries e ON e.tenant_id = batch.tenant_id AND e.key_match = batch.key_match`,
	"tenant_id bytea", "key_match bytea")

// replayStored sets the outcomes of drafts whose keys belong to stored or erased entries, and
// returns the other drafts. The outcome of a draft of a tenant that does not exist, or is being deleted,
// is atrium.NoTenant.
//
// Existing accounts that drafts name by domain are locked first, in the same round trip. An entry that
// a concurrent append stores there with the same key is then either found, or still stored when the
// draft is inserted, and violates the unique key: an erasure waits for the lock. Other accounts are
// locked later: those that are named by identifier or name, are new, or are of a tenant with merged
// accounts. If an entry with the same key is stored and erased between the lookup and that lock, it is
// stored again. To lock these accounts first would take more round trips.
func (b *appendTx) replayStored() (pending []int, err error) {
	var rows []engine.Args
	erased := tombstones.NewLookup(b.tx, b.secrets)
	seen := map[kernel.TenantKey]bool{}
	for i, d := range b.drafts {
		erased.AddTenant(d.TenantID)
		if b.keyMatch[i] != nil && !seen[b.key(i)] {
			seen[b.key(i)] = true
			rows = append(rows, engine.Args{kernel.IDArg(d.TenantID), b.keyMatch[i]})
			erased.Add(d.TenantID, b.keyMatch[i])
		}
	}
	if err := cmp.Or(b.lockTogether(), b.findEventSwitches()); err != nil {
		return nil, err
	}
	type stored struct {
		receipt     atrium.Receipt
		account     atrium.AccountID // "" if it is being erased
		fingerprint []byte
	}
	byKey := map[kernel.TenantKey]stored{}
	if err := b.tx.PipelineQuery(findKeys, rows, func(r engine.Row) {
		receipt, account := scanReceipt(r, 2)
		if !r.Null(9) {
			account = ""
		}
		byKey[kernel.TenantKey{Tenant: kernel.IDAt[atrium.TenantID](r, 0), Key: string(r.Bytes(1))}] = stored{receipt, account, r.Bytes(8)}
	}); err != nil {
		return nil, fmt.Errorf("find keys: %w", err)
	}
	remains, err := erased.Run()
	if err = cmp.Or(b.lockErr, err); err != nil {
		return nil, fmt.Errorf("lock accounts and find keys: %w", err)
	}
	for i, d := range b.drafts {
		k := b.key(i)
		entry, ok := byKey[k]
		t, wasErased := remains[k]
		if erased.Missing(d.TenantID) {
			b.outcomes[i].Err = atrium.NoTenant()
		}
		switch {
		case b.outcomes[i].Err != nil:
		case b.keyMatch[i] == nil || !ok && !wasErased:
			pending = append(pending, i)
		case !ok:
			b.replay(i, t.Receipt(), bytes.Equal(tombstones.RequestHMAC(t.Secret, d.Fingerprint), t.RequestHMAC))
		default:
			b.replay(i, entry.receipt, bytes.Equal(entry.fingerprint, d.Fingerprint))
			if entry.account != "" {
				b.confirm(d.TenantID, entry.account)
			}
		}
	}
	return pending, nil
}

// lockTogether pipelines a statement that locks the accounts of the drafts that name domains. The
// accounts of drafts that turn out to be stored are locked in vain.
func (b *appendTx) lockTogether() error {
	all := make([]int, len(b.drafts))
	for i := range all {
		all[i] = i
	}
	_, byDomain, _, _ := b.targets(all)
	if len(byDomain) == 0 || b.mayHaveMerged(byDomain) {
		return nil
	}
	for k := range byDomain {
		b.looked[kernel.TenantKey{Tenant: k.Tenant, Key: string(kernel.Hash16(k.Key))}] = true
	}
	return b.tx.PipelineQuery(lockDomains, hashRows(kernel.SortedKeys(b.looked)), func(r engine.Row) {
		hash, a, err := b.scanLocked(r)
		b.locked[hash], b.lockErr = a, cmp.Or(b.lockErr, err)
	})
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

// replay sets the outcome of draft i, whose key belongs to an entry. same reports whether the entry
// has the same fingerprint.
func (b *appendTx) replay(i int, receipt atrium.Receipt, same bool) {
	ownDraft := receipt.EntryID == b.drafts[i].ID // stored by a commit whose outcome was unknown
	if !same && !ownDraft {
		b.outcomes[i].Err = kernel.KeyReused()
		return
	}
	receipt.Replayed = !ownDraft
	b.outcomes[i].Receipt = receipt
}
