package rest_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
)

// serveStreams serves a route that consumes lines at /in, and one that produces them at /out.
// It returns a function that sends requests.
func serveStreams(t *testing.T, stopping context.Context, in rest.Handler, out func(io.Writer) error) func(method, path string, body io.Reader, header ...string) (*http.Response, error) {
	t.Helper()
	id, text, hash := auth.NewKey()
	key := atrium.APIKey{ID: id, TenantID: atrium.NewID[atrium.TenantID](), Scopes: atrium.ExternalScopes()}
	service := &rest.API{
		Keys: auth.New(oneKey{key: key, hash: hash}, time.Now, nil, nil), Log: slog.New(slog.DiscardHandler), MaxStream: 1 << 10, Stopping: stopping,
	}
	server := httptest.NewServer(service.Handler([]rest.Route{
		{Method: http.MethodPost, Pattern: "/in", Scope: atrium.ScopePagesRead, Consumes: rest.Lines, Handle: in},
		{Method: http.MethodGet, Pattern: "/out", Scope: atrium.ScopePagesRead, Produces: rest.Lines, Handle: func(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
			return rest.Response{Stream: out}, nil
		}},
	}, nil))
	t.Cleanup(server.Close)
	return func(method, path string, body io.Reader, header ...string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", text)
		for _, line := range header {
			name, value, _ := strings.Cut(line, ": ")
			r.Header.Set(name, value)
		}
		return server.Client().Do(r)
	}
}

func TestStreamedBodyIsReadUpToItsLimit(t *testing.T) {
	send := serveStreams(t, nil, func(_ context.Context, _ auth.Principal, r *rest.Request) (rest.Response, error) {
		b, err := io.ReadAll(r.Stream)
		return rest.Response{Body: string(b)}, err
	}, nil)
	for body, want := range map[string]int{"{}\n{}\n": 200, strings.Repeat("x", 1<<10): 200, strings.Repeat("x", 1<<10+1): 413} {
		response, err := send(http.MethodPost, "/in", strings.NewReader(body), "Content-Type: application/x-ndjson")
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(response.Body)
		if response.StatusCode != want || want == 200 && len(answer) < len(body) {
			t.Errorf("%d bytes: %d %s", len(body), response.StatusCode, answer)
		}
		_ = response.Body.Close()
	}
	for header, want := range map[string]int{
		"Content-Type: application/x-ndjson; charset=utf-8": 200, "Content-Type: application/json": 415,
		"Content-Encoding: gzip": 415, "Accept: application/x-ndjson": 406,
	} {
		response, err := send(http.MethodPost, "/in", strings.NewReader("{}\n"), header)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != want {
			t.Errorf("%s: %d", header, response.StatusCode)
		}
		_ = response.Body.Close()
	}
}

func TestStreamedResponseIsWholeOrItsConnectionIsClosed(t *testing.T) {
	for name, c := range map[string]struct {
		out    func(io.Writer) error
		status int
		body   string
		whole  bool
	}{
		"lines":                       {func(w io.Writer) error { _, err := io.WriteString(w, "{}\n{}\n"); return err }, 200, "{}\n{}\n", true},
		"no lines":                    {func(io.Writer) error { return nil }, 200, "", true},
		"error before the first line": {func(io.Writer) error { return atrium.Unavailable(errors.New("sesame")) }, 503, "", true},
		"bug before the first line":   {func(io.Writer) error { return errors.New("sesame") }, 500, "", true},
		"error later": {func(w io.Writer) error {
			_, _ = io.WriteString(w, strings.Repeat("{}\n", 10_000))
			return errors.New("sesame")
		}, 200, "{}\n", false},
	} {
		send := serveStreams(t, nil, nil, c.out)
		response, err := send(http.MethodGet, "/out", nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != c.status || (err == nil) != c.whole || c.status == 200 && !strings.HasPrefix(string(body), c.body) {
			t.Errorf("%s: %d %.40q, %v", name, response.StatusCode, body, err)
		}
		if want := map[int]string{200: "application/x-ndjson"}[c.status]; want != "" && response.Header.Get("Content-Type") != want {
			t.Errorf("%s: Content-Type %s", name, response.Header.Get("Content-Type"))
		}
		if strings.Contains(string(body), "sesame") {
			t.Errorf("%s: %s", name, body)
		}
	}
}

func TestStreamIsNotGeneratedIfNotAccepted(t *testing.T) {
	send := serveStreams(t, nil, nil, func(io.Writer) error { t.Error("the response was generated"); return nil })
	for _, c := range []struct {
		method, header string
		want           int
	}{{http.MethodHead, "Accept: */*", 200}, {http.MethodGet, "Accept: application/json", 406}, {http.MethodGet, "X-Api-Key: none", 401}} {
		response, err := send(c.method, "/out", nil, c.header)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != c.want {
			t.Errorf("%s with %s: %d", c.method, c.header, response.StatusCode)
		}
		_ = response.Body.Close()
	}
}

func TestStreamsEndWhenTheServerStops(t *testing.T) {
	stopping, stop := context.WithCancel(t.Context())
	begun := make(chan bool)
	send := serveStreams(t, stopping, func(ctx context.Context, _ auth.Principal, r *rest.Request) (rest.Response, error) {
		begun <- true
		_, err := io.ReadAll(r.Stream)
		if !errors.Is(err, rest.ErrStopping) || !errors.Is(context.Cause(ctx), rest.ErrStopping) {
			t.Errorf("the body ended with %v, and the context with %v", err, context.Cause(ctx))
		}
		return rest.Response{}, atrium.Unavailable(err)
	}, func(w io.Writer) error {
		_, _ = io.WriteString(w, strings.Repeat("{}\n", 10_000))
		begun <- true
		<-stopping.Done()
		for {
			if _, err := io.WriteString(w, "{}\n"); err != nil {
				return err
			}
		}
	})
	in, out := make(chan int), make(chan error)
	go func() {
		body, w := io.Pipe() // never has data
		defer func() { _ = w.Close() }()
		response, err := send(http.MethodPost, "/in", body, "Content-Type: application/x-ndjson")
		if err != nil {
			in <- 0
			return
		}
		_ = response.Body.Close()
		in <- response.StatusCode
	}()
	go func() {
		response, err := send(http.MethodGet, "/out", nil)
		if err == nil {
			_, err = io.ReadAll(response.Body)
			_ = response.Body.Close()
		}
		out <- err
	}()
	<-begun
	<-begun
	stop()
	if status := <-in; status != http.StatusServiceUnavailable {
		t.Errorf("the upload got status %d, want 503", status)
	}
	if err := <-out; err == nil {
		t.Error("the download was complete")
	}
}

// A slowClient receives bytes at a fixed rate.
type slowClient struct {
	httptest.ResponseRecorder
	rate int // bytes per second
}

func (c *slowClient) Write(b []byte) (int, error) {
	time.Sleep(time.Duration(len(b)) * time.Second / time.Duration(c.rate))
	return len(b), nil
}

func TestDownloadEndsIfItsClientIsTooSlow(t *testing.T) {
	for _, c := range []struct {
		name   string
		rate   int           // of the client, in bytes per second
		server time.Duration // time of the server per MiB
		done   bool
	}{
		{"a fast client", 2 << 20, 0, true},
		{"a slow client", 512 << 10, 0, false},
		{"a slow server", 2 << 20, 3 * time.Second, true},
		{"a very slow server", 2 << 20, 10 * time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				service := &rest.API{Keys: anyone{atrium.ScopePagesRead}, Log: slog.New(slog.DiscardHandler)}
				handler := service.Handler([]rest.Route{{
					Method: http.MethodGet, Pattern: "/out", Scope: atrium.ScopePagesRead, Produces: rest.Lines,
					Handle: func(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
						return rest.Response{Stream: func(w io.Writer) error {
							for range 200 {
								time.Sleep(c.server)
								n, err := w.Write(make([]byte, 1<<20))
								if sent += n; err != nil {
									return err
								}
							}
							return nil
						}}, nil
					},
				}}, nil)
				defer func() {
					aborted := recover() != nil
					if aborted == c.done || (sent == 200<<20) != c.done {
						t.Errorf("aborted: %v after %d MiB", aborted, sent>>20)
					}
				}()
				handler.ServeHTTP(&slowClient{*httptest.NewRecorder(), c.rate}, httptest.NewRequest(http.MethodGet, "/out", http.NoBody))
			})
		})
	}
}
