package storetest

import (
	"maps"
	"reflect"

	"atrium"
)

// An eventModel has the entries that events must report, with the accounts in their receipts.
type eventModel map[atrium.EntryID]atrium.AccountID

// append adds the entries that an append has stored for a tenant.
func (m eventModel) append(tenant atrium.TenantID, drafts []*atrium.Draft, outcomes []atrium.Outcome) {
	for i, d := range drafts {
		if o := &outcomes[i]; d.TenantID == tenant && o.Err == nil && o.EntryID == d.ID {
			m[d.ID] = o.AccountID
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
		account, ok := missing[ev.EntryID]
		delete(missing, ev.EntryID)
		stored, exists := with.entries[ev.EntryID]
		switch {
		case !ok || account != ev.AccountID || ev.Erased == exists:
			p.t.Fatalf("the event is %+v, of account %q, and the entry is stored: %t", ev, account, exists)
		case exists && (!reflect.DeepEqual(ev.Entry.Submission, stored.Submission) || ev.Entry.CreatedAt != stored.CreatedAt || ev.At != stored.CreatedAt):
			p.t.Fatalf("the event has %+v, want %+v", ev.Entry, stored)
		}
	}
	if len(missing) > 0 {
		p.t.Fatalf("%d entries have no event", len(missing))
	}
}
