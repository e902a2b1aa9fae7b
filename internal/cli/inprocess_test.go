package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// roundTrip sends a request to a handler in this process.
func roundTrip(ctx context.Context, t *testing.T, handler http.HandlerFunc, body io.Reader) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://database.invalid/manage/v0/brands?limit=1", body)
	if err != nil {
		t.Fatal(err)
	}
	return (&inProcess{handler: handler}).RoundTrip(r)
}

func TestResponseIsStreamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := make(chan struct{})
		response, err := roundTrip(t.Context(), t, func(w http.ResponseWriter, r *http.Request) {
			if r.RequestURI != "/manage/v0/brands?limit=1" {
				t.Errorf("the handler sees %q", r.RequestURI)
			}
			w.Header().Set("ETag", `"a"`)
			w.WriteHeader(http.StatusAccepted)
			w.Header().Set("ETag", "too late")
			_, _ = io.WriteString(w, "one")
			<-first
			_, _ = io.WriteString(w, "two")
		}, nil)
		if err != nil || response.StatusCode != http.StatusAccepted || response.Header.Get("ETag") != `"a"` {
			t.Fatalf("%v, %v", response, err)
		}
		b := make([]byte, 3)
		if _, err := io.ReadFull(response.Body, b); err != nil || string(b) != "one" {
			t.Fatalf("%q, %v", b, err)
		}
		close(first)
		if rest, err := io.ReadAll(response.Body); err != nil || string(rest) != "two" {
			t.Fatalf("%q, %v", rest, err)
		}
	})
}

func TestRequestIsStreamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		response, err := roundTrip(t.Context(), t, func(w http.ResponseWriter, r *http.Request) {
			if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusOK)
			_, _ = io.Copy(w, r.Body)
		}, in)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 3)
		for _, text := range []string{"one", "two"} {
			if _, err := io.WriteString(out, text); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(response.Body, b); err != nil || string(b) != text {
				t.Fatalf("%q, %v", b, err)
			}
		}
		_ = out.Close()
		if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
			t.Fatalf("%q, %v", rest, err)
		}
	})
}

func TestAbortedResponseIsAnError(t *testing.T) {
	abort := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	if response, err := roundTrip(t.Context(), t, abort, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v, %v", response, err)
	}
	response, err := roundTrip(t.Context(), t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "half")
		abort(w, r)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(response.Body); string(b) != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v", b, err)
	}
}

func TestClosingTheBodyCancelsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error)
		endless := func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			<-r.Context().Done()
			_, err := io.WriteString(w, "never read")
			ended <- err
		}
		response, err := roundTrip(t.Context(), t, endless, nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if err := <-ended; err == nil {
			t.Error("a write to a closed body succeeded")
		}

		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		silent := func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body) // blocks until the request is canceled
			ended <- err
		}
		in, out := io.Pipe()
		if response, err := roundTrip(ctx, t, silent, in); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, %v", response, err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the body ended with %v", err)
		}
		_ = out.Close()
	})
}

func TestContentLengthOfHandlerIsKept(t *testing.T) {
	response, err := roundTrip(t.Context(), t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "3")
		_, _ = io.WriteString(w, "one")
	}, strings.NewReader("{}"))
	if err != nil || response.ContentLength != 3 || response.Status != "200 OK" {
		t.Fatalf("%v, %v", response, err)
	}
	if b, err := io.ReadAll(response.Body); err != nil || string(b) != "one" {
		t.Errorf("%q, %v", b, err)
	}
}
