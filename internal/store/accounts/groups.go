package accounts

import (
	"cmp"
	"errors"
	"slices"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// FindSurvivor returns the account that id leads to: itself, or the root of the group that it was
// merged into. It returns engine.ErrNoRow if there is no such account.
func FindSurvivor(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID) (survivor atrium.AccountID, err error) {
	err = engine.Find(tx.Query, "SELECT a.survivor_id FROM accounts a WHERE tenant_id = $1 AND account_id = $2 AND "+NotErased,
		engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) { survivor = cmp.Or(kernel.IDAt[atrium.AccountID](r, 0), id) })
	return survivor, err
}

// GroupIDs returns the accounts of a group: the survivor first, and then all accounts merged into
// it, sorted by identifier.
func GroupIDs(query func(string, engine.Args, func(engine.Row) error) error, tenant atrium.TenantID, survivor atrium.AccountID) (all []atrium.AccountID, err error) {
	all = append(all, survivor)
	err = query("SELECT account_id FROM accounts WHERE tenant_id = $1 AND survivor_id = $2 ORDER BY account_id",
		engine.Args{kernel.IDArg(tenant), kernel.IDArg(survivor)}, func(r engine.Row) error {
			all = append(all, kernel.IDAt[atrium.AccountID](r, 0))
			return nil
		})
	return all, err
}

// FindGroupIDs is FindSurvivor followed by GroupIDs.
func FindGroupIDs(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID) (survivor atrium.AccountID, all []atrium.AccountID, err error) {
	if survivor, err = FindSurvivor(tx, tenant, id); err != nil {
		return survivor, nil, err
	}
	all, err = GroupIDs(tx.Query, tenant, survivor)
	return survivor, all, err
}

// A member is an account and its place in a group. Its domain and name may be long and are left
// out: FindAccountRow reads them.
type member struct {
	ID               atrium.AccountID
	UpdatedAt        atrium.Time
	LatestActivityAt *atrium.Time

	MergedInto atrium.AccountID // the direct parent; "" for a root
	survivor   atrium.AccountID // the root; "" for a root
	hash       string           // of its domain
	named      bool
}

var memberColumns = "a.account_id, a.updated_at, " + latestActivity("$1") + `, a.merged_into, a.survivor_id, a.domain_hash,
	CASE WHEN a.name IS NULL THEN 0 ELSE 1 END`

func scanMember(r engine.Row) member {
	return member{
		ID: kernel.IDAt[atrium.AccountID](r, 0), UpdatedAt: atrium.Time(r.Int(1)), LatestActivityAt: latestActivityAt(r, 2),
		MergedInto: kernel.IDAt[atrium.AccountID](r, 4), survivor: kernel.IDAt[atrium.AccountID](r, 5), hash: string(r.Bytes(6)),
		named: r.Int(7) != 0,
	}
}

// unattributed reports whether m is the unattributed account.
func (m *member) unattributed() bool {
	return m.hash == string(kernel.Hash16(atrium.UnattributedDomain))
}

// FindAccountRow returns an existing account, merged or not, with a truncated domain if that is
// long.
func FindAccountRow(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID) (a atrium.Account, err error) {
	err = engine.Find(tx.Query, "SELECT "+accountRowColumns("$1")+" FROM accounts a WHERE tenant_id = $1 AND account_id = $2",
		engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) { a = ScanAccount(r, tenant) })
	return a, err
}

var (
	selectMember  = "SELECT " + memberColumns + " FROM accounts a WHERE tenant_id = $1 AND account_id = $2 AND " + NotErased
	selectMembers = "SELECT " + memberColumns + membersOf
)

const (
	lockMember = "SELECT account_id FROM accounts WHERE tenant_id = $1 AND account_id = $2"

	// The accounts merged into a root.
	membersOf = ` FROM accounts a WHERE tenant_id = $1 AND survivor_id = $2 AND account_id IN
		(SELECT account_id FROM accounts WHERE tenant_id = $1 AND survivor_id = $2) ORDER BY account_id` // without the subquery, SQLite scans all accounts
)

var (
	countRoot    = "SELECT " + kernel.OctetLength("a.name") + " + " + domainSQL("$1", "octet_length(d.domain)", "octet_length(a.domain)") + " FROM accounts a WHERE tenant_id = $1 AND account_id = $2"
	countMembers = "SELECT " + kernel.OctetLength("a.name") + " + " + domainSQL("$1", "octet_length(d.domain)", "octet_length(a.domain)") + membersOf
)

// count counts the bytes of the names and domains of a group, which a change may read and write.
func (g *Group) count(tx *kernel.Mutation) error {
	args := engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(g.Root.ID)}
	err := tx.CountSize(tx.Query, countRoot, args)
	if err == nil && len(g.Members) > 0 {
		err = tx.CountSize(tx.Query, countMembers, args)
	}
	return err
}

// A Group is a root, which is not merged, and the accounts merged into it, directly or not. Members
// has only their identifiers, which an index covers.
type Group struct {
	Root    member
	Members []atrium.AccountID // sorted; at most atrium.MaxMerged
}

// IDs returns the identifiers of all accounts of the group, the root first.
func (g *Group) IDs() []atrium.AccountID { return append([]atrium.AccountID{g.Root.ID}, g.Members...) }

// has reports whether the group contains the account.
func (g *Group) has(id atrium.AccountID) bool {
	return g.Root.ID == id || slices.Contains(g.Members, id)
}

// findMerged returns the accounts merged into a root.
func findMerged(tx engine.Tx, tenant atrium.TenantID, root atrium.AccountID) (all []*member, err error) {
	err = tx.Query(selectMembers, engine.Args{kernel.IDArg(tenant), kernel.IDArg(root)}, func(r engine.Row) error {
		m := scanMember(r)
		all = append(all, &m)
		return nil
	})
	return all, err
}

// subtree returns the member top and all members merged into it, directly or not.
func subtree(members []*member, top atrium.AccountID) (all []*member) {
	included := map[atrium.AccountID]bool{top: true}
	for changed := true; changed; {
		changed = false
		for _, m := range members {
			if !included[m.ID] && included[m.MergedInto] {
				included[m.ID], changed = true, true
			}
		}
	}
	for _, m := range members {
		if included[m.ID] {
			all = append(all, m)
		}
	}
	return all
}

// ErrGroupChanged reports that accounts were merged or split after they were read and before they
// were locked. It is retried.
var ErrGroupChanged error = &engine.Error{Class: engine.Conflict, Err: errors.New("accounts were merged or split concurrently")}

// LockGroup locks the group of an account and returns it.
func LockGroup(tx *kernel.Mutation, id atrium.AccountID) (*Group, error) {
	return lockGroupAndDomain(tx, id, "")
}

// lockGroupAndDomain is LockGroup that also locks a domain, unless it is "": if no account has the
// domain, no other transaction can give it to one.
func lockGroupAndDomain(tx *kernel.Mutation, id atrium.AccountID, domain string) (*Group, error) {
	groups, err := lockInOrder(tx, domain, id)
	if err != nil {
		return nil, err
	}
	return groups[0], nil
}

// LockGroups is LockGroup for several accounts. Accounts of one group get the same *Group. It
// returns engine.ErrNoRow if one of them does not exist.
func LockGroups(tx *kernel.Mutation, ids ...atrium.AccountID) ([]*Group, error) {
	return lockInOrder(tx, "", ids...)
}

// lockInOrder is LockGroups that also locks a domain, unless it is "". As appends do, it first
// locks accounts, and then what does not exist yet. Embedded engines run one write transaction at a
// time and need no locks.
func lockInOrder(tx *kernel.Mutation, domain string, ids ...atrium.AccountID) ([]*Group, error) {
	tenant := tx.Change.TenantID
	groups, err := findGroups(tx, tenant, ids)
	if err != nil || !tx.DB.Engine.Traits().Remote {
		return groups, err
	}
	order := memberIDs(groups)
	for _, id := range order {
		if err := tx.Lock(lockMember, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(engine.Row) error { return nil }); err != nil {
			return nil, err
		}
	}
	if domain != "" {
		if err := lockDomain(tx, domain); err != nil {
			return nil, err
		}
	}
	// The groups may have changed before they were locked. More locks than needed do no harm.
	if groups, err = findGroups(tx, tenant, ids); err != nil {
		return nil, err
	}
	for _, id := range memberIDs(groups) {
		if _, locked := slices.BinarySearch(order, id); !locked {
			return nil, ErrGroupChanged
		}
	}
	return groups, nil
}

// memberIDs returns the identifiers of all accounts of groups, sorted.
func memberIDs(groups []*Group) (ids []atrium.AccountID) {
	for _, g := range groups {
		ids = append(ids, g.IDs()...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// FindMember returns an account with its place in a group.
func FindMember(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID) (m member, err error) {
	err = engine.Find(tx.Query, selectMember, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) { m = scanMember(r) })
	return m, err
}

// findGroups returns the current groups of accounts.
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
		all, err := GroupIDs(tx.Query, tenant, root.ID)
		if err != nil {
			return nil, err
		}
		g := &Group{Root: root, Members: all[1:]}
		if root.survivor != "" || !g.has(id) {
			return nil, ErrGroupChanged
		}
		groups[i], found[root.ID] = g, g
	}
	return groups, nil
}
