package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"atrium"
)

// A client sends one request after the other like a sender that must lose nothing: it
// retries requests with an idempotency key that got no response.
type client struct {
	t       *testing.T
	name    string
	rng     *rand.Rand
	http    *http.Client
	ledger  *ledger
	tenants []*tenant
	bulk    int  // size of a large payload in bytes
	unread  bool // reads nothing
	patient bool // its reads may fail

	base    string       // URL of the server
	made    int          // postings
	keyed   []*posting   // acknowledged, with a key
	pending []*posting   // with a key, sent without an acknowledgement
	refused atomic.Int64 // requests
}

// newClients returns n clients with a ledger.
func newClients(t *testing.T, rng *rand.Rand, n int, tenants []*tenant) ([]*client, *ledger) {
	l := newLedger()
	clients := make([]*client, n)
	for i := range clients {
		clients[i] = &client{
			t: t, name: fmt.Sprintf("c%d", i), rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), http: newHTTPClient(t),
			ledger: l, tenants: tenants, bulk: 20_000,
		}
	}
	return clients, l
}

// load starts the clients on a server until ctx is done. wait waits for all of them.
func load(ctx context.Context, clients []*client, base string) (wait func()) {
	return each(clients, base, func(c *client) { c.work(ctx) })
}

// each calls do for every client concurrently. wait waits for all of them.
func each(clients []*client, base string, do func(*client)) (wait func()) {
	var wg sync.WaitGroup
	for _, c := range clients {
		c.base = base
		wg.Go(func() { do(c) })
	}
	return wg.Wait
}

// settle retries everything that got no response.
func settle(clients []*client, base string) {
	for _, c := range clients {
		c.base = base
		c.retry()
	}
}

// work sends requests until ctx is done or one gets no response.
func (c *client) work(ctx context.Context) {
	c.http.CloseIdleConnections()
	for answered := c.retry(); answered && ctx.Err() == nil; {
		answered = c.step()
	}
}

// persist sends requests until ctx is done, whatever the responses. After a 503 it waits
// briefly, and retries requests with a key until they are acknowledged.
func (c *client) persist(ctx context.Context) {
	for ctx.Err() == nil {
		refused := c.refused.Load()
		if len(c.pending) > 0 {
			c.retry()
		} else {
			c.step()
		}
		if c.refused.Load() > refused {
			time.Sleep(20*time.Millisecond + rand.N(40*time.Millisecond))
		}
	}
}

// retry retries the pending postings, and reports whether the server responded.
func (c *client) retry() bool {
	pending := c.pending
	c.pending = nil
	for i, p := range pending {
		if !c.post(p) {
			c.pending = append(c.pending, pending[i+1:]...)
			return false
		}
	}
	return true
}

// step sends one request of a random kind.
func (c *client) step() bool {
	to := c.tenants[c.rng.IntN(len(c.tenants))]
	switch n := c.rng.IntN(100); {
	case n < 8 && len(c.keyed) > 0: // its response may have been lost
		return c.post(c.keyed[c.rng.IntN(len(c.keyed))])
	case n < 11 && len(c.keyed) > 0:
		return c.reuseKey(c.keyed[c.rng.IntN(len(c.keyed))])
	case n < 16:
		return c.rename(to)
	case n < 20 && !c.unread:
		return c.read(to)
	case n < 24:
		return c.postTwice(c.newPosting(to, true))
	case n < 65:
		return c.post(c.newPosting(to, true))
	default:
		return c.post(c.newPosting(to, false))
	}
}

// newPosting returns a posting to an account by domain, which may be new, by identifier,
// by name, or without any of them.
func (c *client) newPosting(to *tenant, keyed bool) *posting {
	c.made++
	p := &posting{tenant: to, marker: fmt.Sprintf("%s-%d", c.name, c.made), source: "crm"}
	company := c.rng.IntN(40)
	switch n := c.rng.IntN(20); {
	case n < 11:
		p.domain = fmt.Sprintf("company-%d.example", company)
		p.claim.Domain = []string{p.domain, "https://www." + p.domain + "/about", strings.ToUpper(p.domain)}[c.rng.IntN(3)]
		p.claim.Name = []string{"", fmt.Sprintf("Company %d", company)}[c.rng.IntN(2)]
	case n < 14:
		p.domain = "new-" + p.marker + ".example"
		p.claim.Domain = p.domain
	case n < 17:
		p.claim.AccountID, _ = c.ledger.account(to, c.rng.IntN, 1000)
	case n < 19:
		p.claim.Name = fmt.Sprintf("company %d", company)
	}
	if c.rng.IntN(2) == 0 {
		p.kind = "page.viewed"
	}
	if keyed {
		p.key = []string{"", "a key that is longer than what the index holds of it, "}[c.rng.IntN(2)] + p.marker
		p.header = c.rng.IntN(3) == 0
	}
	fill := c.rng.IntN(200)
	if c.rng.IntN(25) == 0 {
		fill = c.bulk
	}
	p.data = fmt.Sprintf(`{"marker":%q,"n":1.50,"fill":%q}`, p.marker, strings.Repeat("x", fill))
	p.body = p.encode(p.data)
	return p
}

// encode returns the request body with the payload.
func (p *posting) encode(payload string) []byte {
	members := map[string]any{"source": p.source, "payload": json.RawMessage(payload)}
	for name, value := range map[string]string{
		"type": p.kind, "accountId": string(p.claim.AccountID), "domain": p.claim.Domain, "name": p.claim.Name,
	} {
		if value != "" {
			members[name] = value
		}
	}
	if p.key != "" && !p.header {
		members["idempotencyKey"] = p.key
	}
	body, err := json.Marshal(members)
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return body
}

// An response is a complete response.
type response struct {
	status int
	header http.Header
	body   []byte
}

// uncertain reports whether the response leaves the outcome of the request open.
func (a *response) uncertain() bool {
	return a.status == http.StatusServiceUnavailable && bytes.Contains(a.body, []byte("It is not known whether this was done."))
}

// send returns false without a complete response.
func (c *client) send(method, path, key string, idempotencyKey string, body []byte) (a response, ok bool) {
	r, err := http.NewRequestWithContext(context.Background(), method, c.base+path, bytes.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return a, false
	}
	r.GetBody = nil // keeps net/http from retrying
	r.Header.Set("x-api-key", key)
	if idempotencyKey != "" {
		r.Header.Set("Idempotency-Key", idempotencyKey)
	}
	sent := time.Now()
	res, err := c.http.Do(r)
	if err != nil {
		return a, false
	}
	defer func() { _ = res.Body.Close() }()
	a = response{status: res.StatusCode, header: res.Header}
	if a.body, err = io.ReadAll(res.Body); err != nil {
		return a, false
	}
	c.ledger.took(time.Since(sent))
	if a.status == http.StatusServiceUnavailable {
		c.refused.Add(1)
		c.ledger.refused(a.uncertain())
		if a.header.Get("Retry-After") == "" || !bytes.Contains(a.body, []byte(`"code":"unavailable"`)) {
			c.t.Errorf("503 without Retry-After or its code: %v %s", a.header, a.body)
		}
	}
	return a, true
}

func (c *client) post(p *posting) bool {
	c.ledger.sending(p)
	ok := c.carry(p)
	c.keep(p)
	return ok
}

// carry sends a posting and records the response.
func (c *client) carry(p *posting) bool {
	headerKey := ""
	if p.header {
		headerKey = p.key
	}
	a, ok := c.send(http.MethodPost, "/v0/account_logs", p.tenant.key, headerKey, p.body)
	if !ok {
		c.ledger.unanswered(p)
		return false
	}
	switch a.status {
	case http.StatusCreated:
		var r receipt
		err := json.Unmarshal(a.body, &r)
		if err == nil {
			err = c.ledger.acknowledged(p, a.body, r, a.header.Get("Idempotency-Replayed") == "true")
		}
		if err != nil {
			c.t.Errorf("response to %s: %v", p.marker, err)
		}
	case http.StatusServiceUnavailable:
		if a.uncertain() {
			c.ledger.undecided(p)
		}
	default:
		c.t.Errorf("response to %s: %d %s", p.marker, a.status, a.body)
	}
	return true
}

// keep remembers a posting with a key for a replay.
func (c *client) keep(p *posting) {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	switch {
	case p.key == "" || p.kept:
	case p.response == nil:
		c.pending = append(c.pending, p)
	default:
		p.kept = true
		c.keyed = append(c.keyed, p)
	}
}

// postTwice sends one posting in two concurrent requests.
func (c *client) postTwice(p *posting) bool {
	var other bool
	var wg sync.WaitGroup
	c.ledger.sending(p)
	c.ledger.sending(p)
	wg.Go(func() { other = c.carry(p) })
	ok := c.carry(p)
	wg.Wait()
	c.keep(p)
	return ok && other
}

// reuseKey sends a different request with the key of an acknowledged one.
func (c *client) reuseKey(p *posting) bool {
	q := posting{source: p.source, claim: p.claim, kind: p.kind, key: p.key}
	a, ok := c.send(http.MethodPost, "/v0/account_logs", p.tenant.key, "", q.encode(`{"marker":"never recorded"}`))
	if ok && a.status != http.StatusUnprocessableEntity && a.status != http.StatusServiceUnavailable {
		c.t.Errorf("the key of %s for another request: %d %s", p.marker, a.status, a.body)
	}
	return ok
}

// rename gives one of a few accounts a new name.
func (c *client) rename(of *tenant) bool {
	id, _ := c.ledger.account(of, c.rng.IntN, 6)
	if id == "" {
		return true
	}
	c.made++
	name := fmt.Sprintf("Renamed %s-%d", c.name, c.made)
	r := c.ledger.renaming(id, name)
	a, ok := c.send(http.MethodPatch, "/v0/accounts/"+string(id), of.key, "", fmt.Appendf(nil, `{"name":%q}`, name))
	if !ok {
		return false
	}
	if a.uncertain() {
		return true
	}
	c.ledger.answered(r, a.status)
	if a.status != http.StatusOK && a.status != http.StatusServiceUnavailable {
		c.t.Errorf("rename of %s: %d %s", id, a.status, a.body)
	}
	return true
}

// read gets an account, which must show all activity that was acknowledged before.
func (c *client) read(of *tenant) bool {
	id, newest := c.ledger.account(of, c.rng.IntN, 1000)
	if id == "" {
		return true
	}
	a, ok := c.send(http.MethodGet, "/v0/accounts/"+string(id), of.key, "", nil)
	if !ok {
		return false
	}
	if c.patient && a.status == http.StatusServiceUnavailable {
		return true
	}
	var shown struct {
		LatestActivityAt string `json:"latestActivityAt"`
	}
	err := json.Unmarshal(a.body, &shown)
	if at, parseErr := atrium.ParseTime(shown.LatestActivityAt); a.status != http.StatusOK || err != nil || parseErr != nil || at < newest {
		c.t.Errorf("account %s, active at %s: %d %s", id, newest, a.status, a.body)
	}
	return true
}
