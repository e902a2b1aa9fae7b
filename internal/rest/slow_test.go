package rest_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
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
