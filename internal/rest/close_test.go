package rest_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
)

// An HTTP/1.1 connection with an unread body cannot be reused. An HTTP/2 connection has other
// requests in flight.
func TestRefusedBodyClosesOnlyAnHTTP1Connection(t *testing.T) {
	service := &rest.API{Keys: anyone{atrium.ScopeLogsWrite}, Log: slog.New(slog.DiscardHandler), MaxBody: 4, MaxStream: 1 << 20}
	handle := func(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
		return rest.Response{}, atrium.NotFound()
	}
	handler := service.Handler([]rest.Route{
		{Method: http.MethodPost, Pattern: "/whole", Scope: atrium.ScopeLogsWrite, Handle: handle},
		{Method: http.MethodPost, Pattern: "/stream", Scope: atrium.ScopeLogsWrite, Consumes: rest.Lines, Handle: handle},
	}, nil)
	known := func() io.Reader { return strings.NewReader(strings.Repeat("x", 1<<10)) }
	unknown := func() io.Reader { return io.MultiReader(known()) }
	for _, c := range []struct {
		name, path, contentType string
		body                    func() io.Reader
		status                  int
	}{
		{"too large, by its length", "/whole", "application/json", known, http.StatusRequestEntityTooLarge},
		{"too large, in chunks", "/whole", "application/json", unknown, http.StatusRequestEntityTooLarge},
		{"a stream that is not read", "/stream", rest.Lines.String(), known, http.StatusNotFound},
	} {
		for major, reused := range map[int]bool{1: false, 2: true} {
			server := httptest.NewUnstartedServer(handler)
			server.EnableHTTP2 = major == 2
			server.StartTLS()
			client := server.Client()
			var again bool
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { again = i.Reused }})
			for range 2 {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+c.path, c.body())
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", c.contentType)
				w, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, w.Body)
				_ = w.Body.Close()
				if w.ProtoMajor != major || w.StatusCode != c.status {
					t.Errorf("%s: HTTP/%d, status %d", c.name, w.ProtoMajor, w.StatusCode)
				}
			}
			if again != reused {
				t.Errorf("%s: HTTP/%d connection reused: %t, want %t", c.name, major, again, reused)
			}
			server.Close()
		}
	}
}
