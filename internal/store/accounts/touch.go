package accounts

import (
	"fmt"
	"maps"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file notes the activity of accounts that there are, and of what they were merged
// into, all in the order of their domains' hashes.

// MinuteBehind is the minute that an account's active_minute should be, or null if it
// is. It is no part of the touch itself: to write a column of an index costs a server
// and SQLite several times as much.
const MinuteBehind = `CASE WHEN accounts.active_minute < accounts.latest_activity_at / 60000000
		THEN accounts.latest_activity_at / 60000000 END`

// perMinute is how many units of an atrium.Time a minute has.
const perMinute = 60_000_000

// An account that is touched with no instant stays as it is, in a row that is new.
var touchAccounts = engine.NewBatch(`UPDATE accounts SET latest_activity_at =
		CASE WHEN batch.at IS NULL OR accounts.latest_activity_at >= batch.at THEN accounts.latest_activity_at ELSE batch.at END
	FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id
	RETURNING accounts.tenant_id, accounts.account_id, CASE WHEN accounts.name IS NULL THEN 1 ELSE 0 END,
		accounts.survivor_id, `+MinuteBehind,
	"tenant_id bytea", "account_id bytea", "at bigint")

// The sum keeps a server from looking for the minutes before, which are most of a
// tenant's accounts, by their index: while a table is small it takes that for as good as
// the key, and goes on with that plan when the table has grown.
var raiseMinutes = engine.NewBatch(`UPDATE accounts SET active_minute = batch.minute
	FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id
		AND accounts.active_minute + 0 < batch.minute`, "tenant_id bytea", "account_id bytea", "minute bigint")

// The two ways to know of an account what the other one tells.
var (
	FindAccounts = engine.NewBatch(`SELECT a.tenant_id, a.account_id, a.domain_hash, a.survivor_id, `+hashOfSurvivor+`
		FROM batch JOIN accounts a ON a.tenant_id = batch.tenant_id AND a.account_id = batch.account_id AND `+NotErased,
		"tenant_id bytea", "account_id bytea")
	FindDomains = engine.NewBatch(`SELECT a.tenant_id, a.account_id, a.domain_hash, a.survivor_id, `+hashOfSurvivor+`
		FROM batch JOIN accounts a ON a.tenant_id = batch.tenant_id AND a.domain_hash = batch.domain_hash`,
		"tenant_id bytea", "domain_hash bytea")
)

const hashOfSurvivor = `CASE WHEN a.survivor_id IS NOT NULL THEN
		(SELECT s.domain_hash FROM accounts s WHERE s.tenant_id = batch.tenant_id AND s.account_id = a.survivor_id) END`

// A KnownAccount is what was read of an account before it is touched.
type KnownAccount struct {
	Hash         string // of its domain
	Survivor     atrium.AccountID
	survivorHash string
}

// ScanKnown reads a row of FindAccounts or FindDomains.
func ScanKnown(r engine.Row) (kernel.TenantKey, KnownAccount) {
	return kernel.TenantKey{Tenant: kernel.IDAt[atrium.TenantID](r, 0), Key: string(kernel.IDAt[atrium.AccountID](r, 1))},
		KnownAccount{string(r.Bytes(2)), kernel.IDAt[atrium.AccountID](r, 3), string(r.Bytes(4))}
}

// FindKnown returns those of the accounts that there are.
func FindKnown(tx engine.Tx, accounts []kernel.TenantKey) (known map[kernel.TenantKey]KnownAccount, err error) {
	known = make(map[kernel.TenantKey]KnownAccount, len(accounts))
	rows := make([]engine.Args, len(accounts))
	for i, k := range accounts {
		rows[i] = engine.Args{kernel.IDArg(k.Tenant), kernel.IDArg(atrium.AccountID(k.Key))}
	}
	if _, err := tx.Batch(FindAccounts, rows, func(r engine.Row) error {
		k, a := ScanKnown(r)
		known[k] = a
		return nil
	}); err != nil {
		return nil, fmt.Errorf("find accounts: %w", err)
	}
	return known, nil
}

// Touch notes the newest activity of accounts, of merged ones as that of what they were
// merged into; of those that have none in newest, it makes a new row that says the same.
// It returns of all of these, as far as they are still there, whether they have no name.
//
// A merged account is not touched itself. Who changes a group locks its survivor too, so
// that is enough to hold it; and two appends that come before and after a change of
// domains, which changes the order of the accounts, have only the survivor to wait for.
func Touch(tx engine.Tx, known map[kernel.TenantKey]KnownAccount, newest map[kernel.TenantKey]atrium.Time) (unnamed map[kernel.TenantKey]bool, err error) {
	ids := map[kernel.TenantKey]kernel.TenantKey{} // by the hash of the domain
	at := maps.Clone(newest)
	var merged []kernel.TenantKey
	for k, a := range known {
		if a.Survivor == "" {
			ids[kernel.TenantKey{Tenant: k.Tenant, Key: a.Hash}] = k
			continue
		}
		merged = append(merged, k)
		s := kernel.TenantKey{Tenant: k.Tenant, Key: string(a.Survivor)}
		ids[kernel.TenantKey{Tenant: k.Tenant, Key: a.survivorHash}] = s
		t, ok := newest[k]
		if now, noted := at[s]; ok && (!noted || t > now) {
			at[s] = t
		}
	}
	rows := make([]engine.Args, 0, len(ids))
	for _, h := range kernel.SortedKeys(ids) {
		k := ids[h]
		row := engine.Args{kernel.IDArg(k.Tenant), kernel.IDArg(atrium.AccountID(k.Key)), nil}
		if t, ok := at[k]; ok {
			row[2] = int64(t)
		}
		rows = append(rows, row)
	}
	var t Touched
	unnamed = make(map[kernel.TenantKey]bool, len(rows))
	if _, err := tx.Batch(touchAccounts, rows, func(r engine.Row) error {
		k, survivor := t.Add(r)
		unnamed[k] = r.Int(2) == 1
		if survivor != "" {
			return ErrRegrouped
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("touch accounts: %w", err)
	}
	if len(merged) > 0 { // now that nobody can change them, are they still what they were?
		held, err := FindKnown(tx, merged)
		if err != nil {
			return nil, err
		}
		for _, k := range merged {
			s, there := unnamed[kernel.TenantKey{Tenant: k.Tenant, Key: string(known[k].Survivor)}]
			if !there || held[k].Survivor != known[k].Survivor {
				return nil, ErrRegrouped
			}
			unnamed[k] = s
		}
	}
	return unnamed, t.Finish(tx)
}

// Touched is what statements that touch accounts return, as far as there is more
// to do: rows of raiseMinutes.
type Touched []engine.Args

// Add takes a row of touchAccounts or upsertAccounts, and returns the account and
// what it was merged into, "" if it stands for itself.
func (t *Touched) Add(r engine.Row) (account kernel.TenantKey, survivor atrium.AccountID) {
	tenant, id := kernel.IDAt[atrium.TenantID](r, 0), kernel.IDAt[atrium.AccountID](r, 1)
	survivor = kernel.IDAt[atrium.AccountID](r, 3)
	if survivor == "" && !r.Null(4) {
		*t = append(*t, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id), r.Int(4)})
	}
	return kernel.TenantKey{Tenant: tenant, Key: string(id)}, survivor
}

// finish brings the minutes up to date.
func (t Touched) Finish(tx engine.Tx) error { return tx.PipelineExec(raiseMinutes, t) }
