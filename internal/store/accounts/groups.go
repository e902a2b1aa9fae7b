package accounts

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// LeadsTo returns the account that an account leads to: itself, or the one that it was
// merged into in the end. It is engine.ErrNoRow if there is no such account.
func LeadsTo(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID) (survivor atrium.AccountID, err error) {
	err = engine.Find(tx.Query, "SELECT a.survivor_id FROM accounts a WHERE tenant_id = $1 AND account_id = $2 AND "+NotErased,
		engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) { survivor = cmp.Or(kernel.IDAt[atrium.AccountID](r, 0), id) })
	return survivor, err
}

// Members returns the accounts whose entries are shown as those of a survivor: itself
// and what was merged into it.
func Members(query func(string, engine.Args, func(engine.Row) error) error, tenant atrium.TenantID, survivor atrium.AccountID) (all []atrium.AccountID, err error) {
	all = append(all, survivor)
	err = query("SELECT account_id FROM accounts WHERE tenant_id = $1 AND survivor_id = $2 ORDER BY account_id",
		engine.Args{kernel.IDArg(tenant), kernel.IDArg(survivor)}, func(r engine.Row) error {
			all = append(all, kernel.IDAt[atrium.AccountID](r, 0))
			return nil
		})
	return all, err
}

// Shown returns the account that an account leads to, and the accounts whose entries
// are shown as those of this.
func Shown(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID) (survivor atrium.AccountID, all []atrium.AccountID, err error) {
	if survivor, err = LeadsTo(tx, tenant, id); err != nil {
		return survivor, nil, err
	}
	all, err = Members(tx.Query, tenant, survivor)
	return survivor, all, err
}

// A member is an account with its place among those that are merged. It has neither its
// domain nor its name, which may be long: account reads them where they are needed.
type member struct {
	ID               atrium.AccountID
	UpdatedAt        atrium.Time
	LatestActivityAt *atrium.Time

	Into     atrium.AccountID // directly; "" if it stands for itself
	survivor atrium.AccountID // in the end; "" if it stands for itself
	hash     string           // of its domain
	named    bool             // it has a name
}

const memberColumns = `a.account_id, a.updated_at, a.latest_activity_at, a.merged_into, a.survivor_id, a.domain_hash,
	CASE WHEN a.name IS NULL THEN 0 ELSE 1 END`

func scanMember(r engine.Row) member {
	return member{
		ID: kernel.IDAt[atrium.AccountID](r, 0), UpdatedAt: atrium.Time(r.Int(1)), LatestActivityAt: kernel.TimeAt(r, 2),
		Into: kernel.IDAt[atrium.AccountID](r, 3), survivor: kernel.IDAt[atrium.AccountID](r, 4), hash: string(r.Bytes(5)),
		named: r.Int(6) != 0,
	}
}

// unattributed reports whether it is the unattributed account.
func (m *member) unattributed() bool {
	return m.hash == string(kernel.Hash16(atrium.UnattributedDomain))
}

// Account returns an account that there is, which may be merged, with the beginning of a long
// domain.
func Account(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID) (a atrium.Account, err error) {
	err = engine.Find(tx.Query, "SELECT "+accountRow+" FROM accounts a WHERE tenant_id = $1 AND account_id = $2",
		engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) { a = ScanAccount(r, tenant) })
	return a, err
}

const (
	selectMember  = "SELECT " + memberColumns + " FROM accounts a WHERE tenant_id = $1 AND account_id = $2 AND " + NotErased
	selectMembers = "SELECT " + memberColumns + membersOf
	lockMember    = "SELECT account_id FROM accounts WHERE tenant_id = $1 AND account_id = $2"

	// The accounts that are merged into one.
	membersOf = ` FROM accounts a WHERE tenant_id = $1 AND survivor_id = $2 AND account_id IN
		(SELECT account_id FROM accounts WHERE tenant_id = $1 AND survivor_id = $2) ORDER BY account_id` // else SQLite reads all accounts
)

// A Group is an account that stands for itself and all that lead to it. Of these it has the
// identifiers, which an index has.
type Group struct {
	Root    member
	Members []atrium.AccountID // in their order, atrium.MaxMerged at most
}

// IDs returns the identifiers of the accounts of the group.
func (g *Group) IDs() []atrium.AccountID { return append([]atrium.AccountID{g.Root.ID}, g.Members...) }

// has reports whether an account belongs to the group.
func (g *Group) has(id atrium.AccountID) bool {
	return g.Root.ID == id || slices.Contains(g.Members, id)
}

// mergedInto returns the accounts that lead to one that stands for itself.
func mergedInto(tx engine.Tx, tenant atrium.TenantID, root atrium.AccountID) (all []*member, err error) {
	err = tx.Query(selectMembers, engine.Args{kernel.IDArg(tenant), kernel.IDArg(root)}, func(r engine.Row) error {
		m := scanMember(r)
		all = append(all, &m)
		return nil
	})
	return all, err
}

// below returns those of the members that lead to one of them, and that one.
func below(members []*member, top atrium.AccountID) (all []*member) {
	under := map[atrium.AccountID]bool{top: true}
	for grown := true; grown; {
		grown = false
		for _, m := range members {
			if !under[m.ID] && under[m.Into] {
				under[m.ID], grown = true, true
			}
		}
	}
	for _, m := range members {
		if under[m.ID] {
			all = append(all, m)
		}
	}
	return all
}

// ErrRegrouped says that accounts were merged or split between being read and being
// locked. The change is made again.
var ErrRegrouped error = &engine.Error{Class: engine.Conflict, Err: errors.New("accounts were merged or split meanwhile")}

// LockGroup returns the group that an account belongs to, which stays as it is until
// the transaction ends.
func LockGroup(tx *kernel.Mutation, id atrium.AccountID) (*Group, error) {
	return lockGroupAndDomain(tx, id, "")
}

// lockGroupAndDomain is LockGroup with a domain, "" for none, that no other transaction
// gives to an account from then on, if none has it.
func lockGroupAndDomain(tx *kernel.Mutation, id atrium.AccountID, domain string) (*Group, error) {
	var claim func() error
	if domain != "" {
		claim = func() error { return claimDomain(tx, domain) }
	}
	groups, err := lockInOrder(tx, string(kernel.Hash16(domain)), claim, id)
	if err != nil {
		return nil, err
	}
	return groups[0], nil
}

// LockGroups is LockGroup for several accounts. Accounts of one group have the same
// *group. It is ErrNoRow if one of them does not exist.
func LockGroups(tx *kernel.Mutation, ids ...atrium.AccountID) ([]*Group, error) {
	return lockInOrder(tx, "", nil, ids...)
}

// lockInOrder is LockGroups that calls claim, unless it is nil, where the domain with the
// Hash has its place in the order. Where one writes at a time there is nothing to lock.
func lockInOrder(tx *kernel.Mutation, hash string, claim func() error, ids ...atrium.AccountID) ([]*Group, error) {
	tenant := tx.Change.TenantID
	groups, err := findGroups(tx, tenant, ids)
	if err != nil || !tx.DB.Engine.Traits().Remote {
		return groups, err
	}
	hashes, err := hashesOf(tx, tenant, groups)
	if err != nil {
		return nil, err
	}
	if claim != nil {
		hashes[""] = hash // which is none of an account
	}
	order := slices.SortedFunc(maps.Keys(hashes), func(a, b atrium.AccountID) int { return strings.Compare(hashes[a], hashes[b]) })
	for _, id := range order {
		var err error
		if id == "" {
			err = claim()
		} else {
			err = tx.Lock(lockMember, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(engine.Row) error { return nil })
		}
		if err != nil {
			return nil, err
		}
	}
	// What was locked may not be what the groups are by now.
	if groups, err = findGroups(tx, tenant, ids); err != nil {
		return nil, err
	}
	locked, err := hashesOf(tx, tenant, groups)
	if err != nil {
		return nil, err
	}
	for id := range locked {
		if hashes[id] != locked[id] {
			return nil, ErrRegrouped
		}
	}
	return groups, nil
}

// hashesOf returns the hashes of the domains of the accounts of groups.
func hashesOf(tx engine.Tx, tenant atrium.TenantID, groups []*Group) (map[atrium.AccountID]string, error) {
	hashes := map[atrium.AccountID]string{}
	for _, g := range groups {
		merged, err := mergedInto(tx, tenant, g.Root.ID)
		if err != nil {
			return nil, err
		}
		hashes[g.Root.ID] = g.Root.hash
		for _, m := range merged {
			hashes[m.ID] = m.hash
		}
	}
	return hashes, nil
}

// FindMember returns an account with its place among those that are merged.
func FindMember(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID) (m member, err error) {
	err = engine.Find(tx.Query, selectMember, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) { m = scanMember(r) })
	return m, err
}

// findGroups returns the groups that accounts belong to at the moment.
func findGroups(tx engine.Tx, tenant atrium.TenantID, ids []atrium.AccountID) ([]*Group, error) {
	found := map[atrium.AccountID]*Group{}
	groups := make([]*Group, len(ids))
	for i, id := range ids {
		root, err := FindMember(tx, tenant, id)
		if err == nil && root.survivor != "" {
			root, err = FindMember(tx, tenant, root.survivor)
		}
		if err != nil {
			return nil, err
		}
		if groups[i] = found[root.ID]; groups[i] != nil {
			continue
		}
		all, err := Members(tx.Query, tenant, root.ID)
		if err != nil {
			return nil, err
		}
		g := &Group{Root: root, Members: all[1:]}
		if root.survivor != "" || !g.has(id) {
			return nil, ErrRegrouped
		}
		groups[i], found[root.ID] = g, g
	}
	return groups, nil
}
