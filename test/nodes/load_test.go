package nodes_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"atrium/test/nodes"
)

// settled is how long a client retries one entry.
const settled = 20 * time.Second

// A posting is an entry that a client sends until it is acknowledged.
type posting struct {
	key  string
	sent int    // requests
	id   string // of the acknowledged entry; "" before
}

// A load records what clients sent and which responses they got.
type load struct {
	service *service
	stop    chan struct{}
	running sync.WaitGroup
	acks    atomic.Int64

	mu       sync.Mutex
	postings []*posting     // guarded by mu
	failures map[string]int // guarded by mu; requests by failure
	reads    int            // guarded by mu
}

// work starts clients that post and read at an address, each over a persistent connection,
// until end is called. A posting without an acknowledgement is sent again with its key.
// Every other key is in the header, the others are in the body.
func work(t *testing.T, s *service, addr string, clients int) *load {
	l := &load{service: s, stop: make(chan struct{}), failures: map[string]int{}}
	for c := range clients {
		client := &http.Client{Timeout: settled, Transport: &http.Transport{}}
		t.Cleanup(client.CloseIdleConnections)
		l.running.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-l.stop:
					return
				default:
				}
				id := l.post(t, client, addr, c, n)
				if id != "" && n%4 == 0 {
					l.read(t, client, addr, id)
				}
			}
		})
	}
	return l
}

// post sends a posting until it is acknowledged, and returns its account.
func (l *load) post(t *testing.T, client *http.Client, addr string, c, n int) (account string) {
	p := &posting{key: fmt.Sprintf("c%d-%d", c, n)}
	l.mu.Lock()
	l.postings = append(l.postings, p)
	l.mu.Unlock()
	domain := fmt.Sprintf("d%d.example", n%25)
	if n%10 == 9 {
		domain = p.key + ".example"
	}
	body, header := fmt.Sprintf(`{"source":"load","payload":{"marker":%q},"domain":%q`, p.key, domain), "Idempotency-Key: "+p.key
	place := " (key in the header)"
	if n%2 == 0 {
		body, header, place = body+fmt.Sprintf(`,"idempotencyKey":%q`, p.key), "X-Other: none", " (key in the body)"
	}
	for deadline := time.Now().Add(settled); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		p.sent++
		a := send(client, "POST", "http://"+addr+"/v0/account_logs", l.service.key, body+"}", header)
		if a.status == 201 {
			var r struct{ AccountID, AccountLogID string }
			if err := json.Unmarshal([]byte(a.body), &r); err != nil || r.AccountLogID == "" {
				t.Errorf("%s: %s: %v", p.key, a, err)
			}
			p.id = r.AccountLogID
			l.acks.Add(1)
			return r.AccountID
		}
		l.failed(t, a, place)
	}
	t.Errorf("%s was not acknowledged within %s", p.key, settled)
	return ""
}

func (l *load) read(t *testing.T, client *http.Client, addr, account string) {
	l.mu.Lock()
	l.reads++
	l.mu.Unlock()
	if a := send(client, "GET", "http://"+addr+"/v0/accounts/"+account, l.service.key, ""); a.status != 200 {
		l.failed(t, a, " (a read)")
	}
}

// failed counts a failed request. A 503 from HAProxy or a node, or no response, is
// expected; any other failure is a fault.
func (l *load) failed(t *testing.T, a response, of string) {
	t.Helper()
	what := strconv.Itoa(a.status)
	switch {
	case a.err != nil:
		what = "no response"
	case a.status < 502 || a.status > 504 || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, `"code":"unavailable"`):
		t.Errorf("a request%s got %s %v", of, a, a.header)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures[what+of]++
}

// await waits until the given number of further entries is acknowledged.
func (l *load) await(t *testing.T, more int64) {
	t.Helper()
	now := l.acks.Load()
	nodes.Until(t, "the clients", settled, func() bool { return l.acks.Load() >= now+more })
}

// end stops the clients and audits the stored data. It logs the figures and returns the
// number of failed requests.
func (l *load) end(t *testing.T) (failed int) {
	t.Helper()
	close(l.stop)
	l.running.Wait()
	accounts, entries := l.service.export(t)
	stored := map[string][]string{}
	for _, e := range entries {
		stored[e.IdempotencyKey] = append(stored[e.IdempotencyKey], e.AccountLogID)
		if want := fmt.Sprintf(`{"marker":%q}`, e.IdempotencyKey); string(e.Payload) != want {
			t.Errorf("entry %s is %s, want %s", e.AccountLogID, e.Payload, want)
		}
	}
	domains := map[string]bool{}
	for _, a := range accounts {
		if domains[a.Domain] {
			t.Errorf("the domain %s has two accounts", a.Domain)
		}
		domains[a.Domain] = true
	}
	sent, acknowledged, retried, lost, doubled := 0, 0, 0, 0, 0
	for _, p := range l.postings {
		sent += p.sent
		retried += p.sent - 1
		found := stored[p.key]
		delete(stored, p.key)
		if p.id != "" {
			acknowledged++
		}
		if len(found) > 1 {
			doubled++
			t.Errorf("%s is stored %d times", p.key, len(found))
		}
		if p.id != "" && (len(found) == 0 || found[0] != p.id) {
			lost++
			t.Errorf("%s was acknowledged as %s, but %v is stored", p.key, p.id, found)
		}
	}
	if len(stored) > 0 {
		t.Errorf("%d stored entries were never sent", len(stored))
	}
	for _, n := range l.failures {
		failed += n
	}
	t.Logf("sent %d, acknowledged %d, retried %d, lost %d, duplicated %d, read %d; failed: %v",
		sent, acknowledged, retried, lost, doubled, l.reads, l.failures)
	return failed
}
