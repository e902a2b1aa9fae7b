package nodes_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/engine/postgrestest"
	"atrium/test/nodes"
)

// A transaction pool can give a client a connection that has another client's prepared
// statements. This must be detected, or harmless.
func TestPooledClientsDoNotShareStatements(t *testing.T) {
	server := postgrestest.Shared(t)
	url := nodes.Pool(t, server, server.NewDatabase(t))
	open := func() engine.DB {
		db, err := postgres.Open(t.Context(), url, postgres.Options{Connections: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	ask := func(query func(string, engine.Args, func(engine.Row) error) error, text string) (got string) {
		err := engine.Find(query, "SELECT '"+text+"'::text", nil, func(r engine.Row) { got = r.Text(0) })
		if err != nil {
			t.Logf("asked for %s: %v", text, err)
			return text
		}
		return got
	}
	queryOf := func(db engine.DB) func(string, engine.Args, func(engine.Row) error) error {
		return func(sql string, args engine.Args, each func(engine.Row) error) error {
			return db.Query(t.Context(), sql, args, each)
		}
	}
	// One uses the first connection and the other the second.
	one := open()
	var other engine.DB
	err := one.Read(t.Context(), func(tx engine.Tx) error {
		ask(tx.Query, "of one")
		other = open()
		return other.Read(t.Context(), func(tx engine.Tx) error { // prepares as many as one did
			ask(tx.Query, "of the other")
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	// While holder has the connection that was used last, one gets the connection of
	// other.
	holder, err := postgres.Open(t.Context(), url, postgres.Options{Unprepared: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Close() }()
	err = holder.Read(t.Context(), func(tx engine.Tx) error {
		ask(tx.Query, "of the holder") // its transaction begins with its first statement
		if got := ask(queryOf(one), "of one"); got != "of one" {
			t.Errorf("got %q", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Nodes that are not configured for a pool never execute another client's statements: they
// do not start, or return 503 for some requests, and log how to fix it.
func TestMisconfiguredPoolIsReported(t *testing.T) {
	server := postgrestest.Shared(t)
	direct := server.NewDatabase(t)
	s := serviceAt(t, direct)
	pooled := nodes.Pool(t, server, direct)
	for i := range s.nodes {
		s.nodes[i].Kill()
		s.nodes[i] = nodes.Launch(t, pooled)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	figures := map[string]int{}
	client := &http.Client{Timeout: settled, Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	check := func(method string, n *nodes.Node, path, body, want string) string {
		a := send(client, method, "http://"+n.Addr+path, s.key, body)
		good := a.err != nil || a.status == 503 || a.status < 300 && strings.Contains(a.body, want)
		if !good {
			t.Errorf("%s %s: %s", method, path, a)
		}
		mu.Lock()
		defer mu.Unlock()
		figures[fmt.Sprint(method, " ", a.status)]++
		if a.status < 200 || a.status >= 300 {
			return ""
		}
		return a.body
	}
	for _, n := range s.nodes {
		nodes.Until(t, "a node that serves or ends", exchangeTimeout, func() bool { return n.Ended() || strings.Contains(n.Log(), "msg=serving") })
	}
	acknowledged := 0
	for w := range 12 {
		wg.Go(func() {
			for k := range 20 {
				domain := fmt.Sprintf("w%d-%d.example", w, k)
				body := check("POST", s.nodes[k%3], "/v0/account_logs", fmt.Sprintf(`{"source":"pool","payload":{},"domain":%q}`, domain), "accountLogId")
				if body == "" {
					continue
				}
				mu.Lock()
				acknowledged++
				mu.Unlock()
				var r struct{ AccountID string }
				if err := json.Unmarshal([]byte(body), &r); err != nil {
					t.Error(err)
				}
				check("GET", s.nodes[(k+1)%3], "/v0/accounts/"+r.AccountID, "", `"`+domain+`"`)
			}
		})
	}
	wg.Wait()
	s.database = direct
	if _, entries := s.export(t); len(entries) != acknowledged {
		t.Errorf("%d entries are stored, %d were acknowledged", len(entries), acknowledged)
	}
	reported := 0
	for _, n := range s.nodes {
		if strings.Contains(n.Log(), "a pooler shares this connection between transactions: use ") {
			reported++
		}
	}
	if reported == 0 {
		t.Error("no node logs how to fix it")
	}
	t.Logf("%d nodes log how to fix it; responses: %v", reported, figures)
}

// exchangeTimeout bounds waits that have no other limit.
const exchangeTimeout = 30 * time.Second

func TestMigrationsThroughAPoolAreSerialized(t *testing.T) {
	server := postgrestest.Shared(t)
	pooled := nodes.Pool(t, server, server.NewDatabase(t))
	started := nodes.Start(t, 3, pooled, "--database-statements", "unprepared")
	wantMigratedOnce(t, started)
}
