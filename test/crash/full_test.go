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

// A siege is a server under load while there is no room for what it is sent.
type siege struct {
	t       *testing.T
	server  *server
	db      *database
	clients []*client
	ledger  *ledger
	stop    func() // the clients
}

// besiege starts the load on a server. Its reads may be refused if the clients are
// patient.
func besiege(t *testing.T, s *server, db *database, patient bool) *siege {
	t.Helper()
	b := &siege{t: t, server: s, db: db}
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
func (b *siege) resume() {
	ctx, cancel := context.WithCancel(b.t.Context())
	wait := each(b.clients, b.server.base, func(c *client) { c.persist(ctx) })
	b.stop = func() {
		cancel()
		wait()
	}
}

func (b *siege) waitForService() {
	b.t.Helper()
	acks := b.ledger.acks()
	waitUntil(b.t, "the service records entries", startLimit, func() bool { return b.ledger.acks() > acks+4*len(b.clients) })
}

// hold waits until requests to write are refused, and checks what goes on meanwhile.
func (b *siege) hold() {
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

// lift ends the load, lets the clients send again what was refused, and audits. The
// same server goes on until then.
func (b *siege) lift() {
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
	b.t.Logf("sent %d, acknowledged %d, refused %d, of these uncertain %d, lost %d, doubled %d", f.sent, f.acknowledged, f.refused, f.uncertain, v.lost, v.doubled)
	if f.unanswered > 0 {
		b.t.Errorf("%d requests got no answer", f.unanswered)
	}
}

// While the disk is full, what would write is refused with a 503, and reads go on. When
// there is space again the same process goes on. Nothing that was acknowledged is lost.
func TestFullFileSystemIsAnswered503AndPasses(t *testing.T) {
	t.Parallel()
	if !mounting(t, "TestFileSizeLimitIsAnswered503") {
		return
	}
	disk := newMount(t, "size=24m")
	db := newFileIn(t, disk.path)
	b := besiege(t, start(t, db.url), db, false)
	for range 2 {
		disk.fill()
		b.hold()
		disk.free()
		b.waitForService()
	}
	b.lift()
}

// The same with a limit of the process.
func TestFileSizeLimitIsAnswered503(t *testing.T) {
	t.Parallel()
	db := newFile(t)
	s := startLimited(t, "-f 4096", db.url) // 2 MiB, or 4 where the shell counts in kilobytes
	b := besiege(t, s, db, false)
	b.hold()
	b.stop()
	s.signalAndWait()
	b.ledger.ended()
	v := b.ledger.audit(db.read(t), forever)
	v.report(t)
	s.checkRefusals()
}

// A database server whose disk is full is no different.
func TestFullTablespaceIsAnswered503AndPasses(t *testing.T) {
	t.Parallel()
	owner, _, err := postgrestest.Unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 { // PostgreSQL would be root in a namespace, which it refuses
		t.Log("only root can mount for PostgreSQL: TestAFullDiskOfTheServerIsUnavailable has its error alone")
		return
	}
	if !mounting(t, "TestAFullDiskOfTheServerIsUnavailable") {
		return
	}
	disk := newMount(t, fmt.Sprintf("size=48m,uid=%d,mode=700", owner.Uid))
	db := newRemoteIn(t, postgrestest.Shared(t), disk.path)
	b := besiege(t, start(t, db.url), db, false)
	for range 2 {
		disk.fill()
		b.hold()
		disk.free()
		b.waitForService()
	}
	b.lift()
}
