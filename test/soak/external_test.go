package soak

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"atrium"
)

// A site has the pages of a tenant that exist throughout.
type site struct {
	brand    string
	pages    []string
	audience map[string]string // by page
}

const (
	sitePages    = 9
	siteVersions = 5
)

func (s *soak) newSite(of *tenant) *site {
	c := s.newClient("site", of)
	w := &site{audience: map[string]string{}}
	w.brand = c.sure(c.making("create brand", "/brands", map[string]any{"name": of.mark + " brand"})).text("brandId")
	for n := range sitePages {
		page := c.sure(c.making("create page", "/pages", map[string]any{"brandId": w.brand, "name": fmt.Sprintf("%s page %d", of.mark, n), "title": of.mark})).text("pageId")
		audience := c.sure(c.making("create audience", "/pages/"+page+"/audiences", map[string]any{"name": of.mark + " audience"})).text("audienceId")
		for v := range siteVersions {
			c.sure(c.making("create version", "/pages/"+page+"/audiences/"+audience+"/versions", map[string]any{"content": map[string]any{"mark": of.mark, "v": v}}))
		}
		c.sure(c.managing("publish page", http.MethodPost, "/pages/"+page+"/publish", nil, http.StatusOK))
		w.pages = append(w.pages, page)
		w.audience[page] = audience
	}
	return w
}

// A poster does what upstream systems and sites do: all operations of the external API.
type poster struct {
	*client
	site     *site
	repeat   []*posting // with keys, recently acknowledged
	accounts []string   // that no other client renames
	tags     map[string]string
}

func (p *poster) step() {
	switch n := p.rng.IntN(100); {
	case n < 38:
		p.post(p.newPosting(true))
	case n < 46:
		p.post(p.newPosting(false))
	case n < 50:
		p.postTwice(p.newPosting(true))
	case n < 53:
		p.postImpatiently(p.newPosting(true))
	case n < 57 && len(p.repeat) > 0:
		p.post(p.repeat[p.rng.IntN(len(p.repeat))])
	case n < 60 && len(p.repeat) > 0:
		p.reuseKey(p.repeat[p.rng.IntN(len(p.repeat))])
	case n < 68:
		p.rename()
	case n < 80:
		if id := p.s.ledger.accountOf(p.of, p.rng.IntN); id != "" {
			p.get("GET /v0/accounts/{id}", "/v0/accounts/"+string(id), "accountId", string(id))
		}
	case n < 87:
		p.sure(p.external("GET /v0/pages", http.MethodGet, "/v0/pages?limit=5&status=published", nil, http.StatusOK))
	case n < 94:
		page := p.site.pages[p.rng.IntN(sitePages)]
		p.get("GET /v0/pages/{id}", "/v0/pages/"+page, "pageId", page)
	default:
		p.versions()
	}
}

// randomFill returns n random characters.
func randomFill(rng *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%016x", rng.Uint64())
	}
	return b.String()[:n]
}

// payloadSize returns a typical size: mostly small, sometimes the maximum.
func payloadSize(rng *rand.Rand) int {
	switch n := rng.IntN(1000); {
	case n < 650:
		return 64 + rng.IntN(448)
	case n < 930:
		return 512 + rng.IntN(3<<10)
	case n < 988:
		return 4<<10 + rng.IntN(16<<10)
	case n < 998:
		return 20<<10 + rng.IntN(180<<10)
	default:
		return 1<<20 - 2<<10
	}
}

// newPosting returns a posting to an account by domain, which may be new, by identifier,
// by name, or without any of them.
func (c *client) newPosting(keyed bool) *posting {
	p := &posting{tenant: c.of, marker: c.of.mark + "-" + c.unique(), source: "soak", kind: atrium.DefaultType}
	members := map[string]any{"source": p.source}
	switch n := c.rng.IntN(100); {
	case n < 60:
		p.domain = fmt.Sprintf("c%d.%s.example", c.rng.IntN(60), c.of.mark)
		members["domain"] = []string{p.domain, "https://www." + p.domain + "/about?x=1", strings.ToUpper(p.domain)}[c.rng.IntN(3)]
	case n < 63:
		p.domain = fmt.Sprintf("%s.%s.example", c.unique(), c.of.mark)
		members["domain"] = p.domain
	case n < 80:
		if p.account = c.s.ledger.accountOf(c.of, c.rng.IntN); p.account != "" {
			members["accountId"] = string(p.account)
		}
	case n < 90:
		members["name"] = fmt.Sprintf("%s company %d", c.of.mark, c.rng.IntN(60))
	}
	if c.rng.IntN(2) == 0 {
		p.kind = "page.viewed"
		members["type"] = p.kind
	}
	if keyed {
		p.key, p.header = "key-"+strings.TrimPrefix(p.marker, c.of.mark), c.rng.IntN(2) == 0
		if !p.header {
			members["idempotencyKey"] = p.key
		}
	}
	return c.fill(p, members, payloadSize(c.rng))
}

// fill sets the payload and the body of a posting.
func (c *client) fill(p *posting, members map[string]any, size int) *posting {
	payload := fmt.Appendf(nil, `{"marker":%q,"n":1.50,"fill":%q}`, p.marker, randomFill(c.rng, size))
	p.digest = sha256.Sum256(payload)
	members["payload"] = rawJSON(payload)
	p.body = encode(members)
	return p
}

type rawJSON []byte

func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

func (c *client) postCall(p *posting) call {
	q := c.external("POST /v0/account_logs", http.MethodPost, "/v0/account_logs", p.body, http.StatusCreated)
	if p.header {
		q = q.with("Idempotency-Key: " + p.key)
	}
	return q
}

// post sends a posting once, or with a key until it gets a final response.
func (c *client) post(p *posting) {
	began := time.Now()
	for c.postOnce(p).failed() && p.key != "" && c.again("POST /v0/account_logs", began) {
	}
}

func (c *client) postOnce(p *posting) response {
	c.s.ledger.sending(p)
	a := c.once(c.postCall(p))
	switch {
	case a.status == http.StatusCreated:
		if err := c.s.ledger.acknowledged(p, a.body, a.header.Get("Idempotency-Replayed") == "true"); err != nil {
			c.s.tally.fault(&c.s.tally.wrong, "response to %s: %v", p.marker, err)
		}
	case a.failed():
		c.s.ledger.undecided(p)
	}
	return a
}

// post posts, and keeps small postings for a while to replay them.
func (p *poster) post(q *posting) {
	p.client.post(q)
	switch {
	case slices.Contains(p.repeat, q):
	case q.key == "" || len(q.body) > 8<<10:
		q.body = nil
	default:
		if p.repeat = append(p.repeat, q); len(p.repeat) > 30 {
			p.repeat[0].body = nil
			p.repeat = p.repeat[1:]
		}
	}
}

// postTwice sends one posting in two concurrent requests.
func (p *poster) postTwice(q *posting) {
	var both sync.WaitGroup
	both.Go(func() { _ = p.postOnce(q) })
	_ = p.postOnce(q)
	both.Wait()
	p.post(q)
}

// postImpatiently cancels a slow request and retries it.
func (p *poster) postImpatiently(q *posting) {
	p.s.ledger.sending(q)
	p.s.ledger.undecided(q)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(p.rng.IntN(8_000))*time.Microsecond)
	defer cancel()
	if a, err := p.send(ctx, p.postCall(q)); err == nil && a.status == http.StatusCreated {
		if err := p.s.ledger.acknowledged(q, a.body, a.header.Get("Idempotency-Replayed") == "true"); err != nil {
			p.s.tally.fault(&p.s.tally.wrong, "response to %s: %v", q.marker, err)
		}
	}
	p.post(q)
}

// reuseKey sends a different request with the key of an acknowledged one.
func (p *poster) reuseKey(q *posting) {
	if q.receipt.EntryID == "" {
		return
	}
	p.sure(p.external("POST /v0/account_logs, key reused", http.MethodPost, "/v0/account_logs",
		map[string]any{"source": "other", "payload": map[string]any{}, "idempotencyKey": q.key}, http.StatusUnprocessableEntity))
}

// get reads a resource, every other time with If-None-Match.
func (p *poster) get(op, path, member, want string) {
	q := p.external(op, http.MethodGet, path, nil, http.StatusOK, http.StatusNotModified)
	if tag := p.tags[path]; tag != "" && p.rng.IntN(2) == 0 {
		q = q.with("If-None-Match: " + tag)
	}
	a := p.sure(q)
	if a.status != http.StatusOK {
		return
	}
	if got := a.text(member); got != want {
		p.s.tally.fault(&p.s.tally.wrong, "%s shows %s as %s", path, want, got)
	}
	if p.tags == nil || len(p.tags) > 200 {
		p.tags = map[string]string{}
	}
	p.tags[path] = a.header.Get("ETag")
}

// rename renames an account that no other client renames, and reads it back.
func (p *poster) rename() {
	if len(p.accounts) < 5 {
		domain := fmt.Sprintf("own%d.%s.%s.example", len(p.accounts), p.name, p.of.mark)
		made := p.sure(p.making("create account", "/accounts", map[string]any{"domain": domain}))
		p.accounts = append(p.accounts, made.text("accountId"))
		return
	}
	id := p.accounts[p.rng.IntN(len(p.accounts))]
	name := p.of.mark + " " + p.unique()
	q := p.external("PATCH /v0/accounts/{id}", http.MethodPatch, "/v0/accounts/"+id, map[string]any{"name": name}, http.StatusOK)
	if p.rng.IntN(4) == 0 {
		stale := q.with(`If-Match: "stale"`)
		stale.want = []int{http.StatusPreconditionFailed}
		p.sure(stale)
	}
	a := p.sure(q)
	if a.failed() {
		return
	}
	p.s.ledger.learn(p.of, "/accounts/"+id, map[string]any{"name": name})
	if a = p.sure(p.external("GET /v0/accounts/{id}", http.MethodGet, "/v0/accounts/"+id, nil, http.StatusOK)); a.text("name") != name {
		p.s.tally.fault(&p.s.tally.wrong, "%s was named %q and shows %.200s", id, name, a.body)
	}
}

// versions lists the versions of an unchanging audience, page by page.
func (p *poster) versions() {
	page := p.site.pages[p.rng.IntN(sitePages)]
	path := "/v0/pages/" + page + "/audiences/" + p.site.audience[page] + "/versions?limit=2&page="
	next := float64(siteVersions)
	for n := 1; next > 0; n++ {
		a := p.sure(p.external("GET …/versions", http.MethodGet, path+strconv.Itoa(n), nil, http.StatusOK))
		if a.failed() {
			return
		}
		items, _ := a.decode()["items"].([]any)
		for _, item := range items {
			if v, _ := item.(map[string]any); v["versionNumber"] != next {
				p.s.tally.fault(&p.s.tally.wrong, "%s%d: not version %v: %.300s", path, n, next, a.body)
				return
			}
			next--
		}
		if len(items) == 0 {
			p.s.tally.fault(&p.s.tally.wrong, "%s%d: version %v is missing", path, n, next)
			return
		}
	}
}

// A walker reads lists to their ends during changes.
type walker struct {
	*client
	site *site
}

func (w *walker) step() {
	switch n := w.rng.IntN(10); {
	case n < 6:
		w.walk("GET /v0/pages, walked", w.of.key, fmt.Sprintf("/v0/pages?limit=%d", 1+w.rng.IntN(7)), "pageId", w.site.pages)
	case n < 9:
		w.walk("manage: list pages, walked", w.of.manage, fmt.Sprintf("/manage/v0/pages?limit=%d", 2+w.rng.IntN(20)), "pageId", w.site.pages)
	default:
		w.walk("manage: list accounts, walked", w.of.manage, "/manage/v0/accounts?limit=100", "accountId", w.s.ledger.stable(w.of))
	}
}

// walk reads a list to its end. It must have each item that exists throughout exactly
// once.
func (w *walker) walk(op, key, path, member string, throughout []string) {
	seen := map[string]int{}
	for cursor := ""; ; {
		a := w.sure(call{op: op, method: http.MethodGet, path: path + cursor, key: key, want: []int{http.StatusOK}})
		if a.status != http.StatusOK {
			return
		}
		list := a.decode()
		items, _ := list["items"].([]any)
		for _, item := range items {
			m, _ := item.(map[string]any)
			id, _ := m[member].(string)
			if seen[id]++; seen[id] == 2 {
				w.s.tally.fault(&w.s.tally.wrong, "%s met %s twice", op, id)
			}
		}
		next, more := list["nextCursor"].(string)
		if more != (list["hasMore"] == true) {
			w.s.tally.fault(&w.s.tally.wrong, "%s: hasMore is %v with a cursor %q", op, list["hasMore"], next)
		}
		if !more {
			break
		}
		cursor = "&cursor=" + next
	}
	for _, id := range throughout {
		if seen[id] == 0 {
			w.s.tally.fault(&w.s.tally.wrong, "%s did not meet %s", op, id)
		}
	}
}
