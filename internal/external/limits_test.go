package external_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"testing"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/external"
	"atrium/internal/limit"
	"atrium/internal/rest"
	"atrium/internal/store"
)

type reader struct{ tenant atrium.TenantID }

func (r reader) Authenticate(context.Context, netip.Addr, string) (auth.Principal, error) {
	return auth.Principal{TenantID: r.tenant, Scopes: atrium.Scopes{atrium.ScopePagesRead}}, nil
}

func TestReadThatSkipsManyVersionsIsHeavyWork(t *testing.T) {
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	tenant := atrium.NewID[atrium.TenantID]()
	heavy := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2})
	service := &rest.API{Keys: reader{tenant}, Log: slog.New(slog.DiscardHandler), Limits: rest.Limits{Heavy: heavy}}
	handler := service.Handler((&external.API{Store: s}).Routes(), nil)
	path := "/v0/pages/" + string(atrium.NewID[atrium.PageID]()) + "/audiences/" + string(atrium.NewID[atrium.AudienceID]()) + "/versions?limit=10&page="
	want := func(page string, status int) {
		t.Helper()
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path+page, nil)); w.Code != status {
			t.Errorf("page %s: %d %s, want %d", page, w.Code, w.Body, status)
		}
	}
	if err := heavy.Acquire(t.Context(), tenant); err != nil { // all that the tenant may hold
		t.Fatal(err)
	}
	want("11", http.StatusNotFound)
	want("12", http.StatusServiceUnavailable)
	heavy.Release(tenant)
	want("12", http.StatusNotFound)
	if heavy.Held() != 0 {
		t.Error("a slot is held at the end")
	}
}
