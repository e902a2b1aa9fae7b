package rest_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
	"atrium/internal/rest"
)

// A counter is a connection that counts calls of Cork and Uncork.
type counter struct {
	net.Conn
	corked, uncorked *atomic.Int64
}

type corker interface {
	Cork()
	Uncork() error
}

func (c counter) Cork() { c.corked.Add(1); c.Conn.(corker).Cork() }

func (c counter) Uncork() error { c.uncorked.Add(1); return c.Conn.(corker).Uncork() }

func TestResponsesOfAnySizeArriveWhole(t *testing.T) {
	api := &rest.API{Keys: tenants{}, Log: slog.New(slog.DiscardHandler)}
	handler := api.Handler([]rest.Route{{
		Method: http.MethodGet, Pattern: "/things/{size}", Scope: atrium.ScopePagesRead,
		Handle: func(_ context.Context, _ auth.Principal, r *rest.Request) (rest.Response, error) {
			size, err := strconv.Atoi(r.PathValue("size"))
			return rest.Response{Body: rest.Encoded(bytes.Repeat([]byte("0123456789"), size/10+1)[:size])}, err
		},
	}}, nil)
	server := httptest.NewUnstartedServer(handler)
	server.Listener = limit.NewListener(server.Listener, limit.Bounds{All: 10, Client: 10})
	var corked, uncorked atomic.Int64
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return rest.ConnContext(ctx, counter{c, &corked, &uncorked})
	}
	server.Start()
	defer server.Close()

	sizes := []int{0, 1, 2047, 2048, 2049, 3071, 3072, 3073, 20_000, 70_000, 1 << 20}
	for size := 3500; size < 4200; size += 7 { // around the buffer size of net/http
		sizes = append(sizes, size)
	}
	for size := 7800; size < 8200; size += 13 {
		sizes = append(sizes, size)
	}
	large := int64(0)
	for _, size := range sizes {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			r, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/things/"+strconv.Itoa(size), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Api-Key", "a")
			response, err := server.Client().Do(r)
			if err != nil {
				t.Fatalf("%s of %d bytes: %v", method, size, err)
			}
			body, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			want := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
			if method == http.MethodHead {
				want = nil
			}
			if err != nil || response.StatusCode != http.StatusOK || !bytes.Equal(body, want) || response.ContentLength != int64(size) {
				t.Errorf("%s of %d bytes: %d with %d bytes of %d, %v", method, size, response.StatusCode, len(body), response.ContentLength, err)
			}
			if size > 3<<10 {
				large++
			}
		}
	}
	server.Close() // waits for Uncork
	if corked.Load() != large || uncorked.Load() != large {
		t.Errorf("%d responses were corked and %d uncorked, of %d large ones", corked.Load(), uncorked.Load(), large)
	}
}
