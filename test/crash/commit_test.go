package crash

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"atrium/internal/store"
	"atrium/internal/store/engine/postgrestest"
)

// Whatever becomes of a commit whose connection is cut, no entry is lost that was
// acknowledged, and none is doubled, with or without a key.
func TestCutCommitLosesAndDoublesNothing(t *testing.T) {
	for f, cuts := range map[fate]int{unanswered: 40, lost: 40, late: 8} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel() // it waits for some time where commits are late
			o, p := newCutOutage(t)
			p.rule(func(query, _ string) fate {
				if query == "COMMIT" && rand.N(12) == 0 {
					return f
				}
				return passes
			})
			waitUntil(t, "commits were cut", startLimit, func() bool { return p.count(f) >= cuts })
			p.rule(nil)
			o.waitForService()
			o.finish()
			t.Logf("%d commits were cut", p.count(f))
		})
	}
}

// newCutOutage is newOutage with a proxy before the database.
func newCutOutage(t *testing.T) (o *outage, p *proxy) {
	t.Helper()
	o = newOutage(t, clientCount, func(url string) (through string) {
		p, through = newProxy(t, url)
		return through
	})
	return o, p
}

// A commit that may have been done is not done again for a request that says what
// is to be, not what is to be added: its caller is told that nobody knows.
func TestRenameWithACutCommitIsNotRepeated(t *testing.T) {
	for f, done := range map[fate]bool{unanswered: true, lost: false} {
		t.Run(string(f), func(t *testing.T) {
			db := newRemote(t, postgrestest.Shared(t))
			p, through := newProxy(t, db.url)
			s := start(t, through)
			clients, l := newClients(t, random(t), 1, db.tenants)
			c := clients[0]
			c.base = s.base
			first := c.newPosting(db.tenants[0], false)
			if !c.post(first) || first.answer == nil {
				t.Fatal("the service does not work")
			}
			account := "/v0/accounts/" + string(first.receipt.AccountID)

			p.rule(func(query, transaction string) fate {
				if query == "COMMIT" && strings.Contains(transaction, "UPDATE accounts SET name") {
					return f
				}
				return passes
			})
			a, ok := c.send(http.MethodPatch, account, db.tenants[0].key, "", []byte(`{"name":"Renamed"}`))
			if !ok || a.status != http.StatusServiceUnavailable || !a.uncertain() {
				t.Errorf("rename: %d %s", a.status, a.body)
			}
			if n := p.count(f); n != 1 {
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

// Who makes a key whose commit is cut is told that it may be there. It is of no use
// to anybody, since its secret was not told.
func TestKeyWithACutCommitIsNotMadeTwice(t *testing.T) {
	for f, made := range map[fate]int{unanswered: 1, lost: 0} {
		t.Run(string(f), func(t *testing.T) {
			db := newRemote(t, postgrestest.Shared(t))
			p, through := newProxy(t, db.url)
			p.rule(func(query, transaction string) fate {
				if query == "COMMIT" && strings.Contains(transaction, "INSERT INTO api_keys") {
					return f
				}
				return passes
			})
			s := command(t, "keys", "create", "--tenant", string(db.tenants[0].id), "--name", "cut", "--database", through)
			if code := s.wait().ExitCode(); code != 1 {
				t.Errorf("exit code %d", code)
			}
			if log := s.log.String(); !strings.Contains(log, "It is not known whether this was done.") || strings.Contains(log, password) {
				t.Errorf("it said: %s", log)
			}
			if n := p.count(f); n != 1 {
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
				t.Errorf("%d keys were made, want %d", n, made)
			}
		})
	}
}

// What was read is there, however the transaction ends that it was read in.
func TestExportIsWholeThoughItsEndIsCut(t *testing.T) {
	db := newRemote(t, postgrestest.Shared(t))
	p, through := newProxy(t, db.url)
	s, err := store.Open(t.Context(), through, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.rule(func(query, _ string) fate {
		if query == "COMMIT" {
			return lost
		}
		return passes
	})
	if _, err := readStore(t.Context(), s, db.tenants); err != nil {
		t.Error(err)
	}
	if p.count(lost) == 0 {
		t.Error("no transaction was cut")
	}
}
