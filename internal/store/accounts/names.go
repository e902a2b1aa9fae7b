package accounts

import (
	"context"
	"fmt"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// A name is unique if its first and last account are the same.
var findNames = engine.NewBatch(`SELECT batch.tenant_id, batch.name_hash,
		(SELECT a.account_id FROM accounts a WHERE a.tenant_id = batch.tenant_id AND a.name_hash = batch.name_hash
			ORDER BY a.account_id LIMIT 1),
		(SELECT a.account_id FROM accounts a WHERE a.tenant_id = batch.tenant_id AND a.name_hash = batch.name_hash
			ORDER BY a.account_id DESC LIMIT 1)
	FROM batch`, "tenant_id bytea", "name_hash bytea")

// FindUniqueNames returns the accounts of those names that exactly one account of the tenant has. The keys are canonical
// names.
func FindUniqueNames(tx engine.Tx, names []kernel.TenantKey) (map[kernel.TenantKey]atrium.AccountID, error) {
	rows, byHash := make([]engine.Args, len(names)), make(map[kernel.TenantKey]kernel.TenantKey, len(names))
	for i, k := range names {
		hash := kernel.Hash16(k.Key)
		rows[i], byHash[kernel.TenantKey{Tenant: k.Tenant, Key: string(hash)}] = engine.Args{kernel.IDArg(k.Tenant), hash}, k
	}
	unique := map[kernel.TenantKey]atrium.AccountID{}
	if _, err := tx.Batch(findNames, rows, func(r engine.Row) error {
		if first := kernel.IDAt[atrium.AccountID](r, 2); first != "" && first == kernel.IDAt[atrium.AccountID](r, 3) {
			unique[byHash[kernel.TenantKey{Tenant: kernel.IDAt[atrium.TenantID](r, 0), Key: string(r.Bytes(1))}]] = first
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("find names: %w", err)
	}
	return unique, nil
}

// FindUnattributed returns the unattributed account of a tenant, or engine.ErrNoRow.
func FindUnattributed(tx engine.Tx, tenant atrium.TenantID) (id atrium.AccountID, err error) {
	err = engine.Find(tx.Query, "SELECT account_id FROM accounts WHERE tenant_id = $1 AND domain_hash = $2",
		engine.Args{kernel.IDArg(tenant), kernel.Hash16(atrium.UnattributedDomain)}, func(r engine.Row) { id = kernel.IDAt[atrium.AccountID](r, 0) })
	return id, err
}

// AccountOfName returns the account that an entry goes to if it claims a name at most: the only one with this name, in any
// letter case, otherwise the unattributed one. It returns the survivor of a merged account, and NotFound if there is no
// unattributed account yet.
func (s *Store) AccountOfName(ctx context.Context, tenant atrium.TenantID, name string) (a atrium.Account, err error) {
	k := kernel.TenantKey{Tenant: tenant, Key: canonical.Name(name)}
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		unique, err := FindUniqueNames(tx, []kernel.TenantKey{k})
		if err != nil {
			return err
		}
		id := unique[k]
		if id == "" {
			if id, err = FindUnattributed(tx, tenant); err != nil {
				return err
			}
		}
		d, err := findAccount(tx.Query, tenant, id, 0)
		a = d.Account
		return err
	})
	return a, err
}
