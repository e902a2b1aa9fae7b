package crash

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"atrium/internal/store"
	"atrium/internal/store/engine/postgrestest"
	"atrium/test/cutproxy"
)

// When the connection of a commit is cut, no acknowledged entry is lost or duplicated,
// with or without a key.
func TestCutCommitLosesAndDuplicatesNothing(t *testing.T) {
	for f, cuts := range map[cutproxy.Fate]int{cutproxy.Unanswered: 40, cutproxy.Lost: 40, cutproxy.Late: 5} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel() // late commits take some time
			o, p := newCutOutage(t)
			p.Rule(func(query, _ string) cutproxy.Fate {
				if query == "COMMIT" && rand.N(4) == 0 {
					return f
				}
				return cutproxy.Passes
			})
			waitUntil(t, "commits were cut", startLimit, func() bool { return p.Count(f) >= cuts })
			p.Rule(nil)
			o.waitForService()
			o.finish()
			t.Logf("%d commits were cut", p.Count(f))
		})
	}
}

// newCutOutage is newOutage with a proxy in front of the database.
func newCutOutage(t *testing.T) (o *outage, p *cutproxy.Proxy) {
	t.Helper()
	o = newOutage(t, clientCount, func(url string) (through string) {
		p, through = cutproxy.New(t, url)
		return through
	})
	return o, p
}

// A request that sets a value does not repeat a commit of unknown outcome: its caller gets
// an error that says so.
func TestRenameWithACutCommitIsNotRepeated(t *testing.T) {
	for f, done := range map[cutproxy.Fate]bool{cutproxy.Unanswered: true, cutproxy.Lost: false} {
		t.Run(string(f), func(t *testing.T) {
			db := newRemote(t, postgrestest.Shared(t))
			p, through := cutproxy.New(t, db.url)
			s := start(t, through)
			clients, l := newClients(t, random(t), 1, db.tenants)
			c := clients[0]
			c.base = s.base
			first := c.newPosting(db.tenants[0], false)
			if !c.post(first) || first.response == nil {
				t.Fatal("the service does not work")
			}
			account := "/v0/accounts/" + string(first.receipt.AccountID)

			p.Rule(func(query, transaction string) cutproxy.Fate {
				if query == "COMMIT" && strings.Contains(transaction, "UPDATE accounts SET name") {
					return f
				}
				return cutproxy.Passes
			})
			a, ok := c.send(http.MethodPatch, account, db.tenants[0].key, "", []byte(`{"name":"Renamed"}`))
			if !ok || a.status != http.StatusServiceUnavailable || !a.uncertain() {
				t.Errorf("rename: %d %s", a.status, a.body)
			}
			if n := p.Count(f); n != 1 {
				t.Errorf("%d commits were cut, want one", n)
			}
			a, _ = c.send(http.MethodGet, account, db.tenants[0].key, "", nil)
			if got := strings.Contains(string(a.body), `"name":"Renamed"`); got != done {
				t.Errorf("afterwards: %d %s", a.status, a.body)
			}
			l.ended()
			s.signalAndWait()
			s.checkRefusals()
		})
	}
}

// A caller that creates a key with a commit of unknown outcome gets an error. The key may
// exist, but nobody has its secret.
func TestKeyWithACutCommitIsNotCreatedTwice(t *testing.T) {
	for f, made := range map[cutproxy.Fate]int{cutproxy.Unanswered: 1, cutproxy.Lost: 0} {
		t.Run(string(f), func(t *testing.T) {
			db := newRemote(t, postgrestest.Shared(t))
			p, through := cutproxy.New(t, db.url)
			p.Rule(func(query, transaction string) cutproxy.Fate {
				if query == "COMMIT" && strings.Contains(transaction, "INSERT INTO api_keys") {
					return f
				}
				return cutproxy.Passes
			})
			s := command(t, "keys", "create", "--tenant", string(db.tenants[0].id), "--name", "cut", "--database", through)
			if code := s.wait().ExitCode(); code != 1 {
				t.Errorf("exit code %d", code)
			}
			if log := s.log.String(); !strings.Contains(log, "It is not known whether this was done.") || strings.Contains(log, password) {
				t.Errorf("log: %s", log)
			}
			if n := p.Count(f); n != 1 {
				t.Errorf("%d commits were cut, want one", n)
			}
			db.waitForNobody(t)
			o, err := store.Open(t.Context(), db.url, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = o.Close() }()
			keys, _, err := o.Keys(t.Context(), db.tenants[0].id, nil, nil, 100)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(keys) - 1; n != made {
				t.Errorf("%d keys were created, want %d", n, made)
			}
		})
	}
}

// Data that was read is exported completely even if the end of its transaction fails.
func TestExportIsCompleteIfItsEndIsCut(t *testing.T) {
	db := newRemote(t, postgrestest.Shared(t))
	p, through := cutproxy.New(t, db.url)
	s, err := store.Open(t.Context(), through, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.Rule(func(query, _ string) cutproxy.Fate {
		if query == "COMMIT" {
			return cutproxy.Lost
		}
		return cutproxy.Passes
	})
	defer func() { _ = s.Close() }()
	if _, err := export(t.Context(), s, db.tenants); err != nil {
		t.Error(err)
	}
	if p.Count(cutproxy.Lost) == 0 {
		t.Error("no transaction was cut")
	}
}
