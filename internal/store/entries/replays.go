package entries

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file settles the drafts of an append whose entries are stored already: under
// their keys, or under their identifiers when the answer to a commit was lost.

var findKeys = engine.NewBatch(`SELECT e.tenant_id, e.key_match, e.entry_id, e.account_id, e.created_at, e.source, e.type,
		e.acknowledged_account_id, e.fingerprint,
		(SELECT 1 FROM erasures x WHERE x.tenant_id = batch.tenant_id AND x.account_id = e.account_id)
	FROM batch JOIN entries e ON e.tenant_id = batch.tenant_id AND e.key_match = batch.key_match`,
	"tenant_id bytea", "key_match bytea")

// replayStored settles the drafts whose keys stored entries have, and returns
// the others.
func (b *appending) replayStored() (pending []int, err error) {
	var rows []engine.Args
	asked := map[kernel.TenantKey]bool{}
	for i, d := range b.drafts {
		if b.keyMatch[i] != nil && !asked[b.key(i)] {
			asked[b.key(i)] = true
			rows = append(rows, engine.Args{kernel.IDArg(d.TenantID), b.keyMatch[i]})
		}
	}
	type stored struct {
		receipt     atrium.Receipt
		account     atrium.AccountID
		fingerprint []byte
	}
	bound := map[kernel.TenantKey]stored{}
	var erased []engine.Args
	scan := func(r engine.Row) {
		b.repeats = true
		receipt, account := scanReceipt(r, 2)
		if !r.Null(9) {
			erased = append(erased, engine.Args{kernel.IDArg(kernel.IDAt[atrium.TenantID](r, 0)), kernel.IDArg(receipt.EntryID)})
			return
		}
		bound[kernel.TenantKey{Tenant: kernel.IDAt[atrium.TenantID](r, 0), Key: string(r.Bytes(1))}] = stored{receipt, account, r.Bytes(8)}
	}
	ahead := b.aheadOf()
	if ahead != nil {
		ahead.hash()
		b.met = ahead
		if err = b.tx.PipelineQuery(findKeys, rows, scan); err == nil {
			err = b.upsert(ahead)
		}
	} else {
		_, err = b.tx.Batch(findKeys, rows, func(r engine.Row) error {
			scan(r)
			return nil
		})
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("find keys: %w", err)
	case ahead != nil && b.repeats:
		return nil, errRepeats
	}
	if len(erased) > 0 { // entries of erased accounts, for which their keys do not wait
		if _, err := b.tx.Batch(freeKeys, erased, nil); err != nil {
			return nil, fmt.Errorf("free keys of erased entries: %w", err)
		}
	}
	for i, d := range b.drafts {
		entry, ok := bound[b.key(i)]
		switch {
		case b.keyMatch[i] == nil || !ok:
			pending = append(pending, i)
		case entry.receipt.EntryID == d.ID: // this very draft, in a commit whose answer was lost
			b.outcomes[i].Receipt = entry.receipt
			b.confirm(d.TenantID, entry.account)
		default:
			b.replay(i, entry.receipt, entry.fingerprint)
			b.confirm(d.TenantID, entry.account)
		}
	}
	return pending, nil
}

// errRepeats says that accounts were touched for entries that were there already. The
// next try looks for these first.
var errRepeats error = &engine.Error{Class: engine.Conflict, Err: errors.New("entries were there already")}

// scanReceipt reads the receipt of an entry, and the account that it is in now, which
// an operator may have moved it to since: entry_id, account_id, created_at, source,
// type and acknowledged_account_id from the given column.
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

// findStored settles the drafts without a key that are stored under their
// identifiers, and returns the others.
func (b *appending) findStored(drafts []int) (pending []int, err error) {
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

// confirm makes the commit as durable as that of an entry which was there. Where
// commits wait for standbys, one whose answer was lost may not have reached them: to
// acknowledge its entry, the account is touched again as the entry did, so that
// there is a commit behind it to wait for.
func (b *appending) confirm(tenant atrium.TenantID, account atrium.AccountID) {
	if b.replicated {
		b.confirmed.add(tenant, string(account))
	}
}

// replay settles draft i, whose key an entry already has.
func (b *appending) replay(i int, receipt atrium.Receipt, fingerprint []byte) {
	if !bytes.Equal(fingerprint, b.drafts[i].Fingerprint) {
		b.outcomes[i].Err = kernel.KeyReused()
		return
	}
	receipt.Replayed = true
	b.outcomes[i].Receipt = receipt
}

// freeKeys frees the idempotency keys of entries of erased accounts, which are deleted later.
var freeKeys = engine.NewBatch(`UPDATE entries SET key_match = NULL FROM batch
	WHERE entries.tenant_id = batch.tenant_id AND entries.entry_id = batch.entry_id`, "tenant_id bytea", "entry_id bytea")
