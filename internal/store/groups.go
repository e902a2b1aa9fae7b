package store

import (
	"cmp"

	"atrium"
	"atrium/internal/store/engine"
)

// leadsTo returns the account that an account leads to: itself, or the one that it was
// merged into in the end. It is engine.ErrNoRow if there is no such account.
func leadsTo(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID) (survivor atrium.AccountID, err error) {
	err = engine.Find(tx.Query, "SELECT survivor_id FROM accounts WHERE tenant_id = $1 AND account_id = $2",
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
