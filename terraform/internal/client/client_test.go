package client

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// answers returns a client of a server that responds with these statuses, then with 200, and the requests that it gets.
func answers(t *testing.T, statuses ...int) (*Client, *[]*http.Request) {
	t.Helper()
	requests := &[]*http.Request{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*requests = append(*requests, r)
		if n := len(*requests); n <= len(statuses) {
			w.Header().Set("Retry-After", "0")
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(statuses[n-1])
			return
		}
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(s.Close)
	c, err := New(s.URL+"/", "atr_key", "test")
	if err != nil {
		t.Fatal(err)
	}
	return c, requests
}

func TestRequestsAreRepeatedUntilTheyAreProcessed(t *testing.T) {
	c, requests := answers(t, http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusInternalServerError)
	_, err := c.Do(t.Context(), Request{Method: http.MethodPost, Path: "/keys", Tenant: "tenant_1", Body: map[string]any{"name": "x"}, IdempotencyKey: "one"})
	if err != nil || len(*requests) != 4 {
		t.Fatalf("%d requests, %v", len(*requests), err)
	}
	for _, r := range *requests {
		if r.Header.Get("Idempotency-Key") != "one" || r.Header.Get("x-api-key") != "atr_key" || r.Header.Get("Atrium-Tenant") != "tenant_1" || r.URL.Path != "/manage/v0/keys" {
			t.Errorf("the request to %s has the headers %v", r.URL.Path, r.Header)
		}
	}
}

func TestRequestsThatMayHaveHadAnEffectAreSentOnce(t *testing.T) {
	c, requests := answers(t, http.StatusTooManyRequests, http.StatusServiceUnavailable)
	_, err := c.Do(t.Context(), Request{Method: http.MethodPost, Path: "/keys/1/rotate", Once: true})
	if !HasStatus(err, http.StatusServiceUnavailable) || len(*requests) != 2 {
		t.Fatalf("%d requests, %v", len(*requests), err)
	}
}

func TestErrorsOfTheRequestAreNotRepeated(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 409, 412, 422, 428} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			c, requests := answers(t, status)
			if _, err := c.Do(t.Context(), Request{Method: http.MethodGet, Path: "/tenant"}); !HasStatus(err, status) || len(*requests) != 1 {
				t.Fatalf("%d requests, %v", len(*requests), err)
			}
		})
	}
}

func TestTheKeyIsNotSentToTheTargetOfARedirect(t *testing.T) {
	c, requests := answers(t, http.StatusTemporaryRedirect)
	_, err := c.Do(t.Context(), Request{Method: http.MethodGet, Path: "/tenant"})
	if !HasStatus(err, http.StatusTemporaryRedirect) || len(*requests) != 1 {
		t.Fatalf("%d requests, %v", len(*requests), err)
	}
	if !strings.Contains(err.Error(), "URL") {
		t.Errorf("the error does not say what to check: %v", err)
	}
}

func TestServersAreBaseURLs(t *testing.T) {
	for _, good := range []string{"https://atrium.example.com", "http://127.0.0.1:8080/", "https://example.com/atrium"} {
		if _, err := ParseServer(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "atrium.example.com", "ftp://example.com", "https://", "https://user@example.com", "https://example.com?x=1", "https://example.com#x"} {
		if _, err := ParseServer(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
