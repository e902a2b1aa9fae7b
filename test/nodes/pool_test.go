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

// A pool that shares connections between transactions gives one client a connection
// that knows the statements of another. That must be found out, or not matter.
func TestAStatementOfAnotherClientOfAPoolIsNotTakenForOnesOwn(t *testing.T) {
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
	// One has the first connection, while the other uses the second.
	one := open()
	var other engine.DB
	err := one.Read(t.Context(), func(tx engine.Tx) error {
		ask(tx.Query, "of one")
		other = open()
		return other.Read(t.Context(), func(tx engine.Tx) error { // prepares as many as one has
			ask(tx.Query, "of the other")
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	// Whoever holds the connection that was used last, one gets that of the other.
	holder, err := postgres.Open(t.Context(), url, postgres.Options{Unprepared: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Close() }()
	err = holder.Read(t.Context(), func(tx engine.Tx) error {
		ask(tx.Query, "of the holder") // its transaction begins with its first statement
		if got := ask(queryOf(one), "of one"); got != "of one" {
			t.Errorf("the answer is %q", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Nodes that are told nothing of the pool do not serve what is not theirs: they do
// not start, or answer what they can and 503 else, and their log says what to do.
func TestNodesThatPrepareStatementsBehindAPoolSayWhatIsWrong(t *testing.T) {
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
		nodes.Until(t, "a node that serves or ends", patience, func() bool { return n.Ended() || strings.Contains(n.Log(), "msg=serving") })
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

// patience bounds what has no limit of its own.
const patience = 30 * time.Second

func TestNodesBehindAPoolMigrateOneAfterTheOther(t *testing.T) {
	server := postgrestest.Shared(t)
	pooled := nodes.Pool(t, server, server.NewDatabase(t))
	started := nodes.Start(t, 3, pooled, "--database-statements", "unprepared")
	wantMigratedOnce(t, started)
}
