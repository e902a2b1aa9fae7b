package manage_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/canonical"
	"atrium/internal/limit"
	"atrium/internal/manage"
	"atrium/internal/rest"
)

// A revocableKey is a tenantKey until it is revoked.
type revocableKey struct {
	tenantKey
	revoked atomic.Bool
}

func (k *revocableKey) Authenticate(ctx context.Context, client netip.Addr, text string) (auth.Principal, error) {
	if k.revoked.Load() {
		return auth.Principal{}, atrium.Errorf(atrium.CodeUnauthenticated, "revoked")
	}
	return k.tenantKey.Authenticate(ctx, client, text)
}

// countRequest returns a function that requests the most active accounts, of which there is one, and its key.
func countRequest(t *testing.T, limits rest.Limits) (request func() *httptest.ResponseRecorder, key *revocableKey) {
	t.Helper()
	s, tenant := newStore(t)
	draft, err := canonical.Draft(tenant, atrium.Submission{Source: "crm", Claim: atrium.Claim{Domain: "a.example"}, Payload: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	draft.ID = atrium.NewID[atrium.EntryID]()
	if outcomes, err := s.Append(t.Context(), []*atrium.Draft{draft}); err != nil || outcomes[0].Err != nil {
		t.Fatal(outcomes, err)
	}
	key = &revocableKey{tenantKey: tenantKey(tenant)}
	server := &rest.API{Keys: key, Log: slog.New(slog.DiscardHandler), Limits: limits}
	h := server.Handler((&manage.API{Store: s, Cursors: rest.CursorKey("k")}).Routes(), nil)
	return func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/manage/v0/activity/accounts", http.NoBody))
		return w
	}, key
}

func TestACountOfEntriesEndsWhenItsKeyIsRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heavy := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 1, Waiting: 2, Timeout: time.Hour})
		request, key := countRequest(t, rest.Limits{Heavy: heavy})
		if err := heavy.Acquire(t.Context(), "other"); err != nil {
			t.Fatal(err)
		}
		responses := make(chan *httptest.ResponseRecorder, 1)
		go func() { responses <- request() }()
		synctest.Wait() // the request waits
		key.revoked.Store(true)
		heavy.Release("other")
		if w := <-responses; w.Code != http.StatusUnauthorized {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if heavy.Held() != 0 {
			t.Error("the request has left a slot held")
		}
	})
}

func TestACountOfEntriesPausesForOtherTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heavy := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 1, Waiting: 2, Timeout: time.Hour})
		pausing := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 1, Waiting: 2, Timeout: time.Hour})
		request, _ := countRequest(t, rest.Limits{Heavy: heavy, Pausing: pausing})
		if err := heavy.Acquire(t.Context(), "other"); err != nil {
			t.Fatal(err)
		}
		responses := make(chan *httptest.ResponseRecorder, 1)
		go func() { responses <- request() }()
		synctest.Wait() // the request waits
		for range 2 {   // the second time is between two reads
			turn := make(chan error)
			go func() { turn <- heavy.Acquire(t.Context(), "other") }()
			synctest.Wait() // this waits behind the request
			heavy.Release("other")
			if err := <-turn; err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if len(responses) != 0 || pausing.Held() != 1 {
				t.Fatal("the request does not pause")
			}
		}
		heavy.Release("other")
		w := <-responses
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"entries":1`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if heavy.Held() != 0 || pausing.Held() != 0 {
			t.Error("the request has left slots held")
		}
	})
}

func TestACountOfEntriesHoldsTheMemoryOfItsAccounts(t *testing.T) {
	for quota, want := range map[int64]int{255: http.StatusServiceUnavailable, 256: http.StatusOK} { // an account needs 128, half of the quota
		request, _ := countRequest(t, rest.Limits{Bodies: limit.NewQuota[atrium.TenantID](quota)})
		if w := request(); w.Code != want {
			t.Errorf("with a quota of %d: %d %s, want %d", quota, w.Code, w.Body, want)
		}
	}
}
