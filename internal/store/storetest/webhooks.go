package storetest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"atrium"
	"atrium/internal/secrets"
	"atrium/internal/store"
)

var tenantWebhooks = []guarantee{
	{"a webhook is stored, changed and deleted, and begins with the next event", webhookStored},
	{"a webhook of an account that does not exist is refused", webhookOfAnUnknownAccountRefused},
	{"secrets of webhooks are encrypted, and two sign after a rotation", webhookSecrets},
	{concurrent + "one node at a time leases a webhook, and another one when the lease has expired", webhookLeased},
	{"a node that has lost its lease stores nothing", webhookFenced},
	{"results are stored once, however often they are sent", resultsOnce},
	{"a webhook is idle only at the end of the feed, and the next event wakes it", webhookIdle},
	{concurrent + "no event is missed while webhooks become idle", webhookIdleRaces},
	{"retries are due at their time, and wake an idle webhook", retriesDue},
	{"all deliveries of a subject wait for the one before, whatever it ends with", deliveriesInOrder},
	{"a webhook that fails for too long, or whose endpoint is gone, is disabled and reported", webhookDisabled},
	{"a delivery that has failed is reported, unless it was about a webhook", failureReported},
	{"deliveries are listed by position, state, event and time", deliveriesListed},
	{"a finished delivery is delivered again", redelivered},
	{"a replay schedules a range of events once", replayed},
	{"a replay of an ordered webhook keeps the order", replayedInOrder},
	{"old deliveries are deleted, and those of deleted webhooks", deliveriesExpire},
	{"the last attempts of a delivery are stored, and many are deleted in several transactions", attemptsBounded},
	{"webhooks of another tenant are not found", webhooksOfOthers},
}

// testKeys returns the keys of the tests.
var testKeys = sync.OnceValue(func() *secrets.Keyring {
	dir, err := os.MkdirTemp("", "keys")
	if err != nil {
		return nil
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "keys")
	if _, _, err := secrets.AddKey(path, false); err != nil {
		return nil
	}
	keys, _ := secrets.Load(path) // nil makes the tests fail
	return keys
})

const leaseLife = 30 * time.Second

// newWebhook stores a webhook.
func (e *env) newWebhook(t tb, change func(*atrium.WebhookSpec)) atrium.Webhook {
	t.Helper()
	w := atrium.Webhook{ID: atrium.NewID[atrium.WebhookID](), WebhookSpec: atrium.WebhookSpec{URL: "https://hooks.example/in", Format: atrium.FormatStandard}}
	if change != nil {
		change(&w.WebhookSpec)
	}
	made, _, err := e.CreateWebhook(t.Context(), e.change(), w, []atrium.WebhookSecret{
		{ID: atrium.NewID[atrium.WebhookSecretID](), Kind: atrium.SecretSigning, Value: []byte("first")},
	})
	if err != nil {
		t.Fatalf("create a webhook: %v", err)
	}
	return made
}

func ordered(s *atrium.WebhookSpec) { s.Ordered = true }

// isDue reports whether nodes should look at a webhook.
func (e *env) isDue(t tb, id atrium.WebhookID) bool {
	t.Helper()
	due, err := e.DueWebhooks(t.Context(), 10_000)
	if err != nil {
		t.Fatalf("due webhooks: %v", err)
	}
	for _, d := range due {
		if d == (store.DueWebhook{TenantID: e.tenant, WebhookID: id}) {
			return true
		}
	}
	return false
}

// claim leases a webhook, which must be due.
func (e *env) claim(t tb, id atrium.WebhookID) store.Lease {
	t.Helper()
	lease, claimed, err := e.ClaimWebhook(t.Context(), store.DueWebhook{TenantID: e.tenant, WebhookID: id}, []byte("node"), leaseLife)
	if err != nil || !claimed {
		t.Fatalf("claim a webhook: %v, %v", claimed, err)
	}
	return lease
}

// happens causes an event about an account with a domain, and returns the events since a position.
func (e *env) happens(t tb, after int64, domains ...string) []atrium.Event {
	t.Helper()
	for _, domain := range domains {
		e.record(t, byDomain(domain))
	}
	e.sequence(t)
	return e.feed(t, after, atrium.MaxEventPage)
}

// An attempted is a delivery of an event after its first attempt.
func (e *env) attempted(event *atrium.Event, state atrium.DeliveryState) store.Outcome {
	now := e.clock.instant()
	o := store.Outcome{
		Delivery: atrium.Delivery{
			EventID: event.ID, Position: event.Position, Type: event.Type, Subject: string(event.AccountID), EntryID: event.EntryID, State: state, Attempts: 1, CreatedAt: now, Status: 200,
		},
		Attempt: &atrium.Attempt{Number: 1, At: now, Duration: 20 * time.Millisecond, Status: 200, Response: []byte("ok")},
	}
	d := &o.Delivery
	switch state {
	case atrium.DeliveryPending:
		d.NextAt, d.Status, o.Attempt.Status, o.Attempt.Error = e.in(5*time.Second), 500, 500, "status 500"
	case atrium.DeliveryWaiting:
		d.Attempts, o.Attempt = 0, nil
	case atrium.DeliveryFailed:
		d.FinishedAt, d.Status, d.Error = &now, 500, "status 500"
	default:
		d.FinishedAt = &now
	}
	return o
}

// again is the outcome of another attempt of a stored delivery.
func (e *env) again(d atrium.Delivery, state atrium.DeliveryState) store.Outcome {
	o := e.attempted(&atrium.Event{ID: d.EventID, Position: d.Position, Type: d.Type, AccountID: atrium.AccountID(d.Subject), EntryID: d.EntryID}, state)
	o.Stored, o.Delivery.Attempts, o.Delivery.Earlier, o.Delivery.CreatedAt = true, d.Attempts+1, d.Earlier, d.CreatedAt
	if o.Attempt != nil {
		o.Attempt.Number = d.Attempts + 1
	}
	return o
}

// store stores results.
func (e *env) results(t tb, lease store.Lease, number, cursor int64, outcomes ...store.Outcome) store.LeaseState {
	t.Helper()
	state, err := e.RecordResults(t.Context(), lease, store.Results{Number: number, Cursor: cursor, Outcomes: outcomes})
	if err != nil {
		t.Fatalf("record results: %v", err)
	}
	return state
}

// wantStates compares the states of all deliveries of a webhook, by position.
func (e *env) wantStates(t tb, id atrium.WebhookID, want map[int64]atrium.DeliveryState) {
	t.Helper()
	all, _, err := e.Deliveries(t.Context(), e.tenant, id, atrium.DeliveryFilter{}, nil, 1000)
	if err != nil {
		t.Fatalf("deliveries: %v", err)
	}
	got := map[int64]atrium.DeliveryState{}
	for _, d := range all {
		got[d.Position] = d.State
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("deliveries are %v, want %v", got, want)
	}
}

func (e *env) webhook(t tb, id atrium.WebhookID) atrium.Webhook {
	t.Helper()
	w, err := e.Webhook(t.Context(), e.tenant, id)
	if err != nil {
		t.Fatalf("webhook: %v", err)
	}
	return w
}

func webhookOfAnUnknownAccountRefused(t *testing.T, e *env) {
	unknown := atrium.NewID[atrium.AccountID]()
	w := atrium.Webhook{ID: atrium.NewID[atrium.WebhookID](), WebhookSpec: atrium.WebhookSpec{URL: "https://hooks.example/in", Format: atrium.FormatStandard, AccountID: unknown}}
	if _, _, err := e.CreateWebhook(t.Context(), e.change(), w, nil); atrium.CodeOf(err) != atrium.CodeNotFound {
		t.Errorf("create a webhook of an unknown account: %v", err)
	}
	made := e.newWebhook(t, nil)
	if _, err := e.UpdateWebhook(t.Context(), e.change(), made.ID, func(w atrium.Webhook) atrium.WebhookSpec {
		w.AccountID = unknown
		return w.WebhookSpec
	}, nil, accept[atrium.Webhook]); atrium.CodeOf(err) != atrium.CodeNotFound {
		t.Errorf("give a webhook an unknown account: %v", err)
	}
	if got := e.webhook(t, made.ID); got.AccountID != "" {
		t.Errorf("it has the account %s", got.AccountID)
	}
}

func webhookStored(t *testing.T, e *env) {
	e.enableEvents(t)
	events := e.happens(t, 0, "before.example")
	before := int64(len(events))
	w := e.newWebhook(t, func(s *atrium.WebhookSpec) {
		*s = atrium.WebhookSpec{
			Description: "All", URL: "https://hooks.example/all", EventTypes: []atrium.EventType{atrium.EventEntryCreated}, Sources: []string{"crm", "a b"},
			EntryTypes: []string{"deal"}, AccountID: events[0].AccountID, Filter: "true", Format: atrium.FormatCloudEvents, Ordered: true, RateLimit: 7,
		}
	})
	if got := e.webhook(t, w.ID); !reflect.DeepEqual(got, w) || !got.Enabled || got.Cursor != before {
		t.Errorf("stored %+v, want %+v", got, w)
	}
	other := e.newWebhook(t, nil)
	if got := e.webhook(t, other.ID); len(got.EventTypes)+len(got.Sources)+len(got.EntryTypes) > 0 || got.AccountID != "" {
		t.Errorf("stored %+v", got)
	}
	all, more, err := e.Webhooks(t.Context(), e.tenant, nil, 1)
	if err != nil || !more || len(all) != 1 || all[0].ID != other.ID {
		t.Errorf("list %+v, %v, %v", all, more, err)
	}
	all, more, err = e.Webhooks(t.Context(), e.tenant, atrium.PositionAt(0, other.ID), 10)
	if err != nil || more || len(all) != 1 || all[0].ID != w.ID {
		t.Errorf("list %+v, %v, %v", all, more, err)
	}

	refused := errors.New("refused")
	rename := func(w atrium.Webhook) atrium.WebhookSpec {
		w.Description = "Renamed"
		return w.WebhookSpec
	}
	if _, err := e.UpdateWebhook(t.Context(), e.change(), w.ID, rename, nil, func(atrium.Webhook) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("error %v, want that of check", err)
	}
	updated, err := e.UpdateWebhook(t.Context(), e.change(), w.ID, rename, nil, accept[atrium.Webhook])
	if err != nil || updated.Description != "Renamed" || updated.UpdatedAt <= w.UpdatedAt {
		t.Errorf("updated %+v, %v", updated, err)
	}
	same, err := e.UpdateWebhook(t.Context(), e.change(), w.ID, rename, nil, accept[atrium.Webhook])
	if got := e.webhook(t, w.ID); err != nil || !reflect.DeepEqual(got, updated) || !reflect.DeepEqual(same, updated) {
		t.Errorf("stored %+v, want %+v, %v", got, updated, err)
	}

	off, err := e.EnableWebhook(t.Context(), e.change(), w.ID, false, accept[atrium.Webhook])
	if err != nil || off.Enabled || off.DisabledReason != atrium.DisabledByOperator || off.DisabledAt == nil {
		t.Errorf("disabled %+v, %v", off, err)
	}
	wantCode(t, e.TestWebhook(t.Context(), e.change(), w.ID), atrium.CodeConflict)
	e.happens(t, before, "later.example")
	if e.isDue(t, w.ID) || !e.isDue(t, other.ID) {
		t.Error("the disabled webhook is due, or the other one is not")
	}
	on, err := e.EnableWebhook(t.Context(), e.change(), w.ID, true, accept[atrium.Webhook])
	if err != nil || !on.Enabled || on.DisabledReason != "" || on.Cursor != before || !e.isDue(t, w.ID) {
		t.Errorf("enabled %+v, %v", on, err)
	}

	if err := e.DeleteWebhook(t.Context(), e.change(), w.ID, accept[atrium.Webhook]); err != nil {
		t.Error(err)
	}
	_, err = e.Webhook(t.Context(), e.tenant, w.ID)
	wantCode(t, err, atrium.CodeNotFound)
	if secrets, err := e.WebhookSecrets(t.Context(), e.tenant, w.ID); err != nil || len(secrets) > 0 || e.isDue(t, w.ID) {
		t.Errorf("secrets %v, %v", secrets, err)
	}
}

func webhookSecrets(t *testing.T, e *env) {
	w := e.newWebhook(t, nil)
	headers := []atrium.WebhookSecret{{ID: atrium.NewID[atrium.WebhookSecretID](), Kind: atrium.SecretHeaders, Value: []byte(`[{"Name":"A"}]`)}}
	same := func(w atrium.Webhook) atrium.WebhookSpec { return w.WebhookSpec }
	if _, err := e.UpdateWebhook(t.Context(), e.change(), w.ID, same, headers, accept[atrium.Webhook]); err != nil {
		t.Fatal(err)
	}
	rotate := func(value string, grace time.Duration) {
		t.Helper()
		secret := atrium.WebhookSecret{ID: atrium.NewID[atrium.WebhookSecretID](), Kind: atrium.SecretSigning, Value: []byte(value)}
		if _, err := e.RotateWebhookSecret(t.Context(), e.change(), w.ID, secret, grace, accept[atrium.Webhook]); err != nil {
			t.Fatal(err)
		}
	}
	want := func(want ...string) {
		t.Helper()
		all, err := e.WebhookSecrets(t.Context(), e.tenant, w.ID)
		var got []string
		for _, s := range all {
			if s.Kind == atrium.SecretSigning {
				got = append(got, string(s.Value))
			} else if string(s.Value) != `[{"Name":"A"}]` {
				t.Errorf("the headers are %s", s.Value)
			}
		}
		if err != nil || !reflect.DeepEqual(got, want) || len(all) != len(want)+1 {
			t.Errorf("secrets %q of %d values, %v, want %q", got, len(all), err, want)
		}
	}
	want("first")
	rotate("second", time.Hour)
	want("first", "second")
	rotate("third", time.Hour)
	want("second", "third")
	rotate("fourth", 0)
	want("fourth")
	if _, err := e.UpdateWebhook(t.Context(), e.change(), w.ID, same, []atrium.WebhookSecret{}, accept[atrium.Webhook]); err != nil {
		t.Fatal(err)
	}
	if all, err := e.WebhookSecrets(t.Context(), e.tenant, w.ID); err != nil || len(all) != 1 {
		t.Errorf("after the headers were removed: %d values, %v", len(all), err)
	}
	for _, row := range e.dump(t)["webhook_secrets"] {
		for _, value := range row {
			if bytes.Contains([]byte(value), []byte("666f75727468")) { // fourth
				t.Errorf("a secret is not encrypted: %s", value)
			}
		}
	}

	other := e.node()
	other.UseSecrets(nil)
	_, err := other.WebhookSecrets(t.Context(), e.tenant, w.ID)
	if !errors.Is(err, secrets.ErrNoKeys) {
		t.Errorf("without keys: %v", err)
	}
	_, _, err = other.CreateWebhook(t.Context(), e.change(), atrium.Webhook{ID: atrium.NewID[atrium.WebhookID]()}, []atrium.WebhookSecret{{ID: atrium.NewID[atrium.WebhookSecretID](), Value: []byte("x")}})
	wantCode(t, err, atrium.CodeConflict)
}

func webhooksOfOthers(t *testing.T, e *env) {
	w := e.newWebhook(t, nil)
	events := e.happens(t, 0, "a.example")
	lease := e.claim(t, w.ID)
	e.results(t, lease, 1, events[0].Position, e.attempted(&events[0], atrium.DeliverySucceeded))
	other := e.withEvents(t)
	_, err := other.Webhook(t.Context(), other.tenant, w.ID)
	wantCode(t, err, atrium.CodeNotFound)
	_, err = other.UpdateWebhook(t.Context(), other.change(), w.ID, func(w atrium.Webhook) atrium.WebhookSpec { return w.WebhookSpec }, nil, accept[atrium.Webhook])
	wantCode(t, err, atrium.CodeNotFound)
	_, err = other.EnableWebhook(t.Context(), other.change(), w.ID, false, accept[atrium.Webhook])
	wantCode(t, err, atrium.CodeNotFound)
	wantCode(t, other.TestWebhook(t.Context(), other.change(), w.ID), atrium.CodeNotFound)
	wantCode(t, other.DeleteWebhook(t.Context(), other.change(), w.ID, accept[atrium.Webhook]), atrium.CodeNotFound)
	_, err = other.Redeliver(t.Context(), other.change(), w.ID, events[0].ID)
	wantCode(t, err, atrium.CodeNotFound)
	_, _, err = other.CreateReplay(t.Context(), other.change(), atrium.Replay{ID: atrium.NewID[atrium.ReplayID](), WebhookID: w.ID})
	wantCode(t, err, atrium.CodeNotFound)
	_, _, err = other.Delivery(t.Context(), other.tenant, w.ID, events[0].ID)
	wantCode(t, err, atrium.CodeNotFound)
	if all, _, err := other.Deliveries(t.Context(), other.tenant, w.ID, atrium.DeliveryFilter{}, nil, 10); err != nil || len(all) > 0 {
		t.Errorf("deliveries %v, %v", all, err)
	}
	if secrets, err := other.WebhookSecrets(t.Context(), other.tenant, w.ID); err != nil || len(secrets) > 0 {
		t.Errorf("%d secrets, %v", len(secrets), err)
	}
	_, claimed, err := other.ClaimWebhook(t.Context(), store.DueWebhook{TenantID: other.tenant, WebhookID: w.ID}, []byte("node"), leaseLife)
	if err != nil || claimed {
		t.Errorf("claimed %v, %v", claimed, err)
	}
}
