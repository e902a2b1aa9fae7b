package accounts

import (
	"fmt"
	"maps"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file records the activity of existing accounts. It locks accounts in the order of their
// domain hashes. The activity of a merged account is recorded for its survivor.

// StaleMinute is a SQL expression: the new active_minute of an account, or NULL if it is up to
// date. A separate statement writes it, because updating an indexed column in every append costs
// several times as much.
const StaleMinute = `CASE WHEN accounts.active_minute < accounts.latest_activity_at / 60000000
		THEN accounts.latest_activity_at / 60000000 END`

// microsPerMinute is a minute in units of atrium.Time.
const microsPerMinute = 60_000_000

// A NULL time rewrites the row without a change, which locks it.
var updateActivity = engine.NewBatch(`UPDATE accounts SET latest_activity_at =
		CASE WHEN batch.at IS NULL OR accounts.latest_activity_at >= batch.at THEN accounts.latest_activity_at ELSE batch.at END
	FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id
	RETURNING accounts.tenant_id, accounts.account_id, CASE WHEN accounts.name IS NULL THEN 1 ELSE 0 END,
		accounts.survivor_id, `+StaleMinute,
	"tenant_id bytea", "account_id bytea", "at bigint")

// Adding 0 prevents the use of the index on active_minute, whose condition matches most accounts
// of a tenant: on a small table, a server would choose that index over the primary key, and keep
// the plan when the table has grown.
var updateMinutes = engine.NewBatch(`UPDATE accounts SET active_minute = batch.minute
	FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id
		AND accounts.active_minute + 0 < batch.minute`, "tenant_id bytea", "account_id bytea", "minute bigint")

// Both find accounts and return what ScanAccountRef reads.
var (
	AccountRefsByID = engine.NewBatch(`SELECT a.tenant_id, a.account_id, a.domain_hash, a.survivor_id, `+hashOfSurvivor+`
		FROM batch JOIN accounts a ON a.tenant_id = batch.tenant_id AND a.account_id = batch.account_id AND `+NotErased,
		"tenant_id bytea", "account_id bytea")
	AccountRefsByDomain = engine.NewBatch(`SELECT a.tenant_id, a.account_id, a.domain_hash, a.survivor_id, `+hashOfSurvivor+`
		FROM batch JOIN accounts a ON a.tenant_id = batch.tenant_id AND a.domain_hash = batch.domain_hash`,
		"tenant_id bytea", "domain_hash bytea")
)

const hashOfSurvivor = `CASE WHEN a.survivor_id IS NOT NULL THEN
		(SELECT s.domain_hash FROM accounts s WHERE s.tenant_id = batch.tenant_id AND s.account_id = a.survivor_id) END`

// An AccountRef is what an append reads of an account before locking it.
type AccountRef struct {
	Hash         string // of its domain
	Survivor     atrium.AccountID
	survivorHash string
}

// ScanAccountRef reads a row of AccountRefsByID or AccountRefsByDomain.
func ScanAccountRef(r engine.Row) (kernel.TenantKey, AccountRef) {
	return kernel.TenantKey{Tenant: kernel.IDAt[atrium.TenantID](r, 0), Key: string(kernel.IDAt[atrium.AccountID](r, 1))},
		AccountRef{string(r.Bytes(2)), kernel.IDAt[atrium.AccountID](r, 3), string(r.Bytes(4))}
}

// FindAccountRefs returns those of the accounts that exist.
func FindAccountRefs(tx engine.Tx, accounts []kernel.TenantKey) (refs map[kernel.TenantKey]AccountRef, err error) {
	refs = make(map[kernel.TenantKey]AccountRef, len(accounts))
	rows := make([]engine.Args, len(accounts))
	for i, k := range accounts {
		rows[i] = engine.Args{kernel.IDArg(k.Tenant), kernel.IDArg(atrium.AccountID(k.Key))}
	}
	if _, err := tx.Batch(AccountRefsByID, rows, func(r engine.Row) error {
		k, a := ScanAccountRef(r)
		refs[k] = a
		return nil
	}); err != nil {
		return nil, fmt.Errorf("find accounts: %w", err)
	}
	return refs, nil
}

// RecordActivity sets the latest activity of accounts to the times in newest. It also locks
// accounts that have no time in newest. For a merged account it updates and locks only the
// survivor. It returns for each account that still exists whether it has no name. For a merged
// account that is whether the survivor has none. It returns ErrGroupChanged if accounts were merged
// or split after refs were read.
//
// Locking the survivor is enough, because every change of a group locks it. It also means that
// appends wait only for the survivor when a change of domains reorders the accounts.
func RecordActivity(tx engine.Tx, refs map[kernel.TenantKey]AccountRef, newest map[kernel.TenantKey]atrium.Time) (unnamed map[kernel.TenantKey]bool, err error) {
	ids := map[kernel.TenantKey]kernel.TenantKey{} // by domain hash
	at := maps.Clone(newest)
	var merged []kernel.TenantKey
	for k, a := range refs {
		if a.Survivor == "" {
			ids[kernel.TenantKey{Tenant: k.Tenant, Key: a.Hash}] = k
			continue
		}
		merged = append(merged, k)
		s := kernel.TenantKey{Tenant: k.Tenant, Key: string(a.Survivor)}
		ids[kernel.TenantKey{Tenant: k.Tenant, Key: a.survivorHash}] = s
		t, ok := newest[k]
		if now, found := at[s]; ok && (!found || t > now) {
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
	var t MinuteUpdates
	unnamed = make(map[kernel.TenantKey]bool, len(rows))
	if _, err := tx.Batch(updateActivity, rows, func(r engine.Row) error {
		k, survivor := t.Add(r)
		unnamed[k] = r.Int(2) == 1
		if survivor != "" {
			return ErrGroupChanged
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("update the activity of accounts: %w", err)
	}
	if len(merged) > 0 { // now locked: check that the groups have not changed
		current, err := FindAccountRefs(tx, merged)
		if err != nil {
			return nil, err
		}
		for _, k := range merged {
			s, there := unnamed[kernel.TenantKey{Tenant: k.Tenant, Key: string(refs[k].Survivor)}]
			if !there || current[k].Survivor != refs[k].Survivor {
				return nil, ErrGroupChanged
			}
			unnamed[k] = s
		}
	}
	return unnamed, t.Write(tx)
}

// MinuteUpdates collects the accounts whose active_minute is stale, from the rows of statements
// that return StaleMinute.
type MinuteUpdates []engine.Args

// Add reads a row of updateActivity or upsertAccounts. It returns the account and its survivor, ""
// if it is not merged.
func (t *MinuteUpdates) Add(r engine.Row) (account kernel.TenantKey, survivor atrium.AccountID) {
	tenant, id := kernel.IDAt[atrium.TenantID](r, 0), kernel.IDAt[atrium.AccountID](r, 1)
	survivor = kernel.IDAt[atrium.AccountID](r, 3)
	if survivor == "" && !r.Null(4) {
		*t = append(*t, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id), r.Int(4)})
	}
	return kernel.TenantKey{Tenant: tenant, Key: string(id)}, survivor
}

// Write updates active_minute of the collected accounts.
func (t MinuteUpdates) Write(tx engine.Tx) error { return tx.PipelineExec(updateMinutes, t) }
