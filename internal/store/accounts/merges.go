package accounts

import (
	"context"
	"slices"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// A merge moves no entries. An account that was merged into another one stays, with
// its entries and links, and says where it leads to: merged_into is the account that
// it was merged into and survivor_id the one at the end, which stands for all of them.
// Whoever changes groups locks all of their accounts first, in the order of their
// domains, as appends do.

// MergeAccounts merges the account that one identifier leads to, with all that was
// merged into it, into the account that another one leads to, and returns that one.
// The account as it stands is first given to check, whose error ends the call; nil stands
// for no check. One that is merged into the other already changes nothing. It is NotFound if there is
// no such account, and Conflict if they are the same, one of them is the unattributed
// account, more than atrium.MaxMerged would be merged into one, or more than MaxRegrouped
// prospects are linked to what is merged.
func (s *Store) MergeAccounts(ctx context.Context, c atrium.Change, id, into atrium.AccountID, check func(atrium.AccountDetail) error) (atrium.AccountDetail, error) {
	d, _, err := s.changeAccount(ctx, c, id, check, func(tx *kernel.Mutation, p Precondition) (atrium.AccountID, error) {
		groups, err := LockGroups(tx, id, into)
		if err != nil {
			return "", err
		}
		from, to := groups[0], groups[1]
		if err := p.CheckGroup(tx, from); err != nil {
			return "", err
		}
		if from == to {
			m, err := FindMember(tx, c.TenantID, id)
			if err != nil {
				return "", err
			}
			if m.Into != "" && (m.Into == into || m.survivor == into) {
				return to.Root.ID, nil
			}
		}
		if refusal := MergeRefused(from, to); refusal != "" {
			return "", atrium.Errorf(atrium.CodeConflict, "It cannot be merged: %s.", refusal)
		}
		if err := checkLinks(tx, from.IDs()); err != nil {
			return "", err
		}
		tx.RecordDetail("account.merge", string(from.Root.ID), map[string]any{"into": to.Root.ID})
		to.Root.UpdatedAt = max(to.Root.UpdatedAt, tx.At)
		if err := JoinGroups(tx, c.TenantID, from, to, to.Root.ID); err != nil {
			return "", err
		}
		if to.Root.named || !from.Root.named {
			return to.Root.ID, nil
		}
		named, err := Account(tx, c.TenantID, from.Root.ID)
		if err != nil {
			return "", err
		}
		root, err := Account(tx, c.TenantID, to.Root.ID)
		if err != nil {
			return "", err
		}
		return root.ID, update(tx, &root, named.Name, root.Domain)
	})
	return d, err
}

// MaxRegrouped is how many links to prospects one transaction copies when accounts are
// merged or split.
const MaxRegrouped = 10_000

// TooManyLinks says of an account why it cannot be merged.
const TooManyLinks = "has more than 10,000 linked prospects, which must be unlinked first"

// linkBytes is about how many bytes a copy of a link has in its table and index.
const linkBytes = 150

// checkLinks returns an error if accounts have more than MaxRegrouped links together, and weighs the
// copies of these that are made or deleted.
func checkLinks(tx *kernel.Mutation, accounts []atrium.AccountID) error {
	left, err := LinksLeft(tx, tx.Change.TenantID, accounts, MaxRegrouped)
	switch {
	case err != nil:
		return err
	case left < 0:
		return atrium.Errorf(atrium.CodeConflict, "The account %s.", TooManyLinks)
	}
	return tx.CountBytes(linkBytes * int(MaxRegrouped-left))
}

// LinksLeft returns how many links to prospects are left of most when those of the accounts
// are taken away; less than 0 if there are more.
func LinksLeft(tx engine.Tx, tenant atrium.TenantID, accounts []atrium.AccountID, most int64) (left int64, err error) {
	left = most
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

// MergeRefused says why a group cannot be merged into another one, or "".
func MergeRefused(from, to *Group) string {
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
	// Nobody finds what is merged by its name.
	regroupAccounts = engine.NewBatch(`UPDATE accounts SET merged_into = batch.merged_into, survivor_id = batch.survivor_id, name_hash = NULL
		FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id`,
		"tenant_id bytea", "account_id bytea", "merged_into bytea", "survivor_id bytea")

	moveMembers = engine.NewBatch(`UPDATE accounts SET survivor_id = batch.survivor_id
		FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id`,
		"tenant_id bytea", "account_id bytea", "survivor_id bytea")

	// What is shown of a group.
	updateSurvivors = engine.NewBatch(`UPDATE accounts SET
			latest_activity_at = batch.latest_activity_at, active_minute = batch.active_minute, updated_at = batch.updated_at
		FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id`,
		"tenant_id bytea", "account_id bytea", "latest_activity_at bigint", "active_minute bigint", "updated_at bigint")
)

// noActivity is the active_minute of an account without activity.
const noActivity = -2_000_000_000

// MinuteOf returns the active_minute of an account whose newest activity was then; nil
// stands for none.
func MinuteOf(latest *atrium.Time) int64 {
	if latest == nil {
		return noActivity
	}
	return int64(*latest) / perMinute
}

// JoinGroups makes one group of two, both of which are locked: the root of one is
// merged into an account of the other. What the other root shows follows from both.
func JoinGroups(tx engine.Tx, tenant atrium.TenantID, from, to *Group, into atrium.AccountID) error {
	if _, err := tx.Batch(regroupAccounts, []engine.Args{{kernel.IDArg(tenant), kernel.IDArg(from.Root.ID), kernel.IDArg(into), kernel.IDArg(to.Root.ID)}}, nil); err != nil {
		return err
	}
	rows := make([]engine.Args, len(from.Members))
	for i, id := range from.Members {
		rows[i] = engine.Args{kernel.IDArg(tenant), kernel.IDArg(id), kernel.IDArg(to.Root.ID)}
	}
	if _, err := tx.Batch(moveMembers, rows, nil); err != nil {
		return err
	}
	to.Members = slices.Sorted(slices.Values(append(to.Members, from.IDs()...)))
	root := &to.Root
	if root.LatestActivityAt == nil || from.Root.LatestActivityAt != nil && *from.Root.LatestActivityAt > *root.LatestActivityAt {
		root.LatestActivityAt = from.Root.LatestActivityAt
	}
	if err := showGroups(tx, tenant, root); err != nil {
		return err
	}
	if err := deleteCopies(tx, tenant, from.Root.ID); err != nil {
		return err
	}
	return copyLinksOf(tx, tenant, root.ID, from.IDs())
}

// showGroups stores what accounts that stand for themselves show.
func showGroups(tx engine.Tx, tenant atrium.TenantID, roots ...*member) error {
	rows := make([]engine.Args, len(roots))
	for i, m := range roots {
		rows[i] = engine.Args{
			kernel.IDArg(tenant), kernel.IDArg(m.ID), kernel.NullableTime(m.LatestActivityAt), MinuteOf(m.LatestActivityAt), int64(m.UpdatedAt),
		}
	}
	_, err := tx.Batch(updateSurvivors, rows, nil)
	return err
}

// SplitAccount takes an account out of the group that another one leads to, with all
// that was merged into it, so that it stands for itself again, and returns the account
// that it was taken from. That account as it stands is first given to check, whose error
// ends the call; nil stands for no check. It is NotFound unless the account was merged into
// that one, and Conflict if more than MaxRegrouped prospects are linked to the group.
func (s *Store) SplitAccount(ctx context.Context, c atrium.Change, id, account atrium.AccountID, check func(atrium.AccountDetail) error) (atrium.AccountDetail, error) {
	d, _, err := s.changeAccount(ctx, c, id, check, func(tx *kernel.Mutation, p Precondition) (atrium.AccountID, error) {
		g, err := LockGroup(tx, id)
		if err != nil {
			return "", err
		}
		if err := p.CheckGroup(tx, g); err != nil {
			return "", err
		}
		all, err := mergedInto(tx, c.TenantID, g.Root.ID)
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(all, func(m *member) bool { return m.ID == account })
		if i < 0 {
			return "", atrium.NotFound()
		}
		top, out := all[i], below(all, account)
		if err := checkLinks(tx, g.IDs()); err != nil {
			return "", err
		}
		tx.RecordDetail("account.split", string(top.ID), map[string]any{"from": g.Root.ID})
		return g.Root.ID, split(tx, &g.Root, all, out, top)
	})
	return d, err
}

// split takes those of the members of a group out of it that lead to top, which is one of
// them.
func split(tx *kernel.Mutation, root *member, all, out []*member, top *member) error {
	tenant := tx.Change.TenantID
	top.Into = ""
	rows := make([]engine.Args, len(out))
	for i, m := range out {
		m.survivor = top.ID
		if m == top {
			m.survivor = ""
		}
		rows[i] = engine.Args{kernel.IDArg(tenant), kernel.IDArg(m.ID), kernel.IDArg(m.Into), kernel.IDArg(m.survivor)}
	}
	if _, err := tx.Batch(regroupAccounts, rows, nil); err != nil {
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
		shows := root
		if slices.Contains(out, m) {
			shows = top
		}
		if at := newest[m.ID]; at != nil && (shows.LatestActivityAt == nil || *at > *shows.LatestActivityAt) {
			shows.LatestActivityAt = at
		}
	}
	root.UpdatedAt, top.UpdatedAt = max(root.UpdatedAt, tx.At), max(top.UpdatedAt, tx.At)
	if err := showGroups(tx, tenant, root, top); err != nil {
		return err
	}
	if top.named { // it is found by its name again
		a, err := Account(tx, tenant, top.ID)
		if err != nil {
			return err
		}
		if _, err := tx.Batch(renameAccounts, []engine.Args{
			{kernel.IDArg(tenant), kernel.IDArg(top.ID), a.Name, NameHash(a.Domain, a.Name), int64(top.UpdatedAt)},
		}, nil); err != nil {
			return err
		}
	}
	return relink(tx, tenant, root.ID, top.ID)
}

var newestOfAccounts = engine.NewBatch(`SELECT batch.account_id, (SELECT e.created_at FROM entries e
		WHERE e.tenant_id = batch.tenant_id AND e.account_id = batch.account_id ORDER BY e.created_at DESC LIMIT 1)
	FROM batch`, "tenant_id bytea", "account_id bytea")

// NewestEntries returns when the newest entry of each of the accounts was recorded.
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
