package rest_test

import (
	"context"
	"io"
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
	"atrium/internal/rest"
)

// anyone authenticates every request as a principal with one scope.
type anyone struct{ scope atrium.Scope }

func (a anyone) Authenticate(context.Context, netip.Addr, string) (auth.Principal, error) {
	return auth.Principal{TenantID: atrium.NewID[atrium.TenantID](), Scopes: atrium.Scopes{a.scope}}, nil
}

// A late is a body that arrives after a delay.
type late struct {
	io.Reader
	by time.Duration
}

func (l *late) Read(b []byte) (int, error) {
	time.Sleep(l.by)
	l.by = 0
	return l.Reader.Read(b)
}

func TestSlowBodyDoesNotShortenTheStorageTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left time.Duration
		service := &rest.API{Keys: anyone{atrium.ScopeLogsWrite}, Log: slog.New(slog.DiscardHandler)}
		handler := service.Handler([]rest.Route{{
			Method: http.MethodPost, Pattern: "/entries", Scope: atrium.ScopeLogsWrite,
			Handle: func(ctx context.Context, _ auth.Principal, _ *rest.Request) (rest.Response, error) {
				deadline, _ := ctx.Deadline()
				left = time.Until(deadline)
				return rest.NoContent, ctx.Err()
			},
		}}, nil)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/entries", &late{strings.NewReader("{}"), 29 * time.Second}))
		if w.Code != http.StatusNoContent || left != 20*time.Second {
			t.Errorf("status %d with %s left, want 204 with 20s", w.Code, left)
		}
	})
}

// A revocableKey authenticates every request until it is revoked.
type revocableKey struct {
	anyone
	revoked atomic.Bool
	checks  int
}

func (k *revocableKey) Authenticate(ctx context.Context, client netip.Addr, key string) (auth.Principal, error) {
	k.checks++
	if k.revoked.Load() {
		return auth.Principal{}, auth.Unauthenticated()
	}
	return k.anyone.Authenticate(ctx, client, key)
}

func TestRequestIsRefusedIfItsKeyIsRevokedBeforeItsBodyHasArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := &revocableKey{anyone: anyone{atrium.ScopeLogsWrite}}
		handled := 0
		service := &rest.API{Keys: keys, Log: slog.New(slog.DiscardHandler)}
		handler := service.Handler([]rest.Route{{
			Method: http.MethodPost, Pattern: "/entries", Scope: atrium.ScopeLogsWrite,
			Handle: func(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
				handled++
				return rest.NoContent, nil
			},
		}}, nil)
		post := func(body io.Reader) int {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/entries", body))
			return w.Code
		}
		if status := post(strings.NewReader("{}")); status != http.StatusNoContent || keys.checks != 1 {
			t.Errorf("a body that has arrived: status %d, the key was checked %d times, want 204 and once", status, keys.checks)
		}
		if status := post(&late{strings.NewReader("{}"), 26 * time.Second}); status != http.StatusNoContent {
			t.Errorf("a slow body with a valid key: status %d", status)
		}
		time.AfterFunc(13*time.Second, func() { keys.revoked.Store(true) })
		if status := post(&late{strings.NewReader("{}"), 26 * time.Second}); status != http.StatusUnauthorized || handled != 2 {
			t.Errorf("a slow body with a revoked key: status %d, %d requests were handled, want 401 and 2", status, handled)
		}
	})
}
