package powercut_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/powercut"
	"atrium/internal/store/engine/sqlite"
)

// checkpoints are told of those that there were.
type checkpoints chan string

func (checkpoints) Wrote(context.Context, time.Duration, int, bool) {}

func (c checkpoints) Checkpointed(mode string, _ time.Duration, done bool) {
	c <- fmt.Sprintf("%s %t", mode, done)
}

// want waits for checkpoints.
func (c checkpoints) want(t *testing.T, all ...string) {
	t.Helper()
	var seen []string
	for range all {
		select {
		case one := <-c:
			seen = append(seen, one)
		case <-time.After(time.Minute):
			t.Fatalf("checkpoints were %q, want %q", seen, all)
		}
	}
	if !slices.Equal(seen, all) {
		t.Fatalf("checkpoints were %q, want %q", seen, all)
	}
}

// A filling is a database whose log is filled.
type filling struct {
	engine.DB
	fs    *powercut.FS
	path  string
	seen  checkpoints
	vfs   string
	count int
}

func newFilling(t *testing.T) *filling {
	t.Helper()
	dir, name := t.TempDir(), fmt.Sprintf("powercut%d", vfsCount.Add(1))
	fs, err := powercut.Register(name, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fs.Close() })
	f := &filling{fs: fs, path: filepath.Join(dir, dbName), seen: make(checkpoints, 100), vfs: name}
	if err := f.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Write(t.Context(), func(tx engine.Tx) error { return tx.Script(createTable) }); err != nil {
		t.Fatal(err)
	}
	return f
}

// open opens the database, again if it was closed.
func (f *filling) open() error {
	db, err := sqlite.Open(f.path, sqlite.Options{Observer: f.seen, VFS: f.vfs, Rewrite: f.fs.Rewrite})
	if err == nil {
		f.DB = db
	}
	return err
}

// add commits so many pages, in time.
func (f *filling) add(t *testing.T, pages int64) {
	t.Helper()
	f.count++
	written := make(chan error, 1)
	go func() {
		written <- f.Write(t.Context(), func(tx engine.Tx) error {
			_, err := tx.Exec("INSERT INTO t VALUES ($1, zeroblob($2))", int64(f.count), pages*4096)
			return err
		})
	}()
	select {
	case err := <-written:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		f.fs.Before(nil)
		t.Fatal("a commit waits for a checkpoint")
	}
}

// holdWrites keeps the next write of the database file waiting until go on is called.
func (f *filling) holdWrites(t *testing.T) (waits <-chan struct{}, goOn func()) {
	t.Helper()
	begun, end := make(chan struct{}), make(chan struct{})
	goOn = sync.OnceFunc(func() { close(end) })
	t.Cleanup(goOn) // before the database is closed
	held := false
	f.fs.Before(func(name string) {
		if name == dbName && !held {
			held = true
			close(begun)
			<-end
		}
	})
	return begun, goOn
}

// A log that cannot be moved into the database grows until the disk is full: somebody has
// to be told. What is committed is not concerned.
func TestACheckpointThatFailsIsReported(t *testing.T) {
	f := newFilling(t)
	f.fs.FailWrites(true, dbName)
	f.add(t, 10_000)
	f.seen.want(t, "passive false")
	f.fs.FailWrites(false)
	f.add(t, 1)
	f.seen.want(t, "passive true")
}

// Nobody waits for most of a checkpoint, which can take long in a large database. What is
// committed meanwhile is moved too, and the log starts over.
func TestCommitsGoOnDuringACheckpoint(t *testing.T) {
	f := newFilling(t)
	waits, goOn := f.holdWrites(t)
	f.add(t, 18_000)
	<-waits
	for range 3 {
		f.add(t, 1000)
	}
	goOn()
	f.seen.want(t, "passive true", "passive true", "final true")
	f.add(t, 1)
	if n := f.Stats().LogBytes; n > 100_000 {
		t.Errorf("the log has %d bytes behind it", n)
	}
}

// A read that goes on keeps the log from starting over. Nobody waits for it at every commit,
// and once it has ended the log does.
func TestALogThatAReadHoldsStartsOverBehindIt(t *testing.T) {
	f := newFilling(t)
	reader := open(t, f.fs)
	run(t, reader, "BEGIN")
	run(t, reader, "SELECT * FROM t")
	f.add(t, 20_500)
	f.seen.want(t, "passive true", "final true")
	for range 2 {
		f.add(t, 1)
		f.seen.want(t, "passive true")
	}
	f.add(t, 12_000)
	f.seen.want(t, "passive true", "restart true")
	run(t, reader, "COMMIT")
	f.add(t, 1)
	f.seen.want(t, "passive true")
	f.add(t, 1)
	if n := f.Stats().LogBytes; n > 100_000 {
		t.Errorf("the log has %d bytes behind it", n)
	}
}

// Who closes a database waits for its checkpoint.
func TestADatabaseIsClosedBehindACheckpoint(t *testing.T) {
	f := newFilling(t)
	waits, goOn := f.holdWrites(t)
	f.add(t, 10_000)
	<-waits
	closed := make(chan error, 1)
	go func() { closed <- f.Close() }()
	select {
	case err := <-closed:
		t.Error("closed while a checkpoint was made:", err)
	case <-time.After(50 * time.Millisecond):
	}
	goOn()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if r := restart(t, f.fs, 0); r.integrity != "ok" || !r.has(1, 1) {
		t.Errorf("left: integrity %s, rows %v", r.integrity, r.ids)
	}
}
