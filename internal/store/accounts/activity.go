package accounts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// The latest activity of an account is the time of its newest entry. An entry does not write it to
// the account's row: the index of entries by account has it. Only the activity of merged accounts
// is written, to latest_activity_at of their survivor. Changes that move entries away, and splits,
// compute it again.
//
// An append locks the accounts of its entries, so that they are not erased, merged or split before
// it commits. Appends share these locks.
//
// Every transaction locks accounts in LockOrder: identifiers never change, unlike domains.

// latestActivity returns the columns of an account a from which latestActivityAt computes its
// latest activity. tenant is SQL for its tenant: a parameter or a column of a batch.
func latestActivity(tenant string) string {
	return `a.latest_activity_at, (SELECT e.created_at FROM entries e
		WHERE e.tenant_id = ` + tenant + ` AND e.account_id = a.account_id ORDER BY e.created_at DESC LIMIT 1) AS newest_entry_at`
}

// latestActivityAt reads the columns of latestActivity, starting at the given column. It returns
// nil for an account without activity.
func latestActivityAt(r engine.Row, first int) *atrium.Time {
	merged, own := kernel.TimeAt(r, first), kernel.TimeAt(r, first+1)
	if merged == nil || own != nil && *own > *merged {
		return own
	}
	return merged
}

// microsPerMinute is a minute in units of atrium.Time.
const microsPerMinute = 60_000_000

// LockedColumns are the columns of an account a that ScanLocked reads, and LockedColumnsLen their
// number.
const (
	LockedColumns = "a.tenant_id, a.account_id, a.survivor_id, a.active_minute, " +
		"CASE WHEN a.name IS NULL AND a.domain <> '" + atrium.UnattributedDomain + "' THEN 1 ELSE 0 END"
	LockedColumnsLen = 5
)

// LockOrder is the order in which transactions lock accounts a.
const LockOrder = "a.tenant_id, a.account_id"

// A Locked is an account that an append has locked.
type Locked struct {
	kernel.TenantKey                  // its identifier
	Survivor         atrium.AccountID // "" if it is not merged
	Unnamed          bool             // and can be named
	minute           int64            // active_minute
}

// ScanLocked reads LockedColumns, starting at column 0.
func ScanLocked(r engine.Row) Locked {
	return Locked{
		kernel.TenantKey{Tenant: kernel.IDAt[atrium.TenantID](r, 0), Key: string(kernel.IDAt[atrium.AccountID](r, 1))},
		kernel.IDAt[atrium.AccountID](r, 2), r.Int(4) == 1, r.Int(3),
	}
}

var (
	lockAccounts = engine.NewBatch("SELECT "+LockedColumns+` FROM batch
		JOIN accounts a ON a.tenant_id = batch.tenant_id AND a.account_id = batch.account_id`,
		"tenant_id bytea", "account_id bytea").Share("a", LockOrder)
	// rewriteAccounts changes nothing, but the rows are written again.
	rewriteAccounts = engine.NewBatch(`UPDATE accounts SET latest_activity_at = accounts.latest_activity_at
		FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id`,
		"tenant_id bytea", "account_id bytea")
	raiseActivity = engine.NewBatch(`UPDATE accounts SET latest_activity_at = batch.at
		FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id
			AND (accounts.latest_activity_at IS NULL OR accounts.latest_activity_at < batch.at)`,
		"tenant_id bytea", "account_id bytea", "at bigint")
)

// Adding 0 prevents the use of the index on active_minute, whose condition matches most accounts
// of a tenant: on a small table, a server would choose that index over the primary key, and keep
// the plan when the table has grown.
var updateMinutes = engine.NewBatch(`UPDATE accounts SET active_minute = batch.minute
	FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id
		AND accounts.active_minute + 0 < batch.minute`, "tenant_id bytea", "account_id bytea", "minute bigint")

// Both find accounts and return what ScanAccountRef reads.
var (
	AccountRefsByID = engine.NewBatch(`SELECT a.tenant_id, a.account_id, a.domain_hash, a.survivor_id
		FROM batch JOIN accounts a ON a.tenant_id = batch.tenant_id AND a.account_id = batch.account_id AND `+NotErased,
		"tenant_id bytea", "account_id bytea")
	AccountRefsByDomain = engine.NewBatch(`SELECT a.tenant_id, a.account_id, a.domain_hash, a.survivor_id
		FROM batch JOIN accounts a ON a.tenant_id = batch.tenant_id AND a.domain_hash = batch.domain_hash`,
		"tenant_id bytea", "domain_hash bytea")
)

// An AccountRef is what an append reads of an account before locking it.
type AccountRef struct {
	Hash     string // of its domain
	Survivor atrium.AccountID
}

// ScanAccountRef reads a row of AccountRefsByID or AccountRefsByDomain.
func ScanAccountRef(r engine.Row) (kernel.TenantKey, AccountRef) {
	return kernel.TenantKey{Tenant: kernel.IDAt[atrium.TenantID](r, 0), Key: string(kernel.IDAt[atrium.AccountID](r, 1))},
		AccountRef{string(r.Bytes(2)), kernel.IDAt[atrium.AccountID](r, 3)}
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

// LockActive locks accounts that get an entry at the times in newest. Accounts without a time are
// rewritten without a change. For a merged account, it locks only the survivor. It returns for each
// account that still exists whether it has no name. For a merged account that is whether the survivor
// has none. It returns ErrGroupChanged if accounts were merged or split after refs were read. The
// caller updates or stores the minutes, and calls RaiseActivity for the survivors of merged accounts.
//
// Locking the survivor is enough, because every change of a group locks it.
func LockActive(tx engine.Tx, refs map[kernel.TenantKey]AccountRef, newest map[kernel.TenantKey]atrium.Time,
) (unnamed map[kernel.TenantKey]bool, minutes MinuteUpdates, err error) {
	roots := map[kernel.TenantKey]bool{}
	at := maps.Clone(newest)
	merged := map[kernel.TenantKey]kernel.TenantKey{} // their survivors
	for k, a := range refs {
		if a.Survivor == "" {
			roots[k] = true
			continue
		}
		s := kernel.TenantKey{Tenant: k.Tenant, Key: string(a.Survivor)}
		merged[k], roots[s] = s, true
		t, ok := newest[k]
		if now, found := at[s]; ok && (!found || t > now) {
			at[s] = t
		}
	}
	var locks, rewrites []engine.Args
	for _, k := range kernel.SortedKeys(roots) {
		row := engine.Args{kernel.IDArg(k.Tenant), kernel.IDArg(atrium.AccountID(k.Key))}
		locks = append(locks, row)
		if _, ok := at[k]; !ok {
			rewrites = append(rewrites, row)
		}
	}
	unnamed = make(map[kernel.TenantKey]bool, len(roots))
	locked := func(r engine.Row) error {
		a := ScanLocked(r)
		if a.Survivor != "" {
			return ErrGroupChanged
		}
		unnamed[a.TenantKey] = a.Unnamed
		if t, ok := at[a.TenantKey]; ok {
			minutes.Add(a, t)
		}
		return nil
	}
	if _, err := tx.Batch(lockAccounts, locks, locked); err != nil {
		return nil, nil, fmt.Errorf("lock accounts: %w", err)
	}
	if _, err := tx.Batch(rewriteAccounts, rewrites, nil); err != nil { // now locked: an UPDATE alone has no order
		return nil, nil, fmt.Errorf("rewrite accounts: %w", err)
	}
	if len(merged) > 0 { // now locked: check that the groups have not changed
		current, err := FindAccountRefs(tx, slices.Collect(maps.Keys(merged)))
		if err != nil {
			return nil, nil, err
		}
		for k, s := range merged {
			without, there := unnamed[s]
			if !there || current[k].Survivor != refs[k].Survivor {
				return nil, nil, ErrGroupChanged
			}
			unnamed[k] = without
		}
	}
	return unnamed, minutes, nil
}

// RaiseActivity records the activity of merged accounts, in the rows of their survivors, which must
// be locked.
func RaiseActivity(tx engine.Tx, newest map[kernel.TenantKey]atrium.Time) error {
	rows := make([]engine.Args, 0, len(newest))
	for _, k := range kernel.SortedKeys(newest) {
		rows = append(rows, engine.Args{kernel.IDArg(k.Tenant), kernel.IDArg(atrium.AccountID(k.Key)), int64(newest[k])})
	}
	return tx.PipelineExec(raiseActivity, rows)
}

// A MinuteUpdate is an account whose active_minute must be raised.
type MinuteUpdate struct {
	Tenant  atrium.TenantID
	Account atrium.AccountID
	Minute  int64
}

// MinuteUpdates are the accounts whose active_minute is out of date.
type MinuteUpdates []MinuteUpdate

// Add adds a locked account that gets an entry at the given time, if its minute is out of date.
func (u *MinuteUpdates) Add(a Locked, at atrium.Time) {
	if minute := ActiveMinute(&at); a.minute < minute {
		*u = append(*u, MinuteUpdate{a.Tenant, atrium.AccountID(a.Key), minute})
	}
}

// Write updates active_minute of the accounts, in one order on every node, because appends share the
// locks of accounts.
func (u MinuteUpdates) Write(tx engine.Tx) error {
	slices.SortFunc(u, func(a, b MinuteUpdate) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Account, b.Account))
	})
	rows := make([]engine.Args, len(u))
	for i, m := range u {
		rows[i] = engine.Args{kernel.IDArg(m.Tenant), kernel.IDArg(m.Account), m.Minute}
	}
	return tx.PipelineExec(updateMinutes, rows)
}

var minutesOfAccounts = engine.NewBatch("SELECT a.tenant_id, a.account_id, a.active_minute, a.survivor_id, "+latestActivity("batch.tenant_id")+` FROM batch
	JOIN accounts a ON a.tenant_id = batch.tenant_id AND a.account_id = batch.account_id`, "tenant_id bytea", "account_id bytea")

// UpdateMinutes raises active_minute of accounts to their latest activity. Each row has a tenant and
// the identifier of an account, which need not exist. It does nothing for merged accounts: a change
// of a group updates its root.
func UpdateMinutes(tx engine.Tx, accounts []engine.Args) error {
	// The locks keep other transactions from moving entries away between the next statements.
	if _, err := tx.Batch(lockAccounts, accounts, func(engine.Row) error { return nil }); err != nil {
		return fmt.Errorf("lock accounts: %w", err)
	}
	var minutes MinuteUpdates
	if _, err := tx.Batch(minutesOfAccounts, accounts, func(r engine.Row) error {
		if minute := ActiveMinute(latestActivityAt(r, 4)); r.Null(3) && r.Int(2) < minute {
			minutes = append(minutes, MinuteUpdate{kernel.IDAt[atrium.TenantID](r, 0), kernel.IDAt[atrium.AccountID](r, 1), minute})
		}
		return nil
	}); err != nil {
		return fmt.Errorf("read the latest activity: %w", err)
	}
	return minutes.Write(tx)
}
