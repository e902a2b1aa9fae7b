package accounts

import (
	"context"
	"slices"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// A merge does not move entries. A merged account keeps its entries and links, and points to other
// accounts: merged_into is the account that it was merged into, and survivor_id is the root of the
// resulting tree, which is shown for the whole group. Changes of groups first lock all of their
// accounts in LockOrder, as appends do.

// MergeAccounts merges the group of the account id into the account that into leads to, and
// returns that account. It first calls check, if not nil, with the account that id leads to, and
// returns its error. If id was already merged into that account, nothing changes. It returns
// NotFound if one of the accounts does not exist, and Conflict if they are the same account, if
// one is the unattributed account, if more than atrium.MaxMerged accounts would be merged into
// one, or if the merged group has more than MaxCopiedLinks links.
func (s *Store) MergeAccounts(ctx context.Context, c atrium.Change, id, into atrium.AccountID, check func(atrium.AccountDetail) error) (atrium.AccountDetail, error) {
	d, _, err := s.changeAccount(ctx, c, id, check, func(tx *kernel.Mutation, p Precondition) (atrium.AccountID, error) {
		groups, err := LockGroups(tx, id, into)
		if err != nil {
			return "", err
		}
		from, to := groups[0], groups[1]
		for _, g := range groups {
			if err := g.count(tx); err != nil {
				return "", err
			}
		}
		if err := p.CheckGroup(tx, from); err != nil {
			return "", err
		}
		if from == to {
			m, err := FindMember(tx, c.TenantID, id)
			if err != nil {
				return "", err
			}
			if m.MergedInto != "" && (m.MergedInto == into || m.survivor == into) {
				return to.Root.ID, nil
			}
		}
		if refusal := MergeRefusal(from, to); refusal != "" {
			return "", atrium.Errorf(atrium.CodeConflict, "It cannot be merged: %s.", refusal)
		}
		if err := checkLinks(tx, from.IDs()); err != nil {
			return "", err
		}
		tx.RecordDetail("account.merge", string(from.Root.ID), map[string]any{"into": to.Root.ID})
		to.Root.UpdatedAt = max(to.Root.UpdatedAt, tx.At)
		if err := MergeGroups(tx, c.TenantID, from, to, to.Root.ID); err != nil {
			return "", err
		}
		if to.Root.named || !from.Root.named {
			return to.Root.ID, nil
		}
		named, err := FindAccountRow(tx, c.TenantID, from.Root.ID)
		if err != nil {
			return "", err
		}
		root, err := FindAccountRow(tx, c.TenantID, to.Root.ID)
		if err != nil {
			return "", err
		}
		return root.ID, updateAccount(tx, &root, named.Name, root.Domain)
	})
	return d, err
}

// MaxCopiedLinks is how many links a merge or split copies at most.
const MaxCopiedLinks = 10_000

// TooManyLinks is why an account with more than MaxCopiedLinks links cannot be merged, as a
// predicate for error messages.
const TooManyLinks = "has more than 10,000 linked prospects, which must be unlinked first"

// linkBytes is the approximate size of a link in its table and index.
const linkBytes = 150

// checkLinks returns Conflict if accounts have more than MaxCopiedLinks links in total, and counts
// the bytes of the copies that the change writes or deletes.
func checkLinks(tx *kernel.Mutation, accounts []atrium.AccountID) error {
	left, err := RemainingLinks(tx, tx.Change.TenantID, accounts, MaxCopiedLinks)
	switch {
	case err != nil:
		return err
	case left < 0:
		return atrium.Errorf(atrium.CodeConflict, "The account %s.", TooManyLinks)
	}
	return tx.CountBytes(linkBytes * int(MaxCopiedLinks-left))
}

// RemainingLinks returns limit minus the number of links of the accounts. The result is negative
// if they have more links than limit.
func RemainingLinks(tx engine.Tx, tenant atrium.TenantID, accounts []atrium.AccountID, limit int64) (left int64, err error) {
	left = limit
	for _, id := range accounts {
		if left < 0 {
			break
		}
		if err := tx.Query("SELECT COUNT(*) FROM (SELECT 1 FROM account_prospects WHERE tenant_id = $1 AND account_id = $2 LIMIT $3) AS links",
			engine.Args{kernel.IDArg(tenant), kernel.IDArg(id), left + 1}, func(r engine.Row) error {
				left -= r.Int(0)
				return nil
			}); err != nil {
			return 0, err
		}
	}
	return left, nil
}

// MergeRefusal returns why a group cannot be merged into another one, or "".
func MergeRefusal(from, to *Group) string {
	switch {
	case from == to:
		return "the accounts are one already"
	case from.Root.unattributed() || to.Root.unattributed():
		return "the unattributed account cannot be merged"
	case len(from.Members)+1+len(to.Members) > atrium.MaxMerged:
		return "too many accounts would be merged into one"
	}
	return ""
}

var (
	// Merged accounts are not found by name.
	updateMergedInto = engine.NewBatch(`UPDATE accounts SET merged_into = batch.merged_into, survivor_id = batch.survivor_id, name_hash = NULL
		FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id`,
		"tenant_id bytea", "account_id bytea", "merged_into bytea", "survivor_id bytea")

	updateSurvivorIDs = engine.NewBatch(`UPDATE accounts SET survivor_id = batch.survivor_id
		FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id`,
		"tenant_id bytea", "account_id bytea", "survivor_id bytea")

	// The fields of a root that depend on its group.
	updateRootRows = engine.NewBatch(`UPDATE accounts SET
			latest_activity_at = batch.latest_activity_at, active_minute = batch.active_minute, updated_at = batch.updated_at
		FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id`,
		"tenant_id bytea", "account_id bytea", "latest_activity_at bigint", "active_minute bigint", "updated_at bigint")
)

// noActivity is the active_minute of an account without activity.
const noActivity = -2_000_000_000

// ActiveMinute returns the active_minute for the time of the latest activity, which can be nil.
func ActiveMinute(latest *atrium.Time) int64 {
	if latest == nil {
		return noActivity
	}
	return int64(*latest) / microsPerMinute
}

// MergeGroups merges the root of group from into an account of group to, and updates to. Both
// groups must be locked.
func MergeGroups(tx engine.Tx, tenant atrium.TenantID, from, to *Group, into atrium.AccountID) error {
	if _, err := tx.Batch(updateMergedInto, []engine.Args{{kernel.IDArg(tenant), kernel.IDArg(from.Root.ID), kernel.IDArg(into), kernel.IDArg(to.Root.ID)}}, nil); err != nil {
		return err
	}
	rows := make([]engine.Args, len(from.Members))
	for i, id := range from.Members {
		rows[i] = engine.Args{kernel.IDArg(tenant), kernel.IDArg(id), kernel.IDArg(to.Root.ID)}
	}
	if _, err := tx.Batch(updateSurvivorIDs, rows, nil); err != nil {
		return err
	}
	to.Members = slices.Sorted(slices.Values(append(to.Members, from.IDs()...)))
	root := &to.Root
	if root.LatestActivityAt == nil || from.Root.LatestActivityAt != nil && *from.Root.LatestActivityAt > *root.LatestActivityAt {
		root.LatestActivityAt = from.Root.LatestActivityAt
	}
	if err := updateRoots(tx, tenant, root); err != nil {
		return err
	}
	if err := deleteCopies(tx, tenant, from.Root.ID); err != nil {
		return err
	}
	return copyLinksOf(tx, tenant, root.ID, from.IDs())
}

// updateRoots stores the fields of roots that depend on their groups.
func updateRoots(tx engine.Tx, tenant atrium.TenantID, roots ...*member) error {
	rows := make([]engine.Args, len(roots))
	for i, m := range roots {
		rows[i] = engine.Args{
			kernel.IDArg(tenant), kernel.IDArg(m.ID), kernel.NullableTime(m.LatestActivityAt), ActiveMinute(m.LatestActivityAt), int64(m.UpdatedAt),
		}
	}
	_, err := tx.Batch(updateRootRows, rows, nil)
	return err
}

// SplitAccount splits account, with all accounts merged into it, from the group of id. It returns
// the account that id leads to. It first calls check, if not nil, with that account, and returns
// its error. It returns NotFound if account is not merged into it, and Conflict if the group has
// more than MaxCopiedLinks links.
func (s *Store) SplitAccount(ctx context.Context, c atrium.Change, id, account atrium.AccountID, check func(atrium.AccountDetail) error) (atrium.AccountDetail, error) {
	d, _, err := s.changeAccount(ctx, c, id, check, func(tx *kernel.Mutation, p Precondition) (atrium.AccountID, error) {
		g, err := LockGroup(tx, id)
		if err != nil {
			return "", err
		}
		if err := g.count(tx); err != nil {
			return "", err
		}
		if err := p.CheckGroup(tx, g); err != nil {
			return "", err
		}
		all, err := findMerged(tx, c.TenantID, g.Root.ID)
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(all, func(m *member) bool { return m.ID == account })
		if i < 0 {
			return "", atrium.NotFound()
		}
		top, out := all[i], subtree(all, account)
		if err := checkLinks(tx, g.IDs()); err != nil {
			return "", err
		}
		tx.RecordDetail("account.split", string(top.ID), map[string]any{"from": g.Root.ID})
		return g.Root.ID, splitGroup(tx, &g.Root, all, out, top)
	})
	return d, err
}

// splitGroup makes top the root of a separate group. all are the members merged into root; out are
// those in the subtree of top, including top.
func splitGroup(tx *kernel.Mutation, root *member, all, out []*member, top *member) error {
	tenant := tx.Change.TenantID
	top.MergedInto = ""
	rows := make([]engine.Args, len(out))
	for i, m := range out {
		m.survivor = top.ID
		if m == top {
			m.survivor = ""
		}
		rows[i] = engine.Args{kernel.IDArg(tenant), kernel.IDArg(m.ID), kernel.IDArg(m.MergedInto), kernel.IDArg(m.survivor)}
	}
	if _, err := tx.Batch(updateMergedInto, rows, nil); err != nil {
		return err
	}
	ids := []atrium.AccountID{root.ID}
	for _, m := range all {
		ids = append(ids, m.ID)
	}
	newest, err := NewestEntries(tx, tenant, ids)
	if err != nil {
		return err
	}
	root.LatestActivityAt, top.LatestActivityAt = newest[root.ID], nil
	for _, m := range all {
		owner := root
		if slices.Contains(out, m) {
			owner = top
		}
		if at := newest[m.ID]; at != nil && (owner.LatestActivityAt == nil || *at > *owner.LatestActivityAt) {
			owner.LatestActivityAt = at
		}
	}
	root.UpdatedAt, top.UpdatedAt = max(root.UpdatedAt, tx.At), max(top.UpdatedAt, tx.At)
	if err := updateRoots(tx, tenant, root, top); err != nil {
		return err
	}
	if top.named { // restore its name_hash
		a, err := FindAccountRow(tx, tenant, top.ID)
		if err != nil {
			return err
		}
		if _, err := tx.Batch(renameAccounts, []engine.Args{
			{kernel.IDArg(tenant), kernel.IDArg(top.ID), a.Name, NameHash(a.Domain, a.Name), int64(top.UpdatedAt)},
		}, nil); err != nil {
			return err
		}
	}
	return replaceCopies(tx, tenant, root.ID, top.ID)
}

var newestOfAccounts = engine.NewBatch(`SELECT batch.account_id, (SELECT e.created_at FROM entries e
		WHERE e.tenant_id = batch.tenant_id AND e.account_id = batch.account_id ORDER BY e.created_at DESC LIMIT 1)
	FROM batch`, "tenant_id bytea", "account_id bytea")

// NewestEntries returns the created_at of each account's newest entry, nil if it has none.
func NewestEntries(tx engine.Tx, tenant atrium.TenantID, accounts []atrium.AccountID) (map[atrium.AccountID]*atrium.Time, error) {
	rows := make([]engine.Args, len(accounts))
	for i, id := range accounts {
		rows[i] = engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}
	}
	newest := make(map[atrium.AccountID]*atrium.Time, len(accounts))
	_, err := tx.Batch(newestOfAccounts, rows, func(r engine.Row) error {
		newest[kernel.IDAt[atrium.AccountID](r, 0)] = kernel.TimeAt(r, 1)
		return nil
	})
	return newest, err
}
