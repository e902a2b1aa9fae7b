package resource_test

import (
	"bytes"
	"maps"
	"net/url"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"atrium"
	"atrium/api"
	"atrium/internal/resource"
	"atrium/internal/webhook"
)

// object is a decoded JSON object.
type object = map[string]any

// closed forbids, in schemas that name their properties, all others: the document must name what is sent.
func closed(node any) {
	switch node := node.(type) {
	case object:
		if node["properties"] != nil && node["type"] == "object" {
			node["additionalProperties"] = false
		}
		for _, value := range node {
			closed(value)
		}
	case []any:
		for _, value := range node {
			closed(value)
		}
	}
}

// events returns events of a type: one for each way in which it comes about.
func events(t atrium.EventType) (all []atrium.Event) {
	const (
		entry   = atrium.EntryID("prospectlog_01h2xcejqtf2nbrexx3vqjhp42")
		account = atrium.AccountID("account_01h2xcejqtf2nbrexx3vqjhp43")
		at      = atrium.Time(1_700_000_000_123_000)
		suffix  = "_01h2xcejqtf2nbrexx3vqjhp44"
	)
	base := atrium.Event{ID: "event_01h2xcejqtf2nbrexx3vqjhp40", TenantID: "tenant_01h2xcejqtf2nbrexx3vqjhp41", Type: t, Position: 7, At: at, AccountID: account, EntryID: entry}
	audited := func(subject string) atrium.Event {
		e := base
		e.Audit = &atrium.AuditRow{Number: 9, Actor: "key_01h2xcejqtf2nbrexx3vqjhp45", Subject: subject, Detail: []byte(`{"after":{"name":null}}`)}
		return e
	}
	switch kind, _, _ := strings.Cut(string(t), "."); {
	case t == atrium.EventEntryErased:
		return []atrium.Event{base}
	case t == atrium.EventEntryCreated:
		full, large := base, base
		occurred := at - 1_000_000
		full.Entry = &atrium.Entry{ID: entry, AccountID: account, CreatedAt: at, Submission: atrium.Submission{
			Source: "crm", Type: "email", Payload: []byte(`{"a":1.50}`), OccurredAt: &occurred, IdempotencyKey: "k", Claim: atrium.Claim{AccountID: account, Domain: "acme.example", Name: "Acme"},
		}}
		large.Entry = &atrium.Entry{ID: entry, AccountID: account, CreatedAt: at, Submission: atrium.Submission{Source: "crm", Type: "webhook"}}
		return []atrium.Event{full, large}
	case t == atrium.EventAccountCreated:
		named, unnamed := base, base
		named.Account, unnamed.Account = &atrium.CreatedAccount{Domain: "acme.example", Name: "Acme"}, &atrium.CreatedAccount{Domain: "acme.example"}
		return []atrium.Event{named, unnamed, audited(string(account))}
	case t == atrium.EventMoveCompleted:
		return []atrium.Event{audited(string(entry)), audited("move" + suffix)}
	case kind == "audience":
		return []atrium.Event{audited("version" + suffix)}
	default:
		return []atrium.Event{audited(kind + suffix)}
	}
}

func TestEveryEventIsAsItsDocumentSays(t *testing.T) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(api.Events.JSON()))
	if err != nil {
		t.Fatal(err)
	}
	closed(document)
	documented := maps.Clone(document.(object)["webhooks"].(object))
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("mem:///events.json", document); err != nil {
		t.Fatal(err)
	}
	for _, kind := range atrium.EventTypes() {
		if documented[string(kind)] == nil {
			t.Errorf("%s is not in the document", kind)
			continue
		}
		delete(documented, string(kind))
		pointer := "/webhooks/" + string(kind) + "/post/requestBody/content/application~1json/schema"
		schema, err := compiler.Compile("mem:///events.json#" + (&url.URL{Path: pointer}).EscapedPath())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events(kind) {
			encoded, err := resource.Event(&e)
			if err != nil {
				t.Fatal(err)
			}
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(encoded))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil {
				t.Errorf("%s: %v", encoded, err)
			}
			for _, format := range webhook.Formats() {
				if _, err := webhook.Body(format, encoded); err != nil {
					t.Errorf("%s of %s: %v", format, encoded, err)
				}
			}
		}
	}
	for kind := range documented {
		t.Errorf("%s is in the document, but there is no such event", kind)
	}
}
