package rest_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
	"atrium/internal/rest"
)

// tenants may do all; their keys are their identifiers.
type tenants struct{}

func (tenants) Authenticate(_ context.Context, _ netip.Addr, key string) (auth.Principal, error) {
	return auth.Principal{TenantID: atrium.TenantID(key), Scopes: atrium.Scopes{atrium.ScopePagesRead, atrium.ScopeLogsWrite}}, nil
}

// stuck is the connection of a client that does not read until it is told to.
type stuck struct {
	*httptest.ResponseRecorder
	begun, read chan struct{}
}

func (s stuck) Write(b []byte) (int, error) {
	close(s.begun)
	<-s.read
	return s.ResponseRecorder.Write(b)
}

func TestUnreadResponsesLeaveMemoryForOtherTenants(t *testing.T) {
	large := strings.Repeat("x", 240<<10)
	answer := func(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
		return rest.Response{Body: large}, nil
	}
	kit := &rest.API{Keys: tenants{}, Log: slog.New(slog.DiscardHandler), Limits: rest.Limits{Bodies: limit.NewQuota[atrium.TenantID](1 << 20)}}
	handler := kit.Handler([]rest.Route{
		{Method: http.MethodGet, Pattern: "/things", Scope: atrium.ScopePagesRead, Handle: answer},
		{Method: http.MethodPost, Pattern: "/things", Scope: atrium.ScopeLogsWrite, Handle: answer},
	}, nil)
	send := func(w http.ResponseWriter, method, tenant string) {
		r := httptest.NewRequest(method, "/things", http.NoBody)
		r.Header.Set("X-Api-Key", tenant)
		handler.ServeHTTP(w, r)
	}
	want := func(method, tenant string, status int) {
		t.Helper()
		w := httptest.NewRecorder()
		if send(w, method, tenant); w.Code != status || status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
			t.Errorf("%s of %s: %d %v, want %d", method, tenant, w.Code, w.Header(), status)
		}
	}

	var clients []stuck
	var ended sync.WaitGroup
	for range 2 { // of the 512 KiB that a tenant may have
		c := stuck{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
		clients = append(clients, c)
		ended.Go(func() { send(c, http.MethodGet, "a") })
		<-c.begun
	}
	want(http.MethodGet, "a", http.StatusServiceUnavailable)
	want(http.MethodHead, "a", http.StatusOK) // has no body
	want(http.MethodPost, "a", http.StatusOK) // was made
	want(http.MethodGet, "b", http.StatusOK)
	for _, c := range clients {
		close(c.read)
	}
	ended.Wait()
	for _, c := range clients {
		if c.Code != http.StatusOK || c.Body.Len() != len(large)+2 {
			t.Errorf("who read late got %d with %d bytes", c.Code, c.Body.Len())
		}
	}
	for range 5 { // what was taken is returned
		want(http.MethodGet, "a", http.StatusOK)
		want(http.MethodGet, "b", http.StatusOK)
	}
}

// The response to a change cannot be refused once the change was made, so a large change is refused
// before that.
func TestUnreadResponsesToLargeChangesHaveBoundedMemory(t *testing.T) {
	var made atomic.Int64
	kit := &rest.API{Keys: tenants{}, Log: slog.New(slog.DiscardHandler), Limits: rest.Limits{Bodies: limit.NewQuota[atrium.TenantID](8 << 20)}}
	handler := kit.Handler([]rest.Route{{
		Method: http.MethodPost, Pattern: "/things", Scope: atrium.ScopeLogsWrite,
		Handle: func(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
			release, err := r.NewChange(who).Admit(ctx, true)
			if err != nil {
				return rest.Response{}, err
			}
			defer release()
			made.Add(1)
			return rest.Response{Body: strings.Repeat("x", 900<<10)}, nil
		},
	}}, nil)
	send := func(w http.ResponseWriter, tenant string) {
		r := httptest.NewRequest(http.MethodPost, "/things", http.NoBody)
		r.Header.Set("X-Api-Key", tenant)
		handler.ServeHTTP(w, r)
	}
	want := func(tenant string, status int) {
		t.Helper()
		w := httptest.NewRecorder()
		if send(w, tenant); w.Code != status {
			t.Errorf("a change of %s: %d, want %d", tenant, w.Code, status)
		}
	}
	var clients []stuck
	var ended sync.WaitGroup
	const most = 4 // of a megabyte each: half of the quota
	for range most {
		c := stuck{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
		clients = append(clients, c)
		ended.Go(func() { send(c, "a") })
		<-c.begun
	}
	want("a", http.StatusServiceUnavailable)
	if n := made.Load(); n != most {
		t.Errorf("%d changes were made while %d responses are unread", n, most)
	}
	want("b", http.StatusOK)
	for _, c := range clients {
		close(c.read)
	}
	ended.Wait()
	want("a", http.StatusOK)
}

// What is larger than all that a tenant may hold can be read all the same, one at a time.
func TestResponseLargerThanTheQuotaIsSent(t *testing.T) {
	kit := &rest.API{Keys: tenants{}, Log: slog.New(slog.DiscardHandler), Limits: rest.Limits{Bodies: limit.NewQuota[atrium.TenantID](1 << 20)}}
	handler := kit.Handler([]rest.Route{{
		Method: http.MethodGet, Pattern: "/things", Scope: atrium.ScopePagesRead,
		Handle: func(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
			return rest.Response{Body: strings.Repeat("x", 8<<20)}, nil
		},
	}}, nil)
	for range 3 {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/things", http.NoBody)
		r.Header.Set("X-Api-Key", "a")
		if handler.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Fatal(w.Code)
		}
	}
}
