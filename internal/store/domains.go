package store

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"atrium"
	"atrium/internal/store/engine"
)

// This file finds accounts by their domains. An account that an earlier version made
// may be stored under a legacy form of its domain (canonical.DomainForms, ADR 0022). A
// domain with a legacy form finds the accounts of both forms, and the oldest of them is
// the one that is meant. No account is made under a legacy form, except by an import.

// formRows returns the rows of a batch that finds accounts by the forms of a domain, of
// which legacy may be "".
func formRows(tenant atrium.TenantID, domain, legacy string) []engine.Args {
	rows := []engine.Args{{idArg(tenant), hash16(domain)}}
	if legacy != "" {
		rows = append(rows, engine.Args{idArg(tenant), hash16(legacy)})
	}
	return rows
}

// compareAge orders accounts of one tenant by age, the oldest first.
func compareAge(a, b *atrium.Account) int {
	return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), strings.Compare(string(a.ID), string(b.ID)))
}

var findForms = engine.NewBatch(`SELECT a.tenant_id, a.domain_hash, a.created_at, a.account_id
	FROM batch JOIN accounts a ON a.tenant_id = batch.tenant_id AND a.domain_hash = batch.domain_hash`,
	"tenant_id bytea", "domain_hash bytea")

// matchForms gives drafts whose domains have legacy forms to the form under which the
// oldest account is stored, and to the current one if there is none.
func (b *appending) matchForms(drafts []int, byDomain targets) error {
	if len(drafts) == 0 {
		return nil
	}
	rows := make(map[tenantKey]engine.Args, 2*len(drafts))
	for _, i := range drafts {
		d := b.drafts[i]
		for _, row := range formRows(d.TenantID, d.Domain, d.LegacyDomain) {
			rows[tenantKey{d.TenantID, string(row[1].([]byte))}] = row
		}
	}
	stored := make(map[tenantKey]*atrium.Account, len(rows)) // by the hash of the form
	if _, err := b.tx.Batch(findForms, slices.Collect(maps.Values(rows)), func(r engine.Row) error {
		stored[tenantKey{idAt[atrium.TenantID](r, 0), string(r.Bytes(1))}] = &atrium.Account{
			CreatedAt: atrium.Time(r.Int(2)), ID: idAt[atrium.AccountID](r, 3),
		}
		return nil
	}); err != nil {
		return fmt.Errorf("find forms of domains: %w", err)
	}
	for _, i := range drafts {
		d := b.drafts[i]
		current := stored[tenantKey{d.TenantID, string(hash16(d.Domain))}]
		legacy := stored[tenantKey{d.TenantID, string(hash16(d.LegacyDomain))}]
		if legacy == nil || current != nil && compareAge(current, legacy) < 0 {
			byDomain.add(d.TenantID, d.Domain, i)
			continue
		}
		byDomain.add(d.TenantID, d.LegacyDomain, i)
		byDomain[tenantKey{d.TenantID, d.LegacyDomain}].legacy = true
	}
	return nil
}
