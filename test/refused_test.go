package test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app/apptest"
)

var markers atomic.Int64

// recorded waits until the list of a tenant has all requests that any node has refused so far. Nodes write their
// records in order: it sends each node one more request to refuse, and waits until the list has that one.
func (s *service) recorded(t *testing.T, tn tenant) {
	t.Helper()
	if s.nodes == nil {
		s.recordedBy(t, tn)
		return
	}
	for _, addr := range s.nodes {
		node := *s
		node.addr = addr
		node.recordedBy(t, tn)
	}
}

// recordedBy is recorded for the requests that s.addr received.
func (s *service) recordedBy(t *testing.T, tn tenant) {
	t.Helper()
	const list = "/manage/v0/refused_requests"
	marker := fmt.Sprint("marker-", markers.Add(1))
	if a := s.send(t, get(list+"?limit=0", "x-api-key: "+tn.manage, "X-Request-Id: "+marker)); a.status != 400 {
		t.Fatal(a)
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		a := s.send(t, get(list+"?requestId="+marker, "x-api-key: "+tn.manage))
		if a.status == 200 && strings.Contains(string(a.body), marker) {
			return
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("a refused request is not in the list: %s", a)
		}
	}
}

var refusedResource = resource{
	has: func(t *testing.T, s *service, tn tenant) map[string]string {
		t.Helper()
		of := map[string]string{"request": "of-" + string(tn.id)}
		for i := range 2 {
			s.send(t, get(fmt.Sprint("/manage/v0/accounts?cursor=", i), "x-api-key: "+tn.manage, "X-Request-Id: "+of["request"]))
		}
		s.recorded(t, tn)
		_, after, _ := strings.Cut(string(s.send(t, get("/manage/v0/refused_requests", "x-api-key: "+tn.manage)).body), `"keyId":"`)
		of["key"], _, _ = strings.Cut(after, `"`)
		of["cursor"] = s.firstCursor(t, tn, "/manage/v0/refused_requests")
		return of
	},
	places: func(_, of map[string]string) map[string]request {
		requests := map[string]request{
			"key of refused requests":        get("/manage/v0/refused_requests?keyId=" + of["key"]),
			"request among refused requests": get("/manage/v0/refused_requests?requestId=" + of["request"]),
		}
		reads(requests, map[string]string{"cursor of refused requests": "/manage/v0/refused_requests?cursor=" + of["cursor"]})
		return requests
	},
}

// refusedOf returns the refused requests of a tenant that a node lists, with a filter.
func (s *service) refusedOf(t *testing.T, tn tenant, query string) string {
	t.Helper()
	a := s.send(t, get("/manage/v0/refused_requests?limit=100&"+query, "x-api-key: "+tn.manage))
	if a.status != 200 {
		t.Fatal(a)
	}
	return string(a.body)
}

func TestEveryNodeListsWhatAnyNodeRefused(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		other := *s
		other.addr = apptest.Start(t, s.store, s.withSecrets)
		third := *s
		third.addr = apptest.Start(t, s.store, s.withSecrets)
		nodes := []*service{s, &other, &third}
		for i, node := range nodes {
			for range 3 {
				node.send(t, post(s.north.key, fmt.Sprintf(`{"payload":{},"unknown%d":1}`, i)))
			}
			node.recorded(t, s.north)
		}
		const query = "route=/v0/account_logs"
		want := s.refusedOf(t, s.north, query)
		for i, node := range nodes {
			if got := node.refusedOf(t, s.north, query); got != want || strings.Count(got, `"requestId"`) < len(nodes) {
				t.Errorf("node %d lists %s, want %s", i, got, want)
			}
		}
	})
}

// Somebody has to find the system that still uses the key.
func TestARequestWithAKeyThatNoLongerWorksIsInTheListOfItsTenant(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		key, id := apptest.Key(t, s.store, s.north.id)
		if a := s.send(t, request{method: "POST", target: "/manage/v0/keys/" + string(id) + "/revoke", header: []string{"x-api-key: " + s.north.manage}}); a.status != 200 {
			t.Fatal(a)
		}
		last := "a"
		if strings.HasSuffix(key, last) {
			last = "b"
		}
		forged := key[:len(key)-1] + last
		for _, sent := range []string{key, forged} {
			if a := s.send(t, get("/v0/pages", "x-api-key: "+sent, "User-Agent: crm/1.0")); a.status != 401 {
				t.Fatal(a)
			}
		}
		s.recorded(t, s.north)
		got := s.refusedOf(t, s.north, "code=unauthenticated")
		if strings.Count(got, `"requestId"`) != 1 || !strings.Contains(got, fmt.Sprintf("%q", id)) || !strings.Contains(got, "crm/1.0") {
			t.Errorf("the tenant's list has %s", got)
		}
	})
}

// A client that sends nothing but refused requests, each different, adds a bounded number of rows, and delays or
// replaces none of another tenant.
func TestAFloodOfRefusedRequestsLeavesThoseOfOthers(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		s.send(t, get("/v0/accounts/first", "x-api-key: "+s.south.key, "X-Request-Id: first"))
		s.recorded(t, s.south)
		const clients, each = 8, 400
		var sending sync.WaitGroup
		for n := range clients {
			sending.Go(func() {
				for i := range each {
					s.send(t, get(fmt.Sprintf("/v0/pages?limit=a&cursor=%d-%d", n, i), "x-api-key: "+s.north.key, fmt.Sprintf("User-Agent: flood-%d-%d", n, i)))
				}
			})
		}
		sending.Wait()
		s.send(t, get("/v0/accounts/last", "x-api-key: "+s.south.key, "X-Request-Id: last"))
		s.recorded(t, s.south)
		if got := s.refusedOf(t, s.south, "route=/v0/accounts/{account_id}"); !strings.Contains(got, `"first"`) || !strings.Contains(got, `"last"`) {
			t.Errorf("the other tenant has %s", got)
		}
		rows := 0
		for after := (*atrium.Position)(nil); ; {
			some, more, err := s.store.RefusedRequests(t.Context(), s.north.id, atrium.RefusedRequestFilter{}, after, 100)
			if err != nil {
				t.Fatal(err)
			}
			if rows += len(some); !more {
				break
			}
			after = atrium.PositionAt(some[len(some)-1].At, some[len(some)-1].ID)
		}
		if rows == 0 || rows > atrium.MaxRefusedRequests {
			t.Errorf("%d rows are stored, want at most %d", rows, atrium.MaxRefusedRequests)
		}
	})
}

func TestARefusedRequestNamesItsClientLibraryAndNoValues(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		const canary = "c4n4ry"
		s.send(t, request{method: "POST", target: "/v0/account_logs?a=" + canary, body: []byte(`{"source":7,"domain":"` + canary + `\u0000","name":"` + canary + `","payload":{"` + canary + `":"` + canary + `"},"idempotencyKey":"` + canary + `"}`), header: []string{
			"x-api-key: " + s.north.key, "Content-Type: application/json", "User-Agent: library/1.0", "Idempotency-Key: " + canary + "2", "If-Match: " + canary,
		}})
		s.send(t, get("/v0/accounts/"+canary+"?b="+canary, "x-api-key: "+s.north.key, "User-Agent: library/1.0"))
		s.recorded(t, s.north)
		got := s.refusedOf(t, s.north, "")
		if strings.Contains(got, canary) || strings.Count(got, `"userAgent":"library/1.0"`) != 2 {
			t.Errorf("listed are %s", got)
		}
	})
}
