package nodes_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app/apptest"
	"atrium/internal/auth"
	"atrium/test/nodes"
)

// forgotten is the time after which every node must refuse a revoked key, with a margin
// for slow machines.
const forgotten = auth.CacheTime + 3*time.Second

// get sends a GET request to a node.
func (s *service) get(t *testing.T, n *nodes.Node, path string, key string) response {
	t.Helper()
	a := send(nodes.Client(t), "GET", "http://"+n.Addr+path, key, "")
	if a.err != nil {
		t.Fatal(a.err)
	}
	return a
}

// load imports the fixtures of the scripts into the tenant.
func (s *service) load(t *testing.T) {
	t.Helper()
	nodes.Must(t, "import", "--database", s.database, "--tenant", string(s.tenant), filepath.Join("..", "testdata", "north.ndjson"))
}

// list reads all pages after the cursor, each response from the next node.
func (s *service) list(t *testing.T, cursor string) (ids []string, first string) {
	t.Helper()
	for part := 0; ; part++ {
		path := "/v0/pages?limit=1"
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		a := s.get(t, s.nodes[part%len(s.nodes)], path, s.key)
		var list struct {
			Items      []struct{ PageID string }
			NextCursor string
		}
		if err := json.Unmarshal([]byte(a.body), &list); err != nil || a.status != 200 || len(list.Items) != 1 {
			t.Fatalf("%s: %s, %v", path, a, err)
		}
		ids = append(ids, list.Items[0].PageID)
		if cursor = list.NextCursor; cursor == "" {
			return ids, first
		}
		if first == "" {
			first = cursor
		}
	}
}

func TestCursorIsValidOnAllNodesAndAfterRestarts(t *testing.T) {
	s := newService(t)
	s.load(t)
	ids, cursor := s.list(t, "")
	if len(ids) < 3 || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != len(ids) {
		t.Fatalf("the pages are %v", ids)
	}
	for _, n := range s.nodes {
		n.Stop(t)
	}
	for _, n := range s.nodes {
		n.Restart(t)
	}
	if after, _ := s.list(t, cursor); !slices.Equal(after, ids[1:]) {
		t.Errorf("after the cursor: %v, want %v", after, ids[1:])
	}
}

func TestEntityTagIsValidOnAllNodes(t *testing.T) {
	s := newService(t)
	client, target := nodes.Client(t), ""
	for i := range 3 {
		body := `{"source":"tags","payload":{},"domain":"tags.example","idempotencyKey":"tags"}`
		a := send(client, "POST", "http://"+s.nodes[i].Addr+"/v0/account_logs", s.key, body)
		var r struct{ AccountID string }
		if err := json.Unmarshal([]byte(a.body), &r); err != nil || a.status != 201 {
			t.Fatal(a, err)
		}
		target = "/v0/accounts/" + r.AccountID
	}
	for i := range 6 {
		one, next, last := s.nodes[i%3], s.nodes[(i+1)%3], s.nodes[(i+2)%3]
		tag := s.get(t, one, target, s.key).header.Get("ETag")
		if a := send(client, "GET", "http://"+next.Addr+target, s.key, "", "If-None-Match: "+tag); a.status != 304 {
			t.Errorf("the tag that another node has given: %s", a)
		}
		rename := fmt.Sprintf(`{"name":"Name %d"}`, i)
		if a := send(client, "PATCH", "http://"+last.Addr+target, s.key, rename, "If-Match: "+tag); a.status != 200 {
			t.Errorf("a change of the state that another node has shown: %s", a)
		}
		if a := send(client, "PATCH", "http://"+next.Addr+target, s.key, rename, "If-Match: "+tag); a.status != 412 {
			t.Errorf("a change of a state that another node has changed: %s", a)
		}
	}
}

func TestRevokedKeyIsRejectedByAllNodesWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, n := range s.nodes {
		if a := s.get(t, n, "/v0/pages", s.key); a.status != 200 {
			t.Fatal(a)
		}
	}
	nodes.Must(t, "keys", "revoke", "--yes", "--database", s.database, string(s.keyID))
	nodes.Until(t, "every node to refuse the key", forgotten, func() bool {
		return !slices.ContainsFunc(s.nodes, func(n *nodes.Node) bool { return s.get(t, n, "/v0/pages", s.key).status != 401 })
	})
}

func TestDeletingATenantRevokesItsKeysAtOnceOnTheNodeAndOnAllWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	s := newService(t)
	operator, _ := apptest.Key(t, openStore(t, s.database), atrium.OperatorChain, atrium.ScopeManage)
	for _, n := range s.nodes {
		if a := s.get(t, n, "/v0/pages", s.key); a.status != 200 {
			t.Fatal(a)
		}
	}
	target := "http://" + s.nodes[0].Addr + "/manage/v0/tenants/" + string(s.tenant) + "?confirmName=nodes"
	if a := send(nodes.Client(t), "DELETE", target, operator, ""); a.status != 202 {
		t.Fatal(a)
	}
	if a := s.get(t, s.nodes[0], "/v0/pages", s.key); a.status != 401 {
		t.Errorf("the node that deleted the tenant: %s", a)
	}
	if a := send(nodes.Client(t), "POST", "http://"+s.nodes[0].Addr+"/v0/account_logs", s.key, `{"source":"crm","payload":{}}`); a.status != 401 {
		t.Errorf("the node that deleted the tenant, for an entry: %s", a)
	}
	nodes.Until(t, "every node to refuse the key", forgotten, func() bool {
		return !slices.ContainsFunc(s.nodes, func(n *nodes.Node) bool { return s.get(t, n, "/v0/pages", s.key).status != 401 })
	})
}

// rotate gives the key a new secret.
func (s *service) rotate(t *testing.T, grace string) (key string) {
	t.Helper()
	var made struct{ Key string }
	out := nodes.Must(t, "keys", "rotate", "--database", s.database, "--grace", grace, "-o", "json", string(s.keyID))
	if err := json.Unmarshal([]byte(out), &made); err != nil || !strings.HasPrefix(made.Key, "atr_") {
		t.Fatalf("%s: %v", out, err)
	}
	return made.Key
}

func TestRotatedKeyFollowsItsGracePeriodOnAllNodes(t *testing.T) {
	t.Parallel()
	s := newService(t)
	works := func(key string) func(*nodes.Node) bool {
		return func(n *nodes.Node) bool { return s.get(t, n, "/v0/pages", key).status == http.StatusOK }
	}
	keys := []string{s.key, s.rotate(t, "1h")}
	for _, n := range s.nodes {
		for i, key := range keys {
			if !works(key)(n) {
				t.Errorf("secret %d does not work within the grace", i+1)
			}
		}
	}
	last := s.rotate(t, "0s")
	for _, n := range s.nodes {
		if !works(last)(n) {
			t.Error("the new secret does not work immediately")
		}
	}
	nodes.Until(t, "every node to refuse the previous secrets", forgotten, func() bool {
		return !slices.ContainsFunc(s.nodes, works(keys[0])) && !slices.ContainsFunc(s.nodes, works(keys[1]))
	})
	for _, n := range s.nodes {
		if !works(last)(n) {
			t.Error("the new secret no longer works")
		}
	}
}
