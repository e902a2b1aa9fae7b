package store

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"atrium"
	"atrium/internal/store/engine"
)

// leadsTo returns the account that an account leads to: itself, or the one that it was
// merged into in the end. It is engine.ErrNoRow if there is no such account.
func leadsTo(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID) (survivor atrium.AccountID, err error) {
	err = engine.Find(tx.Query, "SELECT a.survivor_id FROM accounts a WHERE tenant_id = $1 AND account_id = $2 AND "+notErased,
		engine.Args{idArg(tenant), idArg(id)}, func(r engine.Row) { survivor = cmp.Or(idAt[atrium.AccountID](r, 0), id) })
	return survivor, err
}

// members returns the accounts whose entries are shown as those of a survivor: itself
// and what was merged into it.
func members(query func(string, engine.Args, func(engine.Row) error) error, tenant atrium.TenantID, survivor atrium.AccountID) (all []atrium.AccountID, err error) {
	all = append(all, survivor)
	err = query("SELECT account_id FROM accounts WHERE tenant_id = $1 AND survivor_id = $2 ORDER BY account_id",
		engine.Args{idArg(tenant), idArg(survivor)}, func(r engine.Row) error {
			all = append(all, idAt[atrium.AccountID](r, 0))
			return nil
		})
	return all, err
}

// shown returns the account that an account leads to, and the accounts whose entries
// are shown as those of this.
func shown(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID) (survivor atrium.AccountID, all []atrium.AccountID, err error) {
	if survivor, err = leadsTo(tx, tenant, id); err != nil {
		return survivor, nil, err
	}
	all, err = members(tx.Query, tenant, survivor)
	return survivor, all, err
}

// A member is an account with its place among those that are merged. It has neither its
// domain nor its name, which may be long: account reads them where they are needed.
type member struct {
	ID               atrium.AccountID
	UpdatedAt        atrium.Time
	LatestActivityAt *atrium.Time

	into     atrium.AccountID // directly; "" if it stands for itself
	survivor atrium.AccountID // in the end; "" if it stands for itself
	hash     string           // of its domain
	named    bool             // it has a name
}

const memberColumns = `a.account_id, a.updated_at, a.latest_activity_at, a.merged_into, a.survivor_id, a.domain_hash,
	CASE WHEN a.name IS NULL THEN 0 ELSE 1 END`

func scanMember(r engine.Row) member {
	return member{
		ID: idAt[atrium.AccountID](r, 0), UpdatedAt: atrium.Time(r.Int(1)), LatestActivityAt: timeAt(r, 2),
		into: idAt[atrium.AccountID](r, 3), survivor: idAt[atrium.AccountID](r, 4), hash: string(r.Bytes(5)),
		named: r.Int(6) != 0,
	}
}

// unattributed reports whether it is the unattributed account.
func (m *member) unattributed() bool { return m.hash == string(hash16(atrium.UnattributedDomain)) }

// account returns an account that there is, which may be merged, with the beginning of a long
// domain.
func account(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID) (a atrium.Account, err error) {
	err = engine.Find(tx.Query, "SELECT "+accountRow+" FROM accounts a WHERE tenant_id = $1 AND account_id = $2",
		engine.Args{idArg(tenant), idArg(id)}, func(r engine.Row) { a = scanAccount(r, tenant) })
	return a, err
}

const (
	selectMember  = "SELECT " + memberColumns + " FROM accounts a WHERE tenant_id = $1 AND account_id = $2 AND " + notErased
	selectMembers = "SELECT " + memberColumns + membersOf
	lockMember    = "SELECT account_id FROM accounts WHERE tenant_id = $1 AND account_id = $2"

	// The accounts that are merged into one.
	membersOf = ` FROM accounts a WHERE tenant_id = $1 AND survivor_id = $2 AND account_id IN
		(SELECT account_id FROM accounts WHERE tenant_id = $1 AND survivor_id = $2) ORDER BY account_id` // else SQLite reads all accounts
)

// A group is an account that stands for itself and all that lead to it. Of these it has the
// identifiers, which an index has.
type group struct {
	root    member
	members []atrium.AccountID // in their order, atrium.MaxMerged at most
}

// ids returns the identifiers of the accounts of the group.
func (g *group) ids() []atrium.AccountID { return append([]atrium.AccountID{g.root.ID}, g.members...) }

// has reports whether an account belongs to the group.
func (g *group) has(id atrium.AccountID) bool {
	return g.root.ID == id || slices.Contains(g.members, id)
}

// mergedInto returns the accounts that lead to one that stands for itself.
func mergedInto(tx engine.Tx, tenant atrium.TenantID, root atrium.AccountID) (all []*member, err error) {
	err = tx.Query(selectMembers, engine.Args{idArg(tenant), idArg(root)}, func(r engine.Row) error {
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
			if !under[m.ID] && under[m.into] {
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
	var claim func() error
	if domain != "" {
		claim = func() error { return tx.claimDomain(domain) }
	}
	groups, err := tx.lockInOrder(string(hash16(domain)), claim, id)
	if err != nil {
		return nil, err
	}
	return groups[0], nil
}

// lockGroups is lockGroup for several accounts. Accounts of one group have the same
// *group. It is ErrNoRow if one of them does not exist.
func (tx *changing) lockGroups(ids ...atrium.AccountID) ([]*group, error) {
	return tx.lockInOrder("", nil, ids...)
}

// lockInOrder is lockGroups that calls claim, unless it is nil, where the domain with the
// hash has its place in the order. Where one writes at a time there is nothing to lock.
func (tx *changing) lockInOrder(hash string, claim func() error, ids ...atrium.AccountID) ([]*group, error) {
	tenant := tx.change.TenantID
	groups, err := findGroups(tx, tenant, ids)
	if err != nil || !tx.store.db.Traits().Remote {
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
			err = tx.Lock(lockMember, engine.Args{idArg(tenant), idArg(id)}, func(engine.Row) error { return nil })
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
			return nil, errRegrouped
		}
	}
	return groups, nil
}

// hashesOf returns the hashes of the domains of the accounts of groups.
func hashesOf(tx engine.Tx, tenant atrium.TenantID, groups []*group) (map[atrium.AccountID]string, error) {
	hashes := map[atrium.AccountID]string{}
	for _, g := range groups {
		merged, err := mergedInto(tx, tenant, g.root.ID)
		if err != nil {
			return nil, err
		}
		hashes[g.root.ID] = g.root.hash
		for _, m := range merged {
			hashes[m.ID] = m.hash
		}
	}
	return hashes, nil
}

// findMember returns an account with its place among those that are merged.
func findMember(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID) (m member, err error) {
	err = engine.Find(tx.Query, selectMember, engine.Args{idArg(tenant), idArg(id)}, func(r engine.Row) { m = scanMember(r) })
	return m, err
}

// findGroups returns the groups that accounts belong to at the moment.
func findGroups(tx engine.Tx, tenant atrium.TenantID, ids []atrium.AccountID) ([]*group, error) {
	found := map[atrium.AccountID]*group{}
	groups := make([]*group, len(ids))
	for i, id := range ids {
		root, err := findMember(tx, tenant, id)
		if err == nil && root.survivor != "" {
			root, err = findMember(tx, tenant, root.survivor)
		}
		if err != nil {
			return nil, err
		}
		if groups[i] = found[root.ID]; groups[i] != nil {
			continue
		}
		all, err := members(tx.Query, tenant, root.ID)
		if err != nil {
			return nil, err
		}
		g := &group{root: root, members: all[1:]}
		if root.survivor != "" || !g.has(id) {
			return nil, errRegrouped
		}
		groups[i], found[root.ID] = g, g
	}
	return groups, nil
}
