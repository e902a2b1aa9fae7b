package store

import (
	"fmt"
	"maps"

	"atrium"
	"atrium/internal/store/engine"
)

// This file notes the activity of accounts that there are, and of what they were merged
// into, all in the order of their domains' hashes.

// minuteBehind is the minute that an account's active_minute should be, or null if it
// is. It is no part of the touch itself: to write a column of an index costs a server
// and SQLite several times as much.
const minuteBehind = `CASE WHEN accounts.active_minute < accounts.latest_activity_at / 60000000
		THEN accounts.latest_activity_at / 60000000 END`

// perMinute is how many units of an atrium.Time a minute has.
const perMinute = 60_000_000

// An account that is touched with no instant stays as it is, in a row that is new.
var touchAccounts = engine.NewBatch(`UPDATE accounts SET latest_activity_at =
		CASE WHEN batch.at IS NULL OR accounts.latest_activity_at >= batch.at THEN accounts.latest_activity_at ELSE batch.at END
	FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id
	RETURNING accounts.tenant_id, accounts.account_id, CASE WHEN accounts.name IS NULL THEN 1 ELSE 0 END,
		accounts.survivor_id, `+minuteBehind,
	"tenant_id bytea", "account_id bytea", "at bigint")

// The sum keeps a server from looking for the minutes before, which are most of a
// tenant's accounts, by their index: while a table is small it takes that for as good as
// the key, and goes on with that plan when the table has grown.
var raiseMinutes = engine.NewBatch(`UPDATE accounts SET active_minute = batch.minute
	FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id
		AND accounts.active_minute + 0 < batch.minute`, "tenant_id bytea", "account_id bytea", "minute bigint")

// The two ways to know of an account what the other one tells.
var (
	findAccounts = engine.NewBatch(`SELECT a.tenant_id, a.account_id, a.domain_hash, a.survivor_id, `+hashOfSurvivor+`
		FROM batch JOIN accounts a ON a.tenant_id = batch.tenant_id AND a.account_id = batch.account_id AND `+notErased,
		"tenant_id bytea", "account_id bytea")
	findDomains = engine.NewBatch(`SELECT a.tenant_id, a.account_id, a.domain_hash, a.survivor_id, `+hashOfSurvivor+`
		FROM batch JOIN accounts a ON a.tenant_id = batch.tenant_id AND a.domain_hash = batch.domain_hash`,
		"tenant_id bytea", "domain_hash bytea")
)

const hashOfSurvivor = `CASE WHEN a.survivor_id IS NOT NULL THEN
		(SELECT s.domain_hash FROM accounts s WHERE s.tenant_id = batch.tenant_id AND s.account_id = a.survivor_id) END`

// A knownAccount is what was read of an account before it is touched.
type knownAccount struct {
	hash         string // of its domain
	survivor     atrium.AccountID
	survivorHash string
}

func scanKnown(r engine.Row) (tenantKey, knownAccount) {
	return tenantKey{idAt[atrium.TenantID](r, 0), string(idAt[atrium.AccountID](r, 1))},
		knownAccount{string(r.Bytes(2)), idAt[atrium.AccountID](r, 3), string(r.Bytes(4))}
}

// findKnown returns those of the accounts that there are.
func findKnown(tx engine.Tx, accounts []tenantKey) (known map[tenantKey]knownAccount, err error) {
	known = make(map[tenantKey]knownAccount, len(accounts))
	rows := make([]engine.Args, len(accounts))
	for i, k := range accounts {
		rows[i] = engine.Args{idArg(k.tenant), idArg(atrium.AccountID(k.key))}
	}
	if _, err := tx.Batch(findAccounts, rows, func(r engine.Row) error {
		k, a := scanKnown(r)
		known[k] = a
		return nil
	}); err != nil {
		return nil, fmt.Errorf("find accounts: %w", err)
	}
	return known, nil
}

// touch notes the newest activity of accounts, of merged ones as that of what they were
// merged into; of those that have none in newest, it makes a new row that says the same.
// It returns of all of these, as far as they are still there, whether they have no name.
//
// A merged account is not touched itself. Who changes a group locks its survivor too, so
// that is enough to hold it; and two appends that come before and after a change of
// domains, which changes the order of the accounts, have only the survivor to wait for.
func touch(tx engine.Tx, known map[tenantKey]knownAccount, newest map[tenantKey]atrium.Time) (unnamed map[tenantKey]bool, err error) {
	ids := map[tenantKey]tenantKey{} // by the hash of the domain
	at := maps.Clone(newest)
	var merged []tenantKey
	for k, a := range known {
		if a.survivor == "" {
			ids[tenantKey{k.tenant, a.hash}] = k
			continue
		}
		merged = append(merged, k)
		s := tenantKey{k.tenant, string(a.survivor)}
		ids[tenantKey{k.tenant, a.survivorHash}] = s
		t, ok := newest[k]
		if now, noted := at[s]; ok && (!noted || t > now) {
			at[s] = t
		}
	}
	rows := make([]engine.Args, 0, len(ids))
	for _, h := range sorted(ids) {
		k := ids[h]
		row := engine.Args{idArg(k.tenant), idArg(atrium.AccountID(k.key)), nil}
		if t, ok := at[k]; ok {
			row[2] = int64(t)
		}
		rows = append(rows, row)
	}
	var t touched
	unnamed = make(map[tenantKey]bool, len(rows))
	if _, err := tx.Batch(touchAccounts, rows, func(r engine.Row) error {
		k, survivor := t.add(r)
		unnamed[k] = r.Int(2) == 1
		if survivor != "" {
			return errRegrouped
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("touch accounts: %w", err)
	}
	if len(merged) > 0 { // now that nobody can change them, are they still what they were?
		held, err := findKnown(tx, merged)
		if err != nil {
			return nil, err
		}
		for _, k := range merged {
			s, there := unnamed[tenantKey{k.tenant, string(known[k].survivor)}]
			if !there || held[k].survivor != known[k].survivor {
				return nil, errRegrouped
			}
			unnamed[k] = s
		}
	}
	return unnamed, t.finish(tx)
}

// touched is what statements that touch accounts return, as far as there is more
// to do: rows of raiseMinutes.
type touched []engine.Args

// add takes a row of touchAccounts or upsertAccounts, and returns the account and
// what it was merged into, "" if it stands for itself.
func (t *touched) add(r engine.Row) (account tenantKey, survivor atrium.AccountID) {
	tenant, id := idAt[atrium.TenantID](r, 0), idAt[atrium.AccountID](r, 1)
	survivor = idAt[atrium.AccountID](r, 3)
	if survivor == "" && !r.Null(4) {
		*t = append(*t, engine.Args{idArg(tenant), idArg(id), r.Int(4)})
	}
	return tenantKey{tenant, string(id)}, survivor
}

// finish brings the minutes up to date.
func (t touched) finish(tx engine.Tx) error { return tx.PipelineExec(raiseMinutes, t) }
