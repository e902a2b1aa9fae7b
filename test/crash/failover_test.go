package crash

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"atrium/internal/store/engine/postgrestest"
)

// A pair is a primary with a synchronous standby.
type pair struct {
	*outage
	primary, standby *postgrestest.Server
}

// newPair is newOutage with a standby, configured as docs/scaling.md describes.
func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{primary: postgrestest.Start(t)}
	db := newRemote(t, p.primary)
	p.standby = p.primary.Standby(t, "standby")
	db.url = strings.Replace(db.url, fmt.Sprintf("127.0.0.1:%d/", p.primary.Port()),
		fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d/", p.primary.Port(), p.standby.Port()), 1)
	db.url += "&target_session_attrs=read-write&connect_timeout=2"
	conn := db.connect(t)
	for _, line := range settingsOf(t, "the primary") {
		execute(t, conn, "ALTER SYSTEM SET "+line)
	}
	execute(t, conn, "SELECT pg_reload_conf()")
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "commits wait for the standby", startLimit, func() bool { return p.waits(t, db) })
	t.Cleanup(func() { // otherwise the database cannot be dropped without the standby
		former, err := pgx.Connect(context.Background(), p.former().url)
		if err != nil {
			return // it is not running
		}
		defer func() { _ = former.Close(context.Background()) }()
		for _, statement := range []string{"ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"} {
			if _, err := former.Exec(context.Background(), statement); err != nil {
				t.Error(err)
			}
		}
	})
	p.outage = newOutageOf(t, p.primary, db, clientCount, nil)
	return p
}

// former returns the database on the original primary.
func (p *pair) former() *database {
	return &database{url: p.primary.URL("test1")}
}

// waits reports whether commits wait for the standby and it is streaming.
func (p *pair) waits(t *testing.T, db *database) (follows bool) {
	t.Helper()
	conn := db.connect(t)
	defer func() { _ = conn.Close(t.Context()) }()
	err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming')
		AND current_setting('synchronous_commit') = 'remote_apply'`).Scan(&follows)
	if err != nil {
		t.Fatal(err)
	}
	return follows
}

// settingsOf returns the lines for postgresql.conf in docs/scaling.md.
func settingsOf(t *testing.T, server string) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "scaling.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```ini\n# postgresql.conf of " + server + "\n(.+?)\n```").FindSubmatch(page)
	if block == nil {
		t.Fatalf("docs/scaling.md has no settings for %s", server)
	}
	return strings.Split(string(block[1]), "\n")
}

// After the primary is killed and its synchronous standby is promoted, the service
// recovers by itself. No acknowledged entry is lost, and none is duplicated, even if its
// commit may not have reached the standby. The service is not ready until then.
func TestFailoverLosesAndDuplicatesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		falls, returns func(*postgrestest.Server, testing.TB)
	}{
		"killed":  {(*postgrestest.Server).Kill, (*postgrestest.Server).Restart},
		"hanging": {(*postgrestest.Server).Pause, (*postgrestest.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			p := newPair(t)
			p.workABit()
			c.falls(p.primary, t)
			waitUntil(t, "the service to be not ready", startLimit, func() bool { return p.atrium.status("/readyz") == http.StatusServiceUnavailable })
			p.standby.Promote(t)
			promoted := time.Now()
			p.waitForService()
			t.Logf("entries are recorded again %s after the standby was promoted", time.Since(promoted).Round(time.Millisecond))

			// The former primary comes back, and still considers itself the primary.
			c.returns(p.primary, t)
			former := p.former()
			before := former.entries(t)
			p.standby.Terminate(t) // and new connections try it first
			p.waitForService()
			if after := former.entries(t); after != before {
				t.Errorf("%d entries were written to the former primary", after-before)
			}
			if acks := p.ledger.acks(); acks <= before {
				t.Errorf("%d acknowledged, %d on the former primary: the test proves nothing", acks, before)
			}
			p.primary.Kill(t)
			p.finish()
		})
	}
}

// entries counts the entries of all tenants.
func (db *database) entries(t *testing.T) (n int) {
	t.Helper()
	conn := db.connect(t)
	defer func() { _ = conn.Close(t.Context()) }()
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM entries").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A graceful restart of the primary causes a short interruption.
func TestPrimaryRestartLosesAndDuplicatesNothing(t *testing.T) {
	t.Parallel() // it mostly waits
	p := newPair(t)
	p.workABit()
	p.primary.Stop(t)
	p.primary.Restart(t)
	p.waitForService()
	p.finish()
}

// While no standby responds, nothing is acknowledged, and no request waits longer than the
// limit. The service recovers when it is back, or when commits no longer wait for it.
func TestUnreplicatedEntriesAreNotAcknowledged(t *testing.T) {
	t.Parallel() // it mostly waits
	p := newPair(t)
	p.standby.Kill(t)
	time.Sleep(databaseTimeout) // what had reached the standby is acknowledged
	acks, refused := p.ledger.acks(), p.ledger.figuresNow().refused
	waitUntil(t, "requests are refused", startLimit, func() bool { return p.ledger.figuresNow().refused > refused+clientCount })
	if n := p.ledger.acks(); n != acks {
		t.Errorf("%d entries were acknowledged that no standby has", n-acks)
	}
	p.standby.Restart(t)
	p.waitForService()
	p.finish()
}
