package store

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"atrium"
	"atrium/internal/store/engine"
)

// A merge moves no entries. An account that was merged into another one stays, with
// its entries and links, and says where it leads to: merged_into is the account that
// it was merged into and survivor_id the one at the end, which stands for all of them.
// Whoever changes groups locks all of their accounts first, in the order of their
// domains, as appends do.

// A member is an account with its place among those that are merged.
type member struct {
	atrium.Account
	into     atrium.AccountID // directly; "" if it stands for itself
	survivor atrium.AccountID // in the end; "" if it stands for itself
	minute   int64
}

const memberColumns = accountColumns + ", a.merged_into, a.survivor_id, a.active_minute"

func scanMember(r engine.Row, tenant atrium.TenantID) member {
	return member{
		scanAccount(r, tenant), idAt[atrium.AccountID](r, afterAccount), idAt[atrium.AccountID](r, afterAccount+1), r.Int(afterAccount + 2),
	}
}

func (m *member) merged() atrium.MergedAccount {
	return atrium.MergedAccount{ID: m.ID, Domain: m.Domain, Name: m.Name, MergedInto: m.into}
}

const (
	selectMember  = "SELECT " + memberColumns + " FROM accounts a WHERE tenant_id = $1 AND account_id = $2"
	selectMembers = "SELECT " + memberColumns + ` FROM accounts a WHERE tenant_id = $1 AND survivor_id = $2 AND account_id IN
		(SELECT account_id FROM accounts WHERE tenant_id = $1 AND survivor_id = $2) ORDER BY account_id` // else SQLite reads all accounts
)

// A group is an account that stands for itself and all that lead to it.
type group struct {
	root    member
	members []member // by their identifiers, atrium.MaxMerged at most
}

// ids returns the identifiers of the accounts of the group.
func (g *group) ids() []atrium.AccountID {
	all := []atrium.AccountID{g.root.ID}
	for _, m := range g.members {
		all = append(all, m.ID)
	}
	return all
}

// find returns one of the accounts of the group, or nil.
func (g *group) find(id atrium.AccountID) *member {
	if g.root.ID == id {
		return &g.root
	}
	for i := range g.members {
		if g.members[i].ID == id {
			return &g.members[i]
		}
	}
	return nil
}

// below returns the members that lead to one of them, and that one.
func (g *group) below(top atrium.AccountID) (all []*member) {
	under := map[atrium.AccountID]bool{top: true}
	for grown := true; grown; {
		grown = false
		for i := range g.members {
			if m := &g.members[i]; !under[m.ID] && under[m.into] {
				under[m.ID], grown = true, true
			}
		}
	}
	for i := range g.members {
		if under[g.members[i].ID] {
			all = append(all, &g.members[i])
		}
	}
	return all
}

// errRegrouped says that accounts were merged or split between being read and being
// locked. The change is made again.
var errRegrouped error = &engine.Error{Class: engine.Conflict, Err: errors.New("accounts were merged or split meanwhile")}

// lockGroup returns the group that an account belongs to, which stays as it is until
// the transaction ends.
func (tx *changing) lockGroup(id atrium.AccountID) (*group, error) {
	return tx.lockGroupAndDomain(id, "")
}

// lockGroupAndDomain is lockGroup with a domain, "" for none, that no other transaction
// gives to an account from then on, if none has it.
func (tx *changing) lockGroupAndDomain(id atrium.AccountID, domain string) (*group, error) {
	claim := func() error { return nil }
	if domain != "" {
		claim = func() error { return tx.claimDomain(domain) }
	}
	groups, err := lockInOrder(tx, tx.change.TenantID, string(hash16(domain)), claim, id)
	if err != nil {
		return nil, err
	}
	return groups[0], nil
}

// lockGroups is lockGroup for several accounts. Accounts of one group have the same
// *group. It is ErrNoRow if one of them does not exist.
func lockGroups(tx engine.Tx, tenant atrium.TenantID, ids ...atrium.AccountID) ([]*group, error) {
	return lockInOrder(tx, tenant, "", func() error { return nil }, ids...)
}

// lockInOrder is lockGroups that calls claim where the domain with the hash has its place
// in the order.
func lockInOrder(tx engine.Tx, tenant atrium.TenantID, hash string, claim func() error, ids ...atrium.AccountID) ([]*group, error) {
	groups, err := findGroups(tx, tenant, ids)
	if err != nil {
		return nil, err
	}
	hashes := map[atrium.AccountID]string{"": hash} // the one is none of an account
	for _, g := range groups {
		for _, m := range append(g.members, g.root) {
			hashes[m.ID] = string(hash16(m.Domain))
		}
	}
	order := slices.SortedFunc(maps.Keys(hashes), func(a, b atrium.AccountID) int { return strings.Compare(hashes[a], hashes[b]) })
	for _, id := range order {
		var err error
		if id == "" {
			err = claim()
		} else {
			err = tx.Lock(selectMember, engine.Args{idArg(tenant), idArg(id)}, func(engine.Row) error { return nil })
		}
		if err != nil {
			return nil, err
		}
	}
	// What was locked may not be what the groups are by now.
	if groups, err = findGroups(tx, tenant, ids); err != nil {
		return nil, err
	}
	for _, g := range groups {
		for _, m := range append(g.members, g.root) {
			if hashes[m.ID] != string(hash16(m.Domain)) {
				return nil, errRegrouped
			}
		}
	}
	return groups, nil
}

// findGroups returns the groups that accounts belong to at the moment.
func findGroups(tx engine.Tx, tenant atrium.TenantID, ids []atrium.AccountID) ([]*group, error) {
	found := map[atrium.AccountID]*group{}
	groups := make([]*group, len(ids))
	for i, id := range ids {
		account := func(id atrium.AccountID) (m member, err error) {
			err = engine.Find(tx.Query, selectMember, engine.Args{idArg(tenant), idArg(id)}, func(r engine.Row) { m = scanMember(r, tenant) })
			return m, err
		}
		root, err := account(id)
		if err == nil && root.survivor != "" {
			root, err = account(root.survivor)
		}
		if err != nil {
			return nil, err
		}
		if groups[i] = found[root.ID]; groups[i] != nil {
			continue
		}
		g := &group{root: root}
		if err := tx.Query(selectMembers, engine.Args{idArg(tenant), idArg(root.ID)}, func(r engine.Row) error {
			g.members = append(g.members, scanMember(r, tenant))
			return nil
		}); err != nil {
			return nil, err
		}
		if root.survivor != "" || g.find(id) == nil {
			return nil, errRegrouped
		}
		groups[i], found[root.ID] = g, g
	}
	return groups, nil
}

// detail returns the account that stands for a group as it is shown.
func (tx *changing) detail(g *group) (d atrium.AccountDetail, err error) {
	d.Account, d.Prospects, err = findAccount(tx.Query, tx.change.TenantID, g.root.ID)
	for _, m := range g.members {
		d.Merged = append(d.Merged, m.merged())
	}
	return d, err
}

// MergeAccounts merges the account that one identifier leads to, with all that was
// merged into it, into the account that another one leads to, and returns that one.
// The account as it stands is first given to check, whose error ends the call. One
// that is merged into the other already changes nothing. It is NotFound if there is
// no such account, and Conflict if they are the same, one of them is the unattributed
// account, or more than atrium.MaxMerged would be merged into one.
func (s *Store) MergeAccounts(ctx context.Context, c atrium.Change, id, into atrium.AccountID, check func(atrium.AccountDetail) error) (atrium.AccountDetail, error) {
	d, _, err := s.changeAccount(ctx, c, func(tx *changing) (atrium.AccountID, error) {
		groups, err := lockGroups(tx, c.TenantID, id, into)
		if err != nil {
			return "", err
		}
		from, to := groups[0], groups[1]
		detail, err := tx.detail(from)
		if err != nil {
			return "", err
		}
		if err := check(detail); err != nil {
			return "", err
		}
		if from == to {
			if m := from.find(id); m.into != "" && (m.into == into || m.survivor == into) {
				return to.root.ID, nil
			}
		}
		if refusal := mergeRefused(from, to); refusal != "" {
			return "", atrium.Errorf(atrium.CodeConflict, "It cannot be merged: %s.", refusal)
		}
		before := to.root.Account
		tx.recordDetail("account.merge", string(from.root.ID), map[string]any{"into": to.root.ID})
		to.root.Name, to.root.UpdatedAt = cmp.Or(before.Name, from.root.Name), max(before.UpdatedAt, tx.at)
		if err := joinGroups(tx, c.TenantID, from, to, to.root.ID); err != nil {
			return "", err
		}
		if to.root.Name != before.Name {
			tx.record("account.update", string(to.root.ID), accountFields(&before), accountFields(&to.root.Account))
			var x indexing
			x.account(&before, &to.root.Account)
			if err := x.write(tx); err != nil {
				return "", err
			}
		}
		return to.root.ID, nil
	})
	return d, err
}

// mergeRefused says why a group cannot be merged into another one, or "".
func mergeRefused(from, to *group) string {
	switch {
	case from == to:
		return "the accounts are one already"
	case from.root.Domain == atrium.UnattributedDomain || to.root.Domain == atrium.UnattributedDomain:
		return "the unattributed account cannot be merged"
	case len(from.members)+1+len(to.members) > atrium.MaxMerged:
		return "too many accounts would be merged into one"
	}
	return ""
}

var (
	// Nobody finds what is merged by its name.
	regroupAccounts = engine.NewBatch(`UPDATE accounts SET merged_into = batch.merged_into, survivor_id = batch.survivor_id, name_hash = NULL
		FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id`,
		"tenant_id bytea", "account_id bytea", "merged_into bytea", "survivor_id bytea")

	// What is shown of a group.
	updateSurvivors = engine.NewBatch(`UPDATE accounts SET name = batch.name, name_hash = batch.name_hash,
			latest_activity_at = batch.latest_activity_at, active_minute = batch.active_minute, updated_at = batch.updated_at
		FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id`,
		"tenant_id bytea", "account_id bytea", "name text", "name_hash bytea", "latest_activity_at bigint", "active_minute bigint",
		"updated_at bigint")
)

// noActivity is the active_minute of an account without activity.
const noActivity = -2_000_000_000

// minuteOf returns the active_minute of an account whose newest activity was then; nil
// stands for none.
func minuteOf(latest *atrium.Time) int64 {
	if latest == nil {
		return noActivity
	}
	return int64(*latest) / perMinute
}

// joinGroups makes one group of two, both of which are locked: the root of one is
// merged into an account of the other. What the other root shows follows from both.
func joinGroups(tx engine.Tx, tenant atrium.TenantID, from, to *group, into atrium.AccountID) error {
	from.root.into = into
	rows := make([]engine.Args, 0, len(from.members)+1)
	for _, m := range append([]member{from.root}, from.members...) {
		m.survivor = to.root.ID
		to.members = append(to.members, m)
		rows = append(rows, engine.Args{idArg(tenant), idArg(m.ID), idArg(m.into), idArg(m.survivor)})
	}
	if _, err := tx.Batch(regroupAccounts, rows, nil); err != nil {
		return err
	}
	root := &to.root
	if root.LatestActivityAt == nil || from.root.LatestActivityAt != nil && *from.root.LatestActivityAt > *root.LatestActivityAt {
		root.LatestActivityAt = from.root.LatestActivityAt
	}
	if err := showGroups(tx, tenant, root); err != nil {
		return err
	}
	return relink(tx, tenant, from.root.ID, root.ID)
}

// showGroups stores what accounts that stand for themselves show.
func showGroups(tx engine.Tx, tenant atrium.TenantID, roots ...*member) error {
	rows := make([]engine.Args, len(roots))
	for i, m := range roots {
		m.minute = minuteOf(m.LatestActivityAt)
		rows[i] = engine.Args{
			idArg(tenant), idArg(m.ID), nullable(m.Name), nameHash(m.Domain, m.Name),
			nullableTime(m.LatestActivityAt), m.minute, int64(m.UpdatedAt),
		}
	}
	_, err := tx.Batch(updateSurvivors, rows, nil)
	return err
}

// SplitAccount takes an account out of the group that another one leads to, with all
// that was merged into it, so that it stands for itself again, and returns the account
// that it was taken from. That account as it stands is first given to check, whose
// error ends the call. It is NotFound unless the account was merged into that one.
func (s *Store) SplitAccount(ctx context.Context, c atrium.Change, id, account atrium.AccountID, check func(atrium.AccountDetail) error) (atrium.AccountDetail, error) {
	d, _, err := s.changeAccount(ctx, c, func(tx *changing) (atrium.AccountID, error) {
		g, err := tx.lockGroup(id)
		if err != nil {
			return "", err
		}
		detail, err := tx.detail(g)
		if err != nil {
			return "", err
		}
		if err := check(detail); err != nil {
			return "", err
		}
		top := g.find(account)
		if top == nil || top.into == "" {
			return "", atrium.NotFound()
		}
		tx.recordDetail("account.split", string(top.ID), map[string]any{"from": g.root.ID})
		return g.root.ID, tx.split(g, top)
	})
	return d, err
}

// split takes a member out of its group.
func (tx *changing) split(g *group, top *member) error {
	tenant := tx.change.TenantID
	out := g.below(top.ID)
	top.into = ""
	rows := make([]engine.Args, len(out))
	for i, m := range out {
		m.survivor = top.ID
		if m == top {
			m.survivor = ""
		}
		rows[i] = engine.Args{idArg(tenant), idArg(m.ID), idArg(m.into), idArg(m.survivor)}
	}
	if _, err := tx.Batch(regroupAccounts, rows, nil); err != nil {
		return err
	}
	newest, err := newestEntries(tx, tenant, g.ids())
	if err != nil {
		return err
	}
	g.root.LatestActivityAt, top.LatestActivityAt = newest[g.root.ID], nil
	for i := range g.members {
		m, root := &g.members[i], &g.root
		if slices.Contains(out, m) {
			root = top
		}
		if at := newest[m.ID]; at != nil && (root.LatestActivityAt == nil || *at > *root.LatestActivityAt) {
			root.LatestActivityAt = at
		}
	}
	g.root.UpdatedAt, top.UpdatedAt = max(g.root.UpdatedAt, tx.at), max(top.UpdatedAt, tx.at)
	if err := showGroups(tx, tenant, &g.root, top); err != nil {
		return err
	}
	return relink(tx, tenant, g.root.ID, top.ID)
}

var newestOfAccounts = engine.NewBatch(`SELECT batch.account_id, (SELECT e.created_at FROM entries e
		WHERE e.tenant_id = batch.tenant_id AND e.account_id = batch.account_id ORDER BY e.created_at DESC LIMIT 1)
	FROM batch`, "tenant_id bytea", "account_id bytea")

// newestEntries returns when the newest entry of each of the accounts was recorded.
func newestEntries(tx engine.Tx, tenant atrium.TenantID, accounts []atrium.AccountID) (map[atrium.AccountID]*atrium.Time, error) {
	rows := make([]engine.Args, len(accounts))
	for i, id := range accounts {
		rows[i] = engine.Args{idArg(tenant), idArg(id)}
	}
	newest := make(map[atrium.AccountID]*atrium.Time, len(accounts))
	_, err := tx.Batch(newestOfAccounts, rows, func(r engine.Row) error {
		newest[idAt[atrium.AccountID](r, 0)] = timeAt(r, 1)
		return nil
	})
	return newest, err
}
