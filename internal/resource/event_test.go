package resource_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"atrium"
	"atrium/internal/resource"
)

func TestEventsAreEncodedByTheirContents(t *testing.T) {
	const (
		entry   = atrium.EntryID("prospectlog_01h2xcejqtf2nbrexx3vqjhp42")
		account = atrium.AccountID("account_01h2xcejqtf2nbrexx3vqjhp43")
		at      = atrium.Time(1_700_000_000_123_000)
	)
	occurred := at - 1_000_000
	start := `{"id":"event_01h2xcejqtf2nbrexx3vqjhp40","type":"`
	middle := `","timestamp":"2023-11-14T22:13:20.123Z","tenantId":"tenant_01h2xcejqtf2nbrexx3vqjhp41","position":7,"data":`
	full := &atrium.Entry{ID: entry, AccountID: account, CreatedAt: at, Submission: atrium.Submission{
		Source: "crm", Type: "email", Payload: []byte(`{"a": 1.50, "a":"<&>"}`), OccurredAt: &occurred, IdempotencyKey: "k",
		Claim: atrium.Claim{AccountID: account, Domain: "WWW.acme.example", Name: `"A"`},
	}}
	large := &atrium.Entry{ID: entry, AccountID: account, CreatedAt: at, Submission: atrium.Submission{Source: "crm", Type: "webhook"}}
	for name, test := range map[string]struct {
		event atrium.Event
		data  string
	}{
		"entry": {
			atrium.Event{Type: atrium.EventEntryCreated, Entry: full},
			`{"accountLogId":"prospectlog_01h2xcejqtf2nbrexx3vqjhp42","accountId":"account_01h2xcejqtf2nbrexx3vqjhp43","createdAt":"2023-11-14T22:13:20.123Z",` +
				`"occurredAt":"2023-11-14T22:13:19.123Z","source":"crm","type":"email","claimed":{"accountId":"account_01h2xcejqtf2nbrexx3vqjhp43","domain":"WWW.acme.example","name":"\"A\""},` +
				`"idempotencyKey":"k","payload":{"a": 1.50, "a":"<&>"}}`,
		},
		"entry with a large payload": {
			atrium.Event{Type: atrium.EventEntryCreated, Entry: large},
			`{"accountLogId":"prospectlog_01h2xcejqtf2nbrexx3vqjhp42","accountId":"account_01h2xcejqtf2nbrexx3vqjhp43","createdAt":"2023-11-14T22:13:20.123Z",` +
				`"source":"crm","type":"webhook","claimed":{},"payloadPath":"/manage/v0/account_logs/prospectlog_01h2xcejqtf2nbrexx3vqjhp42/payload"}`,
		},
		"account": {
			atrium.Event{Type: atrium.EventAccountCreated, Account: &atrium.CreatedAccount{Domain: "acme.example", Name: "Acme"}},
			`{"accountId":"account_01h2xcejqtf2nbrexx3vqjhp43","domain":"acme.example","name":"Acme","accountLogId":"prospectlog_01h2xcejqtf2nbrexx3vqjhp42"}`,
		},
		"erased entry": {
			atrium.Event{Type: atrium.EventEntryErased},
			`{"accountLogId":"prospectlog_01h2xcejqtf2nbrexx3vqjhp42","accountId":"account_01h2xcejqtf2nbrexx3vqjhp43"}`,
		},
		"change of an account": {
			atrium.Event{Type: atrium.EventAccountUpdated, Audit: &atrium.AuditRow{Number: 9, Actor: "key_1", Subject: string(account), Detail: []byte(`{"after":{"name":"B"},"before":{"name":"A"}}`)}},
			`{"actor":"key_1","auditNumber":9,"accountId":"account_01h2xcejqtf2nbrexx3vqjhp43","detail":{"after":{"name":"B"},"before":{"name":"A"}}}`,
		},
		"move of an entry": {
			atrium.Event{Type: atrium.EventMoveCompleted, Audit: &atrium.AuditRow{Number: 10, Actor: "key_1", Subject: string(entry), Detail: []byte(`{}`)}},
			`{"actor":"key_1","auditNumber":10,"accountLogId":"prospectlog_01h2xcejqtf2nbrexx3vqjhp42","detail":{}}`,
		},
		"page": {
			atrium.Event{Type: atrium.EventPagePublished, Audit: &atrium.AuditRow{Number: 1, Actor: atrium.ActorSchedule, Subject: "page_01h2xcejqtf2nbrexx3vqjhp44", Detail: []byte(`{}`)}},
			`{"actor":"schedule","auditNumber":1,"pageId":"page_01h2xcejqtf2nbrexx3vqjhp44","detail":{}}`,
		},
	} {
		e := test.event
		e.ID, e.TenantID, e.Position, e.At, e.AccountID, e.EntryID = "event_01h2xcejqtf2nbrexx3vqjhp40", "tenant_01h2xcejqtf2nbrexx3vqjhp41", 7, at, account, entry
		want := start + string(e.Type) + middle + test.data + "}"
		got, err := resource.Event(&e)
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, want)
		}
		if again, err := resource.Event(&e); err != nil || !bytes.Equal(again, got) {
			t.Errorf("%s: %s, %v, and before %s", name, again, err, got)
		}
		e.Erased = true
		if got, err := resource.Event(&e); !errors.Is(err, resource.ErrErasedEvent) {
			t.Errorf("%s, erased: %s, %v", name, got, err)
		}
	}
}

// An event is JSON, whatever its texts are.
func TestEventsAreJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string { return strings.ToValidUTF8(rapid.String().Draw(t, name), "") }
		e := atrium.Event{Type: atrium.EventEntryCreated, Entry: &atrium.Entry{Submission: atrium.Submission{
			Source: text("source"), Type: text("type"), IdempotencyKey: text("key"), Payload: []byte(`{}`), Claim: atrium.Claim{Domain: text("domain"), Name: text("name")},
		}}}
		got, err := resource.Event(&e)
		if err != nil || !jsontext.Value(got).IsValid() {
			t.Fatalf("%s, %v", got, err)
		}
	})
}
