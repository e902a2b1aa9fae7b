package delivery

import (
	"testing"

	"atrium"
	"atrium/internal/resource"
)

func TestSelections(t *testing.T) {
	const self, other = atrium.WebhookID("webhook_00000000000000000000000001"), atrium.WebhookID("webhook_00000000000000000000000002")
	account := atrium.NewID[atrium.AccountID]()
	entry := atrium.Event{
		ID: "event_00000000000000000000000001", Type: atrium.EventEntryCreated, AccountID: account,
		Entry: &atrium.Entry{ID: atrium.NewID[atrium.EntryID](), AccountID: account, Submission: atrium.Submission{Source: "crm", Type: "deal", Payload: []byte(`{"amount":7}`)}},
	}
	page := atrium.Event{Type: atrium.EventPagePublished, Audit: &atrium.AuditRow{Subject: string(atrium.NewID[atrium.PageID]()), Detail: []byte(`{}`)}}
	about := func(kind atrium.EventType, id atrium.WebhookID) *atrium.Event {
		return &atrium.Event{Type: kind, Audit: &atrium.AuditRow{Subject: string(id), Detail: []byte(`{}`)}}
	}
	erased := entry
	erased.Erased, erased.Entry = true, nil
	for _, c := range []struct {
		name             string
		spec             atrium.WebhookSpec
		event            *atrium.Event
		selected, faulty bool
	}{
		{"everything", atrium.WebhookSpec{}, &entry, true, false},
		{"changes", atrium.WebhookSpec{}, &page, true, false},
		{"type", atrium.WebhookSpec{EventTypes: []atrium.EventType{atrium.EventPagePublished, atrium.EventEntryCreated}}, &entry, true, false},
		{"other type", atrium.WebhookSpec{EventTypes: []atrium.EventType{atrium.EventPagePublished}}, &entry, false, false},
		{"source", atrium.WebhookSpec{Sources: []string{"ads", "crm"}, EntryTypes: []string{"deal"}}, &entry, true, false},
		{"other source", atrium.WebhookSpec{Sources: []string{"ads"}}, &entry, false, false},
		{"other type of entry", atrium.WebhookSpec{EntryTypes: []string{"call"}}, &entry, false, false},
		{"no entry", atrium.WebhookSpec{Sources: []string{""}}, &page, false, false},
		{"account", atrium.WebhookSpec{AccountID: account}, &entry, true, false},
		{"other account", atrium.WebhookSpec{AccountID: atrium.NewID[atrium.AccountID]()}, &entry, false, false},
		{"filter", atrium.WebhookSpec{Filter: `data.payload.amount > 5 && source == "crm"`}, &entry, true, false},
		{"filter of others", atrium.WebhookSpec{Filter: `data.payload.amount > 8`}, &entry, false, false},
		{"filter that fails", atrium.WebhookSpec{Filter: `data.payload.missing > 8`}, &entry, true, true},
		{"filter that does not compile", atrium.WebhookSpec{Filter: `data.`}, &entry, true, true},
		{"filter after the rest", atrium.WebhookSpec{Filter: `data.`, Sources: []string{"ads"}}, &entry, false, false},
		{"erased", atrium.WebhookSpec{Sources: []string{"ads"}, Filter: "false"}, &erased, true, false},
		{"erased of another type", atrium.WebhookSpec{EventTypes: []atrium.EventType{atrium.EventPagePublished}}, &erased, false, false},
		{"its test", atrium.WebhookSpec{EventTypes: []atrium.EventType{atrium.EventPagePublished}, Filter: "false"}, about(atrium.EventWebhookTest, self), true, false},
		{"test of another one", atrium.WebhookSpec{}, about(atrium.EventWebhookTest, other), false, false},
		{"its end", atrium.WebhookSpec{}, about(atrium.EventWebhookDisabled, self), false, false},
		{"end of another one", atrium.WebhookSpec{}, about(atrium.EventWebhookDisabled, other), true, false},
		{"its failure", atrium.WebhookSpec{}, about(atrium.EventWebhookExhausted, self), false, false},
		{"failure of another one", atrium.WebhookSpec{}, about(atrium.EventWebhookExhausted, other), true, false},
	} {
		var body []byte
		if !c.event.Erased {
			var err error
			if body, err = resource.Event(c.event); err != nil {
				t.Fatal(err)
			}
		}
		selected, faulty := NewSelection(&atrium.Webhook{ID: self, WebhookSpec: c.spec}).Selects(c.event, body)
		if selected != c.selected || faulty != c.faulty {
			t.Errorf("%s: selected %v, faulty %v, want %v, %v", c.name, selected, faulty, c.selected, c.faulty)
		}
	}
}
