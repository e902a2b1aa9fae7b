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

// A bench is the whole service in this process, on a disk whose power can be
// cut.
type bench struct {
	t       *testing.T
	disk    *powercut.FS
	path    string
	tenants []*tenant
	vfs     string // of the disk
	db      engine.DB
	base    string       // URL of the service
	cancel  func()       // tells the service to end
	ended   <-chan error // what Run has returned
	stop    func()       // ends the service, and closes the database and the disk
}

var disks atomic.Int64

const databaseName = "atrium.db"

// newBench starts the service. wrap changes the database that it is given.
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

// serve starts the service on the database. wrap changes the database that it is given.
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

// fillLog makes the write-ahead log almost as long as it gets before a
// checkpoint, with entries of a tenant that no audit looks at.
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

// checkpointed reports whether a checkpoint has moved the entries of fillLog
// into the database file.
func (b *bench) checkpointed() bool {
	info, err := os.Stat(b.path)
	if err != nil {
		b.t.Fatal(err)
	}
	return info.Size() > 8<<20
}

// cut audits what a power cut now would leave: in the worst case for seed 0, and
// else in one of the other possible ones.
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

// finish ends the service and audits its database.
func (b *bench) finish(l *ledger) {
	b.t.Helper()
	b.stop()
	l.ended()
	b.auditFile(l, b.path, forever).report(b.t)
}

// cuts cuts the power n times at random moments, every other time in the worst
// case, until a verdict is one that stop wants.
func (b *bench) cuts(l *ledger, rng *rand.Rand, n int, stop func(*verdict) bool) {
	for i := range n {
		time.Sleep(time.Duration(rng.IntN(int(60 * time.Millisecond))))
		if stop(b.cut(l, uint64(i%2)*rng.Uint64())) {
			return
		}
	}
}

// What was acknowledged before the power went is there when it is back.
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

// The same holds while a checkpoint moves what the log has into the database
// file.
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

// A service that answers before the commit is durable is found out: this is
// what shows that the test above can fail.
func TestPowerCutShowsAnAnswerThatCameTooEarly(t *testing.T) {
	rng := random(t)
	b := newBench(t, func(db engine.DB) engine.DB { return hasty{db} })
	clients, l := newClients(t, rng, 8, b.tenants)
	for _, c := range clients {
		c.unread = true // what was answered too early may not be there yet
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

// hasty is a database that says that a transaction is durable when it is about
// to commit it.
type hasty struct{ engine.DB }

func (h hasty) Write(ctx context.Context, f func(engine.Tx) error) error {
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
