package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
)

// A workload is what the requests are about: a tenant with accounts of three
// prospects each, 1,000 pages, and an audience of 1,000 versions.
type workload struct {
	addr     string
	key      string
	accounts int
	payload  string
	run      uint64 // makes the idempotency keys of this run its own
}

const (
	pages    = 1000
	versions = 1000
)

func prepare(ctx context.Context, o options, s *process) (*workload, error) {
	var tenant struct{ TenantID string }
	if err := s.atrium(ctx, &tenant, nil, "tenants", "create", "--name", "Bench"); err != nil {
		return nil, err
	}
	var key struct{ Key string }
	if err := s.atrium(ctx, &key, nil, "keys", "create", "--tenant", tenant.TenantID, "--name", "bench"); err != nil {
		return nil, err
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for i := range o.accounts {
		_ = enc.Encode(map[string]any{"kind": "account", "accountId": id("account", i), "domain": domain(i), "name": fmt.Sprintf("Example %d", i)})
	}
	for i := range 3 * o.accounts {
		_ = enc.Encode(map[string]any{
			"kind": "prospect", "prospectId": id("prospect", i), "name": fmt.Sprintf("Person %d", i), "email": fmt.Sprintf("person%d@%s", i, domain(i/3)),
			"domain": domain(i / 3), "slug": fmt.Sprintf("person-%d", i), "phoneNumber": "+15555550100",
			"linkedinProfileUrl": fmt.Sprintf("https://linkedin.example/in/person-%d", i), "accountIds": []string{id("account", i/3)},
		})
	}
	action := map[string]any{"actionId": "action_1", "actionIndex": 0, "purpose": "primary", "buttonTitle": "Book a call", "actionType": "link", "url": "https://example.com/call"}
	footer := map[string]any{"id": "company", "title": "Company", "links": []any{map[string]any{"id": "about", "text": "About us", "url": "https://example.com/about"}}}
	for i := range pages {
		_ = enc.Encode(map[string]any{
			"kind": "page", "pageId": id("page", i), "brandId": "brand_1", "name": fmt.Sprintf("Page %d", i), "pageContext": strings.Repeat("context ", 20),
			"title": "A page", "status": []string{"published", "draft", "archived"}[i%3], "actions": []any{action, action}, "scripts": []any{},
			"footerLinks": []any{footer}, "metadata": map[string]any{"campaign": "spring"},
			"createdAt": fmt.Sprintf("2026-01-01T%02d:%02d:%02d.000Z", i/3600, i/60%60, i%60),
		})
	}
	_ = enc.Encode(map[string]any{"kind": "audience", "audienceId": id("audience", 0), "pageId": id("page", 0), "name": "All"})
	for i := range versions {
		_ = enc.Encode(map[string]any{"kind": "audienceVersion", "id": id("version", i), "audienceId": id("audience", 0), "content": map[string]any{"n": i}})
	}
	var report struct{ Added int }
	if err := s.atrium(ctx, &report, &lines, "import", "--tenant", tenant.TenantID, "-"); err != nil {
		return nil, err
	}
	payload, _ := json.Marshal(map[string]any{"event": "page.viewed", "text": strings.Repeat("x", max(o.payload-36, 0))})
	return &workload{s.addr, key.Key, o.accounts, string(payload), rand.Uint64()}, nil
}

func id(prefix string, n int) string { return fmt.Sprintf("%s_%026d", prefix, n) }

func domain(n int) string { return fmt.Sprintf("company-%d.example", n) }

// kinds are the six operations, and a second form of the writing one.
func (w *workload) kinds() []kind {
	account := func() int { return rand.IntN(w.accounts) }
	entry := func(key string) []byte {
		return head("POST", w.addr, "/v0/account_logs", w.key, fmt.Appendf(nil,
			`{"source":"bench","type":"page.viewed","domain":%q,"idempotencyKey":%q,"payload":%s}`, domain(account()), key, w.payload))
	}
	page := get(w.addr, "/v0/pages/"+id("page", 0), w.key)
	list := get(w.addr, "/v0/pages", w.key)
	history := get(w.addr, "/v0/pages/"+id("page", 0)+"/audiences/"+id("audience", 0)+"/versions", w.key)
	return []kind{
		{"GET account", http.StatusOK, func(int) []byte { return get(w.addr, "/v0/accounts/"+id("account", account()), w.key) }},
		{"POST entry", http.StatusCreated, func(n int) []byte { return entry(fmt.Sprintf("%x-%012d", w.run, n)) }},
		{"POST entry, random keys", http.StatusCreated, func(int) []byte { return entry(fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())) }},
		{"PATCH account", http.StatusOK, func(n int) []byte {
			return head("PATCH", w.addr, "/v0/accounts/"+id("account", account()), w.key, fmt.Appendf(nil, `{"name":"Renamed %d"}`, n))
		}},
		{"GET 20 pages", http.StatusOK, func(int) []byte { return list }},
		{"GET page", http.StatusOK, func(int) []byte { return page }},
		{"GET 20 versions", http.StatusOK, func(int) []byte { return history }},
	}
}
