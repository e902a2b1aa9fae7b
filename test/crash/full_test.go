package crash

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"

	"atrium/internal/store/engine/postgrestest"
)

// An overload is a server under load without space for new data.
type overload struct {
	t       *testing.T
	server  *server
	db      *database
	clients []*client
	ledger  *ledger
	stop    func() // stops the clients
}

// startOverload starts the load on a server. If patient, the clients' reads may fail.
func startOverload(t *testing.T, s *server, db *database, patient bool) *overload {
	t.Helper()
	b := &overload{t: t, server: s, db: db}
	b.clients, b.ledger = newClients(t, random(t), 8, db.tenants)
	for _, c := range b.clients {
		c.patient = patient
	}
	b.resume()
	t.Cleanup(func() { b.stop() })
	b.waitForService()
	return b
}

// resume starts the load, which stop ends.
func (b *overload) resume() {
	ctx, cancel := context.WithCancel(b.t.Context())
	wait := each(b.clients, b.server.base, func(c *client) { c.persist(ctx) })
	b.stop = func() {
		cancel()
		wait()
	}
}

func (b *overload) waitForService() {
	b.t.Helper()
	acks := b.ledger.acks()
	waitUntil(b.t, "the service records entries", startLimit, func() bool { return b.ledger.acks() > acks+4*len(b.clients) })
}

// hold waits until writes are rejected, and checks the server in that state.
func (b *overload) hold() {
	b.t.Helper()
	refused := b.ledger.figuresNow().refused
	waitUntil(b.t, "requests are refused", startLimit, func() bool { return b.ledger.figuresNow().refused > refused+4*len(b.clients) })
	reader := &client{t: b.t, http: b.server.http, base: b.server.base, ledger: newLedger()}
	for _, of := range b.db.tenants {
		id, _ := b.ledger.account(of, func(int) int { return 0 }, 1)
		for _, path := range []string{"/v0/accounts/" + string(id), "/v0/pages", "/healthz", "/readyz"} {
			if a, ok := reader.send(http.MethodGet, path, of.key, "", nil); !ok || a.status != http.StatusOK {
				b.t.Errorf("GET %s: %d %s", path, a.status, a.body)
			}
		}
	}
}

// lift ends the load, makes the clients retry the rejected requests, and audits. The
// server runs until then.
func (b *overload) lift() {
	b.t.Helper()
	b.waitForService()
	b.stop()
	waitUntil(b.t, "all that has a key is acknowledged", startLimit, func() bool {
		settle(b.clients, b.server.base)
		return !slices.ContainsFunc(b.clients, func(c *client) bool { return len(c.pending) > 0 })
	})
	b.server.signalAndWait()
	b.ledger.ended()
	b.server.checkRefusals()
	v := b.ledger.audit(b.db.read(b.t), forever)
	v.report(b.t)
	f := b.ledger.figures
	b.t.Logf("sent %d, acknowledged %d, refused %d, of these uncertain %d, lost %d, duplicated %d", f.sent, f.acknowledged, f.refused, f.uncertain, v.lost, v.doubled)
	if f.unanswered > 0 {
		b.t.Errorf("%d requests got no response", f.unanswered)
	}
}

// While the disk is full, writes return 503 and reads succeed. The same process recovers
// when there is space again. Nothing acknowledged is lost.
func TestFullFileSystemReturns503AndRecovers(t *testing.T) {
	t.Parallel()
	if !mounting(t, "TestFileSizeLimitReturns503") {
		return
	}
	disk := newMount(t, "size=24m")
	db := newFileIn(t, disk.path)
	b := startOverload(t, start(t, db.url), db, false)
	for range 2 {
		disk.fill()
		b.hold()
		disk.free()
		b.waitForService()
	}
	b.lift()
}

// The same with a file size limit of the process.
func TestFileSizeLimitReturns503(t *testing.T) {
	t.Parallel()
	db := newFile(t)
	s := startLimited(t, "-f 4096", db.url) // 2 MiB, or 4 where the shell counts in kilobytes
	b := startOverload(t, s, db, false)
	b.hold()
	b.stop()
	s.signalAndWait()
	b.ledger.ended()
	v := b.ledger.audit(db.read(t), forever)
	v.report(t)
	s.checkRefusals()
}

// The same with a full disk of the database server.
func TestFullTablespaceReturns503AndRecovers(t *testing.T) {
	t.Parallel()
	owner, _, err := postgrestest.Unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 { // PostgreSQL refuses to run as root, which it would be in a namespace
		t.Log("only root can mount for PostgreSQL: TestAFullDiskOfTheServerIsUnavailable has its error alone")
		return
	}
	if !mounting(t, "TestAFullDiskOfTheServerIsUnavailable") {
		return
	}
	disk := newMount(t, fmt.Sprintf("size=48m,uid=%d,mode=700", owner.Uid))
	db := newRemoteIn(t, postgrestest.Shared(t), disk.path)
	b := startOverload(t, start(t, db.url), db, false)
	for range 2 {
		disk.fill()
		b.hold()
		disk.free()
		b.waitForService()
	}
	b.lift()
}
