//go:build release

package release

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"atrium/test/nodes"
)

// A site is a tenant that the previous release has filled over its APIs.
type site struct {
	tenant, external, manage string // the tenant, and keys for each API
	reads                    []read // what must stay the same
	requests                 []request
	created                  int    // number of requests with an idempotency key
	cursor                   string // the path of the second page of a list
	move                     string // the path that undoes a move
	revoked                  string // a key that does not work
}

// A read is a path of an API.
type read struct {
	key, path string
	exact     bool // the response must stay the same byte for byte; otherwise fields may be added
}

// A request created something, and can be repeated with its idempotency key.
type request struct {
	key, path, body, idempotencyKey string
	response                        string
}

// A server is a node that a client calls.
type server struct {
	t    *testing.T
	node *nodes.Node
}

// call sends a request and returns the response.
func (s server) call(method, path, key, body string, header ...string) (status int, head http.Header, response string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.node.Addr+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	res, err := nodes.Client(s.t).Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(b)
}

// must is call for a request that must succeed. It returns the JSON object of the response.
func (s server) must(method, path, key, body string, header ...string) (object map[string]any) {
	s.t.Helper()
	status, _, response := s.call(method, path, key, body, header...)
	if status < 200 || status > 299 {
		s.t.Fatalf("%s %s %s: %d %s", method, path, body, status, response)
	}
	if response != "" {
		if err := json.Unmarshal([]byte(response), &object); err != nil {
			s.t.Fatalf("%s %s: %v: %s", method, path, err, response)
		}
	}
	return object
}

// create sends a request that creates something, with an idempotency key, and returns the member of the
// response with the given name.
func (f *site) create(s server, key, path, body, member string) string {
	s.t.Helper()
	f.created++
	r := request{key: key, path: path, body: body, idempotencyKey: fmt.Sprintf("request-%d", f.created)}
	var status int
	status, _, r.response = s.call("POST", path, key, body, "Idempotency-Key: "+r.idempotencyKey)
	var object map[string]any
	if err := json.Unmarshal([]byte(r.response), &object); err != nil || status < 200 || status > 299 {
		s.t.Fatalf("POST %s %s: %d %s", path, body, status, r.response)
	}
	f.requests = append(f.requests, r)
	value, _ := object[member].(string)
	if value == "" {
		s.t.Fatalf("POST %s has no %s: %s", path, member, r.response)
	}
	return value
}

// command runs a command of a release, which must succeed.
func command(t *testing.T, atrium nodes.Binary, args ...string) string {
	t.Helper()
	out, stderr, code := atrium.Command(t, args...)
	if code != 0 {
		t.Fatalf("atrium %q: exit code %d: %s", args, code, stderr)
	}
	return out
}

// newSite fills the database of a node of the previous release.
func newSite(t *testing.T, s server, atrium nodes.Binary, database string) *site {
	t.Helper()
	f := &site{}
	makeKey := func(name string, flags ...string) (key, id string) {
		var made struct{ Key, KeyID string }
		out := command(t, atrium, append([]string{"keys", "create", "--database", database, "--tenant", f.tenant, "--name", name, "-o", "json"}, flags...)...)
		if err := json.Unmarshal([]byte(out), &made); err != nil {
			t.Fatal(err)
		}
		return made.Key, made.KeyID
	}
	var tenant struct{ TenantID string }
	if err := json.Unmarshal([]byte(command(t, atrium, "tenants", "create", "--database", database, "--name", "First", "-o", "json")), &tenant); err != nil {
		t.Fatal(err)
	}
	f.tenant = tenant.TenantID
	f.external, _ = makeKey("external")
	f.manage, _ = makeKey("manage", "--scope", "manage")

	account := f.create(s, f.external, "/v0/account_logs", `{"source":"crm","type":"deal.won","domain":"acme.example","payload":{"n":1.50,"deep":{"a":[1,2,{"b":null}]}}}`, "accountId")
	entry := f.create(s, f.external, "/v0/account_logs", `{"source":"fair","name":"Acme Ltd","payload":{"booth":12}}`, "accountLogId")
	f.create(s, f.external, "/v0/account_logs", `{"source":"ads","accountId":"`+account+`","payload":{}}`, "accountLogId")
	f.create(s, f.external, "/v0/account_logs", `{"source":"crm","domain":"`+strings.Repeat("long-", 250)+`.example","payload":{"text":"`+strings.Repeat("é", 20_000)+`"}}`, "accountId")
	for n := range 30 {
		f.create(s, f.external, "/v0/account_logs", fmt.Sprintf(`{"source":"app","domain":"busy.example","payload":{"n":%d}}`, n), "accountLogId")
	}
	s.must("PATCH", "/v0/accounts/"+account, f.external, `{"name":"Acme"}`)

	const manage = "/manage/v0"
	second := f.create(s, f.manage, manage+"/accounts", `{"domain":"second.example","name":"Second"}`, "accountId")
	third := f.create(s, f.manage, manage+"/accounts", `{"domain":"third.example","name":"Third"}`, "accountId")
	erased := f.create(s, f.external, "/v0/account_logs", `{"source":"crm","domain":"erased.example","payload":{}}`, "accountId")
	f.requests = slices.DeleteFunc(f.requests, func(r request) bool { // their results are merged or erased
		return strings.Contains(r.body, "second.example") || strings.Contains(r.body, "third.example") || strings.Contains(r.body, "erased.example")
	})
	f.create(s, f.manage, manage+"/accounts", `{"domain":"fourth.example","name":"Fourth"}`, "accountId")
	prospect := f.create(s, f.manage, manage+"/prospects", `{"name":"Jane Roe","email":"jane@acme.example","phoneNumber":"202-555-0123"}`, "prospectId")
	s.must("PUT", manage+"/accounts/"+account+"/prospects/"+prospect, f.manage, "")
	f.create(s, f.manage, manage+"/account_logs/"+entry+"/move", `{"accountId":"`+account+`"}`, "moveId")
	f.create(s, f.external, "/v0/account_logs", `{"source":"fair","name":"Busy Inc","payload":{"booth":13}}`, "accountLogId")
	moved := s.must("POST", manage+"/moves", f.manage, `{"to":"`+second+`","rule":{"claimedName":"Busy Inc"}}`)
	move, _ := moved["move"].(map[string]any)
	f.move = fmt.Sprint(manage, "/moves/", move["moveId"], "/undo")
	s.must("POST", manage+"/accounts/"+third+"/merge", f.manage, `{"into":"`+second+`"}`)
	s.must("DELETE", manage+"/accounts/"+erased, f.manage, "")

	brand := f.create(s, f.manage, manage+"/brands", `{"name":"Acme Tools"}`, "brandId")
	page := f.create(s, f.manage, manage+"/pages", `{"brandId":"`+brand+`","name":"fair","title":"Meet us","metadata":{"n":49.90},
		"actions":[{"actionId":"call","actionIndex":0,"purpose":"primary","buttonTitle":"Call","actionType":"link","url":"https://acme.example/call"}]}`, "pageId")
	draft := f.create(s, f.manage, manage+"/pages", `{"brandId":"`+brand+`","name":"draft","title":"Later"}`, "pageId")
	audience := f.create(s, f.manage, manage+"/pages/"+page+"/audiences", `{"name":"Visitors"}`, "audienceId")
	versions := manage + "/pages/" + page + "/audiences/" + audience + "/versions"
	f.create(s, f.manage, versions, `{"content":{"headline":"One","price":49.90},"note":"first"}`, "id")
	f.create(s, f.manage, versions, `{"content":{"headline":"Two","price":49.90}}`, "id")
	s.must("POST", versions+"/1/publish", f.manage, "")
	s.must("POST", manage+"/pages/"+page+"/publish", f.manage, "")
	s.must("PUT", manage+"/pages/"+draft+"/schedule", f.manage, `{"publishAt":"2090-10-31T23:00:00Z"}`)

	var revoked string
	f.revoked, revoked = makeKey("revoked")
	s.must("POST", manage+"/keys/"+revoked+"/revoke", f.manage, "")

	for _, path := range []string{
		"/v0/accounts/" + account, "/v0/accounts/" + second, "/v0/accounts/" + third,
		"/v0/pages?limit=1", "/v0/pages?status=published", "/v0/pages/" + page,
		"/v0/pages/" + page + "/audiences/" + audience + "/versions",
	} {
		f.reads = append(f.reads, read{f.external, path, true})
	}
	for _, path := range []string{
		"/accounts", "/accounts?order=activity", "/accounts?q=acme", "/accounts/" + account, "/accounts/" + second, "/accounts/" + account + "/activity",
		"/accounts/" + account + "/activity/counts", "/account_logs/" + entry, "/account_logs/" + entry + "/payload",
		"/moves", "/prospects", "/prospects/" + prospect, "/brands", "/brands/" + brand, "/pages", "/pages/" + page, "/pages/" + draft,
		"/pages/" + page + "/audiences", "/pages/" + page + "/audiences/" + audience, versions[len(manage):], versions[len(manage):] + "/1",
		versions[len(manage):] + "/1/diff?to=2", "/keys", "/keys/" + revoked, "/tenant", "/audit?limit=100", "/audit/head",
	} {
		f.reads = append(f.reads, read{f.manage, manage + path, false})
	}
	busy := s.must("GET", manage+"/accounts?q=busy", f.manage, "")
	items, _ := busy["items"].([]any)
	if len(items) != 1 {
		t.Fatalf("the accounts are %v", busy)
	}
	item, _ := items[0].(map[string]any)
	list := fmt.Sprint(manage, "/accounts/", item["accountId"], "/activity?limit=10")
	first := s.must("GET", list, f.manage, "")
	next, _ := first["nextCursor"].(string)
	if next == "" {
		t.Fatalf("a list of 30 entries has no second page: %v", first)
	}
	f.cursor = list + "&cursor=" + url.QueryEscape(next)
	f.reads = append(f.reads, read{f.manage, f.cursor, false})
	return f
}

// snapshot returns the responses to all reads.
func (f *site) snapshot(s server) (all []string) {
	s.t.Helper()
	for _, r := range f.reads {
		status, _, response := s.call("GET", r.path, r.key, "")
		if status != http.StatusOK {
			s.t.Errorf("GET %s: %d %s", r.path, status, response)
		}
		all = append(all, response)
	}
	return all
}

// wantSame checks that all reads give what they gave before. exactly refuses new fields, too.
func (f *site) wantSame(s server, before []string, exactly bool) {
	s.t.Helper()
	for i, now := range f.snapshot(s) {
		r := f.reads[i]
		if now == before[i] || strings.HasSuffix(r.path, "/keys") && exactly {
			continue
		}
		if r.exact || exactly {
			s.t.Errorf("GET %s: %s\nbefore: %s", r.path, now, before[i])
		} else if lost := missingText(s.t, before[i], now); lost != "" {
			s.t.Errorf("GET %s: %s\nnow:    %s\nbefore: %s", r.path, lost, now, before[i])
		}
	}
}

// missingText is missing for the texts of JSON values.
func missingText(t *testing.T, want, got string) string {
	t.Helper()
	var was, is any
	if err := json.Unmarshal([]byte(want), &was); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(got), &is); err != nil {
		t.Fatal(err)
	}
	return missing(was, is)
}

// missing returns the first part of a JSON value that another one does not have, or "". Objects may have
// further members. The words of a detail may change, and the last use of a key does all the time.
func missing(want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		object, _ := got.(map[string]any)
		for name, value := range want {
			if name == "lastUsedAt" || name == "detail" {
				continue
			}
			other, ok := object[name]
			if !ok {
				return "." + name + " is missing"
			}
			if m := missing(value, other); m != "" {
				return "." + name + m
			}
		}
		return ""
	case []any:
		list, _ := got.([]any)
		if len(list) != len(want) {
			return fmt.Sprintf(" has %d elements, not %d", len(list), len(want))
		}
		for i := range want {
			if m := missing(want[i], list[i]); m != "" {
				return fmt.Sprintf("[%d]%s", i, m)
			}
		}
		return ""
	}
	if want != got {
		return fmt.Sprintf(" is %v, not %v", got, want)
	}
	return ""
}

// wantReplays checks that every request of the previous release is recognized when it is repeated.
func (f *site) wantReplays(s server) {
	s.t.Helper()
	for _, r := range f.requests {
		status, head, response := s.call("POST", r.path, r.key, r.body, "Idempotency-Key: "+r.idempotencyKey)
		if status < 200 || status > 299 || head.Get("Idempotency-Replayed") != "true" {
			s.t.Errorf("POST %s again: %d %v %s", r.path, status, head, response)
		}
		exact := r.key == f.external
		if response != r.response && (exact || missingText(s.t, r.response, response) != "") {
			s.t.Errorf("POST %s again: %s\nbefore: %s", r.path, response, r.response)
		}
	}
	r := f.requests[0]
	if status, _, response := s.call("POST", r.path, r.key, `{"source":"other","domain":"acme.example","payload":{}}`, "Idempotency-Key: "+r.idempotencyKey); status != http.StatusUnprocessableEntity {
		s.t.Errorf("another request with a used key: %d %s", status, response)
	}
}
