package storetest

import (
	"maps"
	"reflect"

	"atrium"
)

// An eventModel has the entries that events must report, with the accounts in their receipts. An entry
// without a key that was erased and appended again has two of them.
type eventModel map[atrium.EntryID][]atrium.AccountID

// append adds the entries that an append has stored for a tenant, which had the stored ones before.
func (m eventModel) append(tenant atrium.TenantID, stored map[atrium.EntryID]atrium.Entry, drafts []*atrium.Draft, outcomes []atrium.Outcome) {
	for i, d := range drafts {
		_, exists := stored[d.ID]
		again := d.IdempotencyKey == "" && !exists // with a key, the outcome is that of its tombstone
		if o := &outcomes[i]; d.TenantID == tenant && o.Err == nil && o.EntryID == d.ID && (len(m[d.ID]) == 0 || again) {
			m[d.ID] = append(m[d.ID], o.AccountID)
		}
	}
}

// compareEvents compares the events of the first tenant with the model, and checks that the other one has none.
func (p *pair) compareEvents() {
	p.t.Helper()
	with, without := p.models[0], p.models[1]
	if found := p.as(without.tenant).allEvents(p.t); len(found) > 0 {
		p.t.Fatalf("events of a tenant without events are %+v", found)
	}
	missing := maps.Clone(p.events)
	for _, ev := range p.as(with.tenant).allEvents(p.t) {
		if ev.Type != atrium.EventEntryCreated {
			continue
		}
		accounts := missing[ev.EntryID]
		stored, exists := with.entries[ev.EntryID]
		if len(accounts) == 0 || accounts[0] != ev.AccountID || ev.Erased == exists {
			p.t.Fatalf("the event is %+v, of accounts %q, and the entry is stored: %t", ev, accounts, exists)
		}
		last := len(accounts) == 1
		if missing[ev.EntryID] = accounts[1:]; last {
			delete(missing, ev.EntryID)
		}
		if last && exists && (!reflect.DeepEqual(ev.Entry.Submission, stored.Submission) || ev.Entry.CreatedAt != stored.CreatedAt || ev.At != stored.CreatedAt) {
			p.t.Fatalf("the event has %+v, want %+v", ev.Entry, stored)
		}
	}
	if len(missing) > 0 {
		p.t.Fatalf("%d entries have no event", len(missing))
	}
}
