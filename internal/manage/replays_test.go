package manage_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/limit"
	"atrium/internal/manage"
	"atrium/internal/rest"
	"atrium/internal/secrets"
	"atrium/internal/store"
)

// costly is a filter that takes some tens of milliseconds for an event with a list of 300 elements.
const costly = "data.payload.list.all(a, data.payload.list.all(b, a + b > 0))"

// newStore returns a store with a key for secrets, and a tenant.
func newStore(t *testing.T) (*store.Store, atrium.TenantID) {
	t.Helper()
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(dir, "atrium.db"), store.Options{})
	must(err)
	t.Cleanup(func() { _ = s.Close() })
	_, err = s.Migrate(t.Context())
	must(err)
	must(s.FinishUpgrade(t.Context()))
	_, _, err = secrets.AddKey(filepath.Join(dir, "keys"), false)
	must(err)
	keys, err := secrets.Load(filepath.Join(dir, "keys"))
	must(err)
	s.UseSecrets(keys)
	tenant, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	must(err)
	return s, tenant.ID
}

// newCheckedWebhook returns a store, and a webhook with a costly filter that has reached events.
func newCheckedWebhook(t *testing.T, events int) (*store.Store, atrium.Webhook) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s, tenant := newStore(t)
	_, err := s.SetEventSettings(t.Context(), atrium.CommandLine(tenant), true, func(atrium.EventSettings) error { return nil })
	must(err)
	payload := []byte(`{"list":[` + strings.Repeat("1,", 299) + `1]}`)
	drafts := make([]*atrium.Draft, events)
	for i := range drafts {
		drafts[i], err = canonical.Draft(tenant, atrium.Submission{Source: "crm", Type: "a", Claim: atrium.Claim{Domain: "a.example"}, Payload: payload})
		must(err)
		drafts[i].ID = atrium.NewID[atrium.EntryID]()
	}
	_, err = s.Append(t.Context(), drafts)
	must(err)
	for more := true; more; {
		more, err = s.SequenceEvents(t.Context(), tenant)
		must(err)
	}
	w, _, err := s.CreateWebhook(t.Context(), atrium.CommandLine(tenant), atrium.Webhook{ID: atrium.NewID[atrium.WebhookID](), WebhookSpec: atrium.WebhookSpec{
		URL: "https://hooks.example/", Format: atrium.FormatStandard, Filter: costly,
	}}, []atrium.WebhookSecret{{ID: atrium.NewID[atrium.WebhookSecretID](), Kind: atrium.SecretSigning, Value: []byte("012345678901234567890123")}})
	must(err)
	if w.Cursor < int64(events) {
		t.Fatalf("the webhook is at %d", w.Cursor)
	}
	return s, w
}

func TestCheckOfAReplayLeavesTheProcessorToOthers(t *testing.T) {
	s, w := newCheckedWebhook(t, 200)
	heavy := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 1, Waiting: 1, Timeout: 3 * time.Second})
	server := &rest.API{Keys: tenantKey(w.TenantID), Log: slog.New(slog.DiscardHandler), Limits: rest.Limits{Heavy: heavy}}
	h := server.Handler((&manage.API{Store: s, Cursors: rest.CursorKey("k")}).Routes(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/manage/v0/webhooks/"+string(w.ID)+"/replays", strings.NewReader(`{"from":1,"check":true}`))
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, r)
		done <- recorder
	}()
	for heavy.Held() == 0 {
		select {
		case response := <-done:
			t.Fatalf("%d %s", response.Code, response.Body)
		case <-time.After(time.Millisecond):
		}
	}
	for range 5 {
		began := time.Now()
		if err := heavy.Acquire(t.Context(), "another"); err != nil {
			t.Fatalf("after %s: %v", time.Since(began), err)
		}
		heavy.Release("another")
		t.Logf("another tenant has waited for %s", time.Since(began))
	}
	cancel()
	<-done
}

func TestCheckOfAReplayCountsWhatIsSelected(t *testing.T) {
	s, w := newCheckedWebhook(t, 5)
	server := &rest.API{Keys: tenantKey(w.TenantID), Log: slog.New(slog.DiscardHandler)}
	h := server.Handler((&manage.API{Store: s, Cursors: rest.CursorKey("k")}).Routes(), nil)
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/manage/v0/webhooks/"+string(w.ID)+"/replays", strings.NewReader(`{"from":1,"check":true}`)))
	if want := `{"from":1,"to":6,"events":6,"hasMore":false}`; recorder.Code != http.StatusOK || !strings.Contains(recorder.Body.String(), want) {
		t.Errorf("%d %s", recorder.Code, recorder.Body)
	}
}
