package app_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/api"
	"atrium/internal/config"
	"atrium/internal/rest"
	"atrium/internal/transfer"
)

// A problem has the members of a problem document that do not depend on the request.
type problem struct {
	Title, Detail string
	Status        int
	Code          atrium.Code
	Errors        json.RawMessage
}

// problems returns the examples of problems in an OpenAPI document.
func problems(t *testing.T, d api.Document) (all []problem) {
	t.Helper()
	type media struct {
		Example  json.RawMessage
		Examples map[string]struct{ Value json.RawMessage }
	}
	var document struct {
		Components struct {
			Responses map[string]struct{ Content map[string]media }
		}
	}
	if err := json.Unmarshal(d.JSON(), &document); err != nil {
		t.Fatal(err)
	}
	for _, response := range document.Components.Responses {
		m, ok := response.Content["application/problem+json"]
		if !ok {
			continue
		}
		examples := []json.RawMessage{}
		if m.Example != nil {
			examples = append(examples, m.Example)
		}
		for _, e := range m.Examples {
			examples = append(examples, e.Value)
		}
		for _, e := range examples {
			var p problem
			if err := json.Unmarshal(e, &p); err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
	}
	if len(all) < 15 {
		t.Fatalf("found %d examples of problems", len(all))
	}
	return all
}

func TestProblemsMatchTheExternalDocument(t *testing.T) {
	s := start(t, func(c *config.Config) { c.AnonymousRate = config.Rate{Count: 1, Window: time.Hour} })
	s.get(t, "/errors/conflict", "")
	account := s.post(t, `{"source":"a","domain":"acme.example","payload":{},"idempotencyKey":"k"}`)
	const post, logs = http.MethodPost, "/v0/account_logs"
	sent := map[string]bool{}
	for _, a := range []response{
		s.get(t, "/errors/conflict", ""),
		s.get(t, "/v0/pages", ""),
		s.send(t, http.MethodGet, "/v0/pages", s.newKey(t, atrium.Scopes{atrium.ScopeLogsWrite}), ""),
		s.get(t, "/nowhere", ""),
		s.get(t, "/v0/pages/page_00000000000000000000000000", s.key),
		s.send(t, http.MethodPut, "/v0/pages", s.key, ""),
		s.send(t, http.MethodGet, "/v0/pages", s.key, "", "Accept: text/html"),
		s.send(t, http.MethodPatch, "/v0/accounts/"+account, s.key, `{"name":"a"}`, `If-Match: "a-b"`),
		s.send(t, post, logs, s.key, strings.Repeat(" ", rest.DefaultMaxBody+1)),
		s.send(t, post, logs, s.key, "{}", "Content-Type: text/plain"),
		s.send(t, post, logs, s.key, `{"source":"b","payload":{},"idempotencyKey":"k"}`),
		s.send(t, post, logs, s.key, `{"payload":{},"name":""}`),
		s.get(t, "/v0/pages?limit=0", s.key),
		s.send(t, post, logs, s.key, `{"source":"b","payload":{},"idempotencyKey":"a"}`, "Idempotency-Key: b"),
	} {
		sent[identity(t, []byte(a.body))] = true
	}
	checkProblems(t, api.External, sent)
}

// expireEvents makes two events of the tenant, which expire.
func (s *service) expireEvents(t *testing.T) {
	t.Helper()
	if _, err := s.store.SetEventSettings(t.Context(), atrium.CommandLine(s.tenant), true, func(atrium.EventSettings) error { return nil }); err != nil {
		t.Fatal(err)
	}
	s.post(t, `{"source":"a","domain":"acme.example","payload":{}}`)
	// The server does the same in the background, which may not be committed yet.
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := s.store.SequenceEvents(t.Context(), s.tenant); err != nil {
			t.Fatal(err)
		}
		if _, err := s.store.DeleteExpiredEvents(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		_, err := s.store.Events(t.Context(), s.tenant, 0, 1)
		if expired, ok := errors.AsType[*atrium.ExpiredEventsError](err); ok && expired.Oldest == 3 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the events do not expire: %v", err)
		}
	}
}

func TestProblemsMatchTheManagementDocument(t *testing.T) {
	s := start(t, func(c *config.Config) {
		c.AnonymousRate, c.EventRetention = config.Rate{Count: 1, Window: time.Hour}, time.Nanosecond
	})
	s.expireEvents(t)
	s.get(t, "/errors/conflict", "")
	const post, brands = http.MethodPost, "/manage/v0/brands"
	key := s.newKey(t, atrium.Scopes{atrium.ScopeManage})
	var made struct{ BrandID string }
	if err := json.Unmarshal([]byte(s.send(t, post, brands, key, `{"name":"a"}`, "Idempotency-Key: k").body), &made); err != nil {
		t.Fatal(err)
	}
	one := brands + "/" + made.BrandID
	page := `{"kind":"page","brandId":"` + made.BrandID + `","name":"","pageContext":"","title":"","status":"draft","actions":[],"scripts":[],"footerLinks":[]}`
	if _, err := transfer.Import(t.Context(), s.store, s.tenant, strings.NewReader(page), transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	sent := map[string]bool{}
	for _, a := range []response{
		s.get(t, "/errors/conflict", ""),
		s.get(t, brands, ""),
		s.get(t, brands, s.key),
		s.get(t, "/manage/nowhere", ""),
		s.get(t, brands+"/brand_00000000000000000000000000", key),
		s.send(t, http.MethodPut, brands, key, ""),
		s.send(t, http.MethodGet, brands, key, "", "Accept: text/html"),
		s.send(t, http.MethodDelete, one, key, ""),
		s.send(t, http.MethodPatch, one, key, `{"name":"b"}`, `If-Match: "other"`),
		s.send(t, http.MethodPatch, one, key, `{"name":"b"}`),
		s.send(t, post, brands, key, strings.Repeat(" ", rest.DefaultMaxBody+1)),
		s.send(t, post, brands, key, "{}", "Content-Type: text/plain"),
		s.send(t, post, brands, key, `{"name":"b"}`, "Idempotency-Key: k"),
		s.send(t, post, brands, key, `{"title":""}`),
		s.send(t, post, brands, key, `{"name":"b"}`, "Idempotency-Key: "+strings.Repeat("k", 256)),
		s.get(t, brands+"?limit=0", key),
		s.get(t, "/manage/v0/events?after=0", key),
	} {
		sent[identity(t, []byte(a.body))] = true
	}
	checkProblems(t, api.Manage, sent)
}

// checkProblems compares the problems of a document with those that were sent.
func checkProblems(t *testing.T, d api.Document, sent map[string]bool) {
	t.Helper()
	limited := start(t, func(c *config.Config) {
		c.KeyRate, c.AuthFailures = config.Rate{Count: 100, Window: time.Minute}, config.Rate{Count: 2, Window: time.Hour}
	})
	for _, key := range []string{limited.key, "x"} {
		for range 1000 { // until it is limited
			a := limited.get(t, "/v0/pages", key)
			if a.status != http.StatusOK {
				sent[identity(t, []byte(a.body))] = true
			}
			if a.status == http.StatusTooManyRequests {
				break
			}
		}
	}
	// These need an internal error or a hanging storage.
	why := errors.New("a test")
	details := map[string]bool{
		atrium.Unavailable(why).Detail: true, atrium.Uncertain(why).Detail: true,
		"An internal error occurred. The operator can find it by the request id.": true,
	}
	for _, p := range problems(t, d) {
		if info := rest.Info(p.Code); p.Title != info.Title || p.Status != info.Status {
			t.Errorf("%s: the document has %d and %q, the server %d and %q", p.Code, p.Status, p.Title, info.Status, info.Title)
		}
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		rare := details[p.Detail] && p.Status >= 500
		if !rare && !sent[identity(t, b)] {
			t.Errorf("%s: no response has %q with %s", p.Code, p.Detail, p.Errors)
		}
	}
}

// identity returns a problem in a canonical form.
func identity(t *testing.T, body []byte) string {
	t.Helper()
	var p struct {
		Title, Detail string
		Status        int
		Code          atrium.Code
		Errors        []map[string]string
	}
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
