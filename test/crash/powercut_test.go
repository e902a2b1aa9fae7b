package crash

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/config"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/powercut"
	"atrium/internal/store/engine/sqlite"
)

// A bench is the whole service in this process, on a simulated disk with power cuts.
type bench struct {
	t       *testing.T
	disk    *powercut.FS
	path    string
	tenants []*tenant
	vfs     string // name of the disk's VFS
	db      engine.DB
	base    string       // URL of the service
	cancel  func()       // stops the service
	ended   <-chan error // result of Run
	stop    func()       // stops the service, and closes the database and the disk
}

var disks atomic.Int64

const databaseName = "atrium.db"

// newBench starts the service. wrap wraps its database.
func newBench(t *testing.T, wrap func(engine.DB) engine.DB) *bench {
	t.Helper()
	dir := t.TempDir()
	name := fmt.Sprintf("crash%d", disks.Add(1))
	disk, err := powercut.Register(name, dir)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, disk: disk, path: filepath.Join(dir, databaseName), vfs: name}
	b.open()
	b.tenants = createTenants(t, store.New(b.db, time.Now), 2)
	b.serve(wrap)
	stopped := false
	b.stop = func() {
		if stopped {
			return
		}
		stopped = true
		b.cancel()
		if err := <-b.ended; err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := b.db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := b.disk.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(b.stop)
	return b
}

// open opens the database.
func (b *bench) open() {
	b.t.Helper()
	var err error
	if b.db, err = sqlite.Open(b.path, sqlite.Options{VFS: b.vfs, Rewrite: b.disk.Rewrite}); err != nil {
		b.t.Fatal(err)
	}
}

// serve starts the service on the database. wrap wraps the database.
func (b *bench) serve(wrap func(engine.DB) engine.DB) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.t.Context()))
	settings := config.Default()
	settings.Addr = "127.0.0.1:0"
	service, err := app.New(ctx, app.Config{Settings: settings, Store: store.New(wrap(b.db), time.Now), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan error, 1)
	b.base, b.cancel, b.ended = "http://"+service.Addr(), cancel, ended
	go func() { ended <- service.Run(ctx) }()
}

func asItIs(db engine.DB) engine.DB { return db }

// fillLog fills the WAL to just below the size that triggers a checkpoint, with entries of
// a tenant that is not audited.
func (b *bench) fillLog() {
	b.t.Helper()
	s := store.New(b.db, time.Now)
	payload := []byte(`{"fill":"` + strings.Repeat("x", 1_000_000) + `"}`)
	of := createTenants(b.t, s, 1)[0]
	drafts := make([]*atrium.Draft, 30)
	for i := range drafts {
		drafts[i] = &atrium.Draft{
			ID: atrium.NewID[atrium.EntryID](), TenantID: of.id,
			Submission: atrium.Submission{Source: "fill", Type: "fill", Payload: payload}, Domain: "fill.example",
		}
	}
	if _, err := s.Append(b.t.Context(), drafts); err != nil {
		b.t.Fatal(err)
	}
	if b.checkpointed() {
		b.t.Fatal("the log was checkpointed while it was filled")
	}
}

// checkpointed reports whether a checkpoint has moved the entries of fillLog into the
// database file.
func (b *bench) checkpointed() bool {
	info, err := os.Stat(b.path)
	if err != nil {
		b.t.Fatal(err)
	}
	return info.Size() > 8<<20
}

// cut audits the state after a power cut at this moment: the worst case for seed 0,
// otherwise one of the other possible states.
func (b *bench) cut(l *ledger, seed uint64) *verdict {
	b.t.Helper()
	dir, err := os.MkdirTemp(b.t.TempDir(), "cut-")
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	before := l.now()
	if seed == 0 {
		err = b.disk.Snapshot(dir)
	} else {
		err = b.disk.SnapshotSubset(dir, seed)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return b.auditFile(l, filepath.Join(dir, databaseName), before)
}

func (b *bench) auditFile(l *ledger, path string, before int64) *verdict {
	b.t.Helper()
	stored, err := readFile(b.t.Context(), path, b.tenants)
	if err != nil {
		return &verdict{faults: []string{err.Error()}}
	}
	return l.audit(stored, before)
}

// finish stops the service and audits its database.
func (b *bench) finish(l *ledger) {
	b.t.Helper()
	b.stop()
	l.ended()
	b.auditFile(l, b.path, forever).report(b.t)
}

// cuts cuts the power n times at random moments, every other time in the worst case, until
// stop returns true for a verdict.
func (b *bench) cuts(l *ledger, rng *rand.Rand, n int, stop func(*verdict) bool) {
	for i := range n {
		time.Sleep(time.Duration(rng.IntN(int(60 * time.Millisecond))))
		if stop(b.cut(l, uint64(i%2)*rng.Uint64())) {
			return
		}
	}
}

// Everything acknowledged before a power cut is stored.
func TestPowerCutLosesNothingAcknowledged(t *testing.T) {
	rng := random(t)
	b := newBench(t, asItIs)
	clients, l := newClients(t, rng, 8, b.tenants)
	ctx, cancel := context.WithCancel(t.Context())
	wait := load(ctx, clients, b.base)
	number, lost := 0, 0
	b.cuts(l, rng, 16, func(v *verdict) bool {
		v.report(t)
		number, lost = number+1, lost+v.lost
		return t.Failed()
	})
	cancel()
	wait()
	b.finish(l)
	t.Logf("the power was cut %d times: sent %d, acknowledged %d, lost %d", number, l.figures.sent, l.acks(), lost)
}

// The same during a checkpoint.
func TestPowerCutDuringACheckpointLosesNothing(t *testing.T) {
	rng := random(t)
	b := newBench(t, asItIs)
	clients, l := newClients(t, rng, 8, b.tenants)
	b.fillLog()
	ctx, cancel := context.WithCancel(t.Context())
	wait := load(ctx, clients, b.base)
	after := 0
	b.cuts(l, rng, 40, func(v *verdict) bool {
		v.report(t)
		if b.checkpointed() {
			after++
		}
		return t.Failed() || after == 3
	})
	cancel()
	wait()
	if after == 0 {
		t.Error("there was no checkpoint")
	}
	b.finish(l)
}

// A service that responds before the commit is durable is detected. This proves that the
// test above can fail.
func TestPowerCutDetectsAnEarlyAcknowledgement(t *testing.T) {
	rng := random(t)
	b := newBench(t, func(db engine.DB) engine.DB { return earlyAck{db} })
	clients, l := newClients(t, rng, 8, b.tenants)
	for _, c := range clients {
		c.unread = true // acknowledged entries may not be stored yet
	}
	ctx, cancel := context.WithCancel(t.Context())
	wait := load(ctx, clients, b.base)
	lost := 0
	b.cuts(l, rng, 100, func(v *verdict) bool {
		lost += v.lost
		return lost > 0
	})
	cancel()
	wait()
	b.finish(l)
	if lost == 0 {
		t.Error("nothing was lost")
	}
}

// earlyAck is a database that reports a transaction as durable just before it commits.
type earlyAck struct{ engine.DB }

func (h earlyAck) Write(ctx context.Context, f func(engine.Tx) error) error {
	done := make(chan error, 2)
	go func() {
		done <- h.DB.Write(context.WithoutCancel(ctx), func(tx engine.Tx) error {
			err := f(tx)
			done <- err
			time.Sleep(5 * time.Millisecond)
			return err
		})
	}()
	return <-done
}
