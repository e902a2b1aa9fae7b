package records

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/counts"
	"atrium/internal/store/engine"
	"atrium/internal/store/entries"
	"atrium/internal/store/kernel"
	"atrium/internal/store/tombstones"
)

var errNoFingerprint = errors.New("an entry with an idempotency key is imported without its fingerprint")

func (im *importTx) entries(run importRun) error {
	stored, err := im.find(entriesByID, identities[atrium.EntryID](im.tenant, run), func(r engine.Row) Record {
		e := entries.ScanEntry(r, im.tenant)
		return &e
	})
	if err != nil {
		return err
	}
	todo, err := notStored[*atrium.Entry](run, stored)
	if err != nil {
		return err
	}
	if todo, err = im.withoutErased(todo); err != nil {
		return err
	}
	touched := map[kernel.TenantKey]atrium.Time{}
	rows := make([]engine.Args, len(todo))
	origin := atrium.Origin{SubmittedBy: atrium.ActorImport, RequestID: im.tx.Change.RequestID}
	for n, p := range todo {
		e := p.record
		setID(&e.ID)
		im.setInstants(p.item, &e.CreatedAt, new(atrium.Time))
		k := kernel.TenantKey{Tenant: im.tenant, Key: string(e.AccountID)}
		if at, ok := touched[k]; !ok || e.CreatedAt > at {
			touched[k] = e.CreatedAt
		}
		var match, fingerprint []byte
		if e.IdempotencyKey != "" {
			if match, fingerprint = kernel.KeyMatch(e.IdempotencyKey), p.item.Fingerprint; fingerprint == nil {
				return errNoFingerprint
			}
		}
		e.TenantID = im.tenant
		rows[n] = entries.EntryRow(e, origin, match, fingerprint)
	}
	exists, err := im.touch(touched)
	if err != nil {
		return err
	}
	for _, p := range todo {
		if !exists[p.record.AccountID] {
			return refuse(p.index, "accountId", "names an account that does not exist")
		}
	}
	return im.insert(entries.ImportEntries, rows, func(r engine.Row) string { return string(kernel.IDAt[atrium.EntryID](r, 0)) },
		func(added map[string]bool) error {
			for _, p := range todo {
				if !added[string(p.record.ID)] {
					return refuseTaken(p.index, "idempotencyKey", "another entry has it")
				}
				e := p.record
				im.entriesAdded = append(im.entriesAdded, counts.Entry{ID: e.ID, CreatedAt: e.CreatedAt, Source: e.Source, Type: e.Type})
			}
			return nil
		})
}

// touch raises the latest activity of accounts, and returns which of them exist.
func (im *importTx) touch(newest map[kernel.TenantKey]atrium.Time) (exists map[atrium.AccountID]bool, err error) {
	known, err := accounts.FindAccountRefs(im.tx, slices.Collect(maps.Keys(newest)))
	if err != nil {
		return nil, err
	}
	touched, minutes, err := accounts.LockActive(im.tx, known, newest)
	if err != nil {
		return nil, err
	}
	merged := map[kernel.TenantKey]atrium.Time{} // the activity of their survivors
	for k, a := range known {
		if s := (kernel.TenantKey{Tenant: k.Tenant, Key: string(a.Survivor)}); a.Survivor != "" {
			if at, ok := merged[s]; !ok || newest[k] > at {
				merged[s] = newest[k]
			}
		}
	}
	if err := accounts.RaiseActivity(im.tx, merged); err != nil {
		return nil, err
	}
	if err := minutes.Write(im.tx); err != nil {
		return nil, err
	}
	exists = make(map[atrium.AccountID]bool, len(touched))
	for k := range touched {
		exists[atrium.AccountID(k.Key)] = true
	}
	return exists, nil
}

// withoutErased returns the entries that were not erased, and refuses those with the key of an erased
// entry.
func (im *importTx) withoutErased(todo []pending[*atrium.Entry]) ([]pending[*atrium.Entry], error) {
	keys := tombstones.NewLookup(im.tx, &tombstones.Cache{})
	var rows []engine.Args
	for _, p := range todo {
		if p.record.ID != "" {
			rows = append(rows, engine.Args{kernel.IDArg(im.tenant), kernel.IDArg(p.record.ID)})
		}
	}
	erased, err := im.findTombstones(rows)
	if err != nil {
		return nil, err
	}
	todo = slices.DeleteFunc(todo, func(p pending[*atrium.Entry]) bool { return erased[tombstoneOf(p.record.ID)] != nil })
	for _, p := range todo {
		if p.record.IdempotencyKey != "" {
			keys.Add(im.tenant, kernel.KeyMatch(p.record.IdempotencyKey))
		}
	}
	byKey, err := keys.Run()
	if err != nil {
		return nil, err
	}
	for _, p := range todo {
		if _, taken := byKey[kernel.TenantKey{Tenant: im.tenant, Key: string(kernel.KeyMatch(p.record.IdempotencyKey))}]; taken {
			return nil, refuse(p.index, "idempotencyKey", "an erased entry has it")
		}
	}
	return todo, nil
}

// tombstoneOf returns the identity of the tombstone of an entry.
func tombstoneOf(id atrium.EntryID) string { return identity(&atrium.Tombstone{EntryID: id}) }

func (im *importTx) findTombstones(rows []engine.Args) (map[string]Record, error) {
	return im.find(tombstones.ByID, rows, scanned(im.tenant, tombstones.Scan))
}

// tombstones stores tombstones. The entry of none may be stored.
func (im *importTx) tombstones(run importRun) error {
	rows := make([]engine.Args, len(run.items))
	for i, item := range run.items {
		rows[i] = engine.Args{kernel.IDArg(im.tenant), kernel.IDArg(item.Record.(*atrium.Tombstone).EntryID)}
	}
	stored, err := im.findTombstones(rows)
	if err != nil {
		return err
	}
	todo, err := notStored[*atrium.Tombstone](run, stored)
	if err != nil || len(todo) == 0 {
		return err
	}
	entry := map[atrium.EntryID]bool{}
	if _, err := im.tx.Batch(existingEntries, rows, func(r engine.Row) error {
		entry[kernel.IDAt[atrium.EntryID](r, 0)] = true
		return nil
	}); err != nil {
		return err
	}
	all := make([]*atrium.Tombstone, len(todo))
	for i, p := range todo {
		if all[i] = p.record; entry[p.record.EntryID] && !im.copy {
			return refuse(p.index, "accountLogId", "is of an entry that is stored: erase it first")
		}
	}
	if err := im.addSecrets(todo); err != nil {
		return err
	}
	added := map[atrium.EntryID]bool{}
	if err := tombstones.Insert(im.tx, im.tenant, all, func(id atrium.EntryID) { added[id] = true }); err != nil {
		return err
	}
	im.added += len(added)
	for _, p := range todo {
		if !added[p.record.EntryID] {
			return refuseTaken(p.index, "keyHmac", "another tombstone has it")
		}
	}
	return nil
}

var existingEntries = engine.NewBatch(`SELECT e.entry_id FROM batch JOIN entries e
	ON e.tenant_id = batch.tenant_id AND e.entry_id = batch.id`, "tenant_id bytea", "id bytea")

// addSecrets stores the secrets of tombstones.
func (im *importTx) addSecrets(todo []pending[*atrium.Tombstone]) error {
	var secrets [][]byte
	for _, p := range todo {
		if p.record.Secret != nil {
			secrets = append(secrets, p.record.Secret)
		}
	}
	err := tombstones.AddSecrets(im.tx, im.tenant, secrets)
	if errors.Is(err, tombstones.ErrTooManySecrets) {
		return refuse(todo[0].index, "secret", fmt.Sprintf("the tombstones of a tenant have at most %d secrets, and these lines have more", tombstones.MaxSecrets))
	}
	return err
}
