package entries

import (
	"maps"
	"slices"

	"atrium"
	"atrium/internal/store/kernel"
)

// This file stores the events that an append causes.

// findEventSwitches pipelines a statement that finds the tenants of the drafts that have events enabled.
func (b *appendTx) findEventSwitches() error {
	var tenants []atrium.TenantID
	for _, d := range b.drafts {
		if !slices.Contains(tenants, d.TenantID) {
			tenants = append(tenants, d.TenantID)
		}
	}
	return kernel.PipelineEventSwitches(b.tx, tenants, func(tenant atrium.TenantID) { b.withEvents[tenant] = true })
}

// createdBy notes that an account was created for the drafts of a target. Its event is about the entry that
// the account has its name from: the first one with a name.
func (b *appendTx) createdBy(a *atrium.Account, t *target) {
	if !b.withEvents[a.TenantID] {
		return
	}
	by := t.drafts[0]
	for _, i := range t.drafts {
		if b.drafts[i].Claim.Name != "" {
			by = i
			break
		}
	}
	b.created[a.TenantID] = append(b.created[a.TenantID], kernel.EventRef{Kind: atrium.EventKeyAccount, Account: a.ID, Entry: b.drafts[by].ID})
}

// writeEvents pipelines the events of the recorded drafts and of created accounts.
func (b *appendTx) writeEvents(recorded []int) error {
	if len(b.withEvents) == 0 || len(recorded) == 0 {
		return nil
	}
	refs := b.created // the creation of an account comes before its entries
	for _, i := range slices.Sorted(slices.Values(recorded)) {
		if d := b.drafts[i]; b.withEvents[d.TenantID] {
			refs[d.TenantID] = append(refs[d.TenantID], kernel.EventRef{Kind: atrium.EventKeyEntry, Entry: d.ID, Account: b.outcomes[i].AccountID})
		}
	}
	var all []kernel.TenantEvents
	for _, tenant := range slices.Sorted(maps.Keys(refs)) {
		all = append(all, kernel.TenantEvents{Tenant: tenant, At: b.at, Refs: refs[tenant]})
	}
	return kernel.WriteOutbox(b.tx, all...)
}
