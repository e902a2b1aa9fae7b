// Package workload has the test data of the benchmarks and the requests for it.
package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"

	"atrium/bench/load"
	"atrium/bench/server"
)

// Numbers of records that do not depend on the Size.
const (
	Pages     = 1000
	Versions  = 1000 // of one audience
	Prospects = 3    // per account
)

// A Size says how many records there are.
type Size struct {
	Accounts int
	Payload  int // size of the payload of a posted entry, in bytes
}

// A Workload is a tenant with its data and a key.
type Workload struct {
	Tenant   string
	Key      string
	Accounts int
	Payload  string // of each entry, JSON
	addr     string
	cookie   string // header of a session of the console
	run      uint64 // makes the idempotency keys of this run unique
}

// Prepare creates the tenant and its data in the database of a node, which receives the
// requests.
func Prepare(ctx context.Context, a *server.Atrium, size Size) (*Workload, error) {
	var tenant struct{ TenantID string }
	if err := a.Command(ctx, &tenant, nil, "tenants", "create", "--name", "Bench"); err != nil {
		return nil, err
	}
	var key struct{ Key string }
	if err := a.Command(ctx, &key, nil, "keys", "create", "--tenant", tenant.TenantID, "--name", "bench"); err != nil {
		return nil, err
	}
	lines, to := io.Pipe()
	go func() { _ = to.CloseWithError(Write(to, size.Accounts)) }()
	var report struct{ Added int }
	if err := a.Command(ctx, &report, lines, "import", "--tenant", tenant.TenantID, "-"); err != nil {
		return nil, err
	}
	cookie, _, err := SignIn(ctx, a, tenant.TenantID, "viewer")
	if err != nil {
		return nil, err
	}
	return &Workload{Tenant: tenant.TenantID, Key: key.Key, cookie: cookie, Accounts: size.Accounts, Payload: Payload(size.Payload), addr: a.Addr(), run: rand.Uint64()}, nil
}

// At returns the same workload with another node as its target.
func (w Workload) At(a *server.Atrium) *Workload {
	w.addr = a.Addr()
	return &w
}

// Payload returns the payload of an entry with the given size, at least 33 bytes.
func Payload(bytes int) string {
	payload, _ := json.Marshal(map[string]any{"event": "page.viewed", "text": strings.Repeat("x", max(bytes-len(`{"event":"page.viewed","text":""}`), 0))}) // all values can be encoded
	return string(payload)
}

// Account returns the nth account, in the format of an import.
func Account(n int) map[string]any {
	return map[string]any{"kind": "account", "accountId": ID("account", n), "domain": Domain(n), "name": fmt.Sprintf("Example %d", n)}
}

// Prospect returns the nth prospect, which belongs to account n / Prospects.
func Prospect(n int) map[string]any {
	account := n / Prospects
	return map[string]any{
		"kind": "prospect", "prospectId": ID("prospect", n), "name": fmt.Sprintf("Person %d", n), "email": fmt.Sprintf("person%d@%s", n, Domain(account)),
		"domain": Domain(account), "slug": fmt.Sprintf("person-%d", n), "phoneNumber": "+15555550100",
		"linkedinProfileUrl": fmt.Sprintf("https://linkedin.example/in/person-%d", n), "accountIds": []string{ID("account", account)},
	}
}

// Page returns the nth page. Only the first has an audience, and is public.
func Page(n int) map[string]any {
	action := map[string]any{"actionId": "action_1", "actionIndex": 0, "purpose": "primary", "buttonTitle": "Book a call", "actionType": "link", "url": "https://example.com/call"}
	footer := map[string]any{"id": "company", "title": "Company", "links": []any{map[string]any{"id": "about", "text": "About us", "url": "https://example.com/about"}}}
	return map[string]any{
		"kind": "page", "pageId": ID("page", n), "brandId": "brand_1", "name": fmt.Sprintf("Page %d", n), "pageContext": strings.Repeat("context ", 20),
		"title": "A page", "status": []string{"published", "draft", "archived"}[n%3], "actions": []any{action, action}, "scripts": []any{},
		"footerLinks": []any{footer}, "metadata": map[string]any{"campaign": "spring"}, "public": n == 0,
		"createdAt": fmt.Sprintf("2026-01-01T%02d:%02d:%02d.000Z", n/3600, n/60%60, n%60),
	}
}

// Version returns the nth version of the audience. The first is published.
func Version(n int) map[string]any {
	return map[string]any{"kind": "audienceVersion", "id": ID("version", n), "audienceId": ID("audience", 0), "content": map[string]any{"n": n}, "published": n == 0}
}

// Write writes all records, in the format of an import.
func Write(to io.Writer, accounts int) error {
	lines := json.NewEncoder(to)
	for _, records := range []struct {
		count  int
		record func(int) map[string]any
	}{
		{accounts, Account}, {Prospects * accounts, Prospect}, {Pages, Page},
		{1, func(int) map[string]any {
			return map[string]any{"kind": "audience", "audienceId": ID("audience", 0), "pageId": ID("page", 0), "name": "All"}
		}},
		{Versions, Version},
	} {
		for n := range records.count {
			if err := lines.Encode(records.record(n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ID returns the nth identifier of a kind.
func ID(prefix string, n int) string { return fmt.Sprintf("%s_%026d", prefix, n) }

// Domain returns the domain of the nth account.
func Domain(n int) string { return fmt.Sprintf("company-%d.example", n) }

// The names of the kinds, which are also those of the rows.
const (
	GetAccount  = "GET account"
	PostEntry   = "POST entry"
	PostRandom  = "POST entry, random keys"
	PatchName   = "PATCH account"
	ListPages   = "GET 20 pages"
	GetPage     = "GET page"
	GetVersions = "GET 20 versions"
	GetContent  = "GET content"
)

// Kinds are the six operations of the external API, a second form of the write operation, the content of
// a public page without a key, and pages of the console. Accounts are chosen at random.
func (w *Workload) Kinds() []load.Kind {
	auth := "x-api-key: " + w.Key
	account := func() int { return rand.IntN(w.Accounts) }
	entry := func(key string) []byte {
		return load.Send("POST", w.addr, "/v0/account_logs", fmt.Appendf(nil,
			`{"source":"bench","type":"page.viewed","domain":%q,"idempotencyKey":%q,"payload":%s}`, Domain(account()), key, w.Payload), auth)
	}
	page := load.Get(w.addr, "/v0/pages/"+ID("page", 0), auth)
	list := load.Get(w.addr, "/v0/pages", auth)
	history := load.Get(w.addr, "/v0/pages/"+ID("page", 0)+"/audiences/"+ID("audience", 0)+"/versions", auth)
	content := load.Get(w.addr, "/content/v0/"+w.Tenant+"/pages/"+ID("page", 0))
	return append([]load.Kind{
		{Name: GetAccount, Status: http.StatusOK, Request: func(int) []byte { return load.Get(w.addr, "/v0/accounts/"+ID("account", account()), auth) }},
		{Name: PostEntry, Status: http.StatusCreated, Request: func(n int) []byte { return entry(fmt.Sprintf("%x-%012d", w.run, n)) }},
		{Name: PostRandom, Status: http.StatusCreated, Request: func(int) []byte { return entry(fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())) }},
		{Name: PatchName, Status: http.StatusOK, Request: func(n int) []byte {
			return load.Send("PATCH", w.addr, "/v0/accounts/"+ID("account", account()), fmt.Appendf(nil, `{"name":"Renamed %d"}`, n), auth)
		}},
		{Name: ListPages, Status: http.StatusOK, Request: func(int) []byte { return list }},
		{Name: GetPage, Status: http.StatusOK, Request: func(int) []byte { return page }},
		{Name: GetVersions, Status: http.StatusOK, Request: func(int) []byte { return history }},
		{Name: GetContent, Status: http.StatusOK, Request: func(int) []byte { return content }},
	}, w.consoleKinds(account)...)
}

// A NamedMix is a mix that stands for a use case.
type NamedMix struct {
	Name string
	load.Mix
}

// Mixes model typical uses of the service: activity that is recorded and sometimes read, a
// website that shows pages and looks up accounts, and both.
func (w *Workload) Mixes() []NamedMix {
	named := func(name string, weights map[string]int) NamedMix {
		m := NamedMix{Name: name}
		for _, k := range w.Kinds() {
			if weights[k.Name] > 0 {
				m.Mix = append(m.Mix, load.Share{Kind: k, Weight: weights[k.Name]})
			}
		}
		return m
	}
	return []NamedMix{
		named("ingest-heavy", map[string]int{PostEntry: 90, GetAccount: 8, PatchName: 1, GetPage: 1}),
		named("read-heavy", map[string]int{PostEntry: 5, GetAccount: 50, GetPage: 30, ListPages: 10, GetVersions: 5}),
		named("mixed", map[string]int{PostEntry: 40, GetAccount: 35, GetPage: 15, ListPages: 5, GetVersions: 3, PatchName: 2}),
	}
}
