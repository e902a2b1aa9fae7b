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

// checkpoints receives the checkpoints that the engine reports.
type checkpoints chan string

func (checkpoints) Wrote(context.Context, time.Duration, int, bool) {}

func (c checkpoints) Checkpointed(mode string, _ time.Duration, done bool) {
	c <- fmt.Sprintf("%s %t", mode, done)
}

// want waits for the given checkpoints.
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

// A testDB is a database on a simulated disk.
type testDB struct {
	engine.DB
	fs    *powercut.FS
	path  string
	seen  checkpoints
	vfs   string
	count int
}

func newTestDB(t *testing.T) *testDB {
	t.Helper()
	dir, name := t.TempDir(), fmt.Sprintf("powercut%d", vfsCount.Add(1))
	fs, err := powercut.Register(name, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fs.Close() })
	f := &testDB{fs: fs, path: filepath.Join(dir, dbName), seen: make(checkpoints, 100), vfs: name}
	if err := f.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Write(t.Context(), func(tx engine.Tx) error { return tx.Script(createTable) }); err != nil {
		t.Fatal(err)
	}
	return f
}

// open opens the database. It may be called again after Close.
func (f *testDB) open() error {
	db, err := sqlite.Open(f.path, sqlite.Options{Observer: f.seen, VFS: f.vfs, Rewrite: f.fs.Rewrite})
	if err == nil {
		f.DB = db
	}
	return err
}

// add commits a row of the given number of pages. It fails the test if the commit blocks.
func (f *testDB) add(t *testing.T, pages int64) {
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
		t.Fatal("a checkpoint blocks a commit")
	}
}

// holdWrites blocks the next write of the database file until resume is called. The channel blocked
// is closed when the write blocks.
func (f *testDB) holdWrites(t *testing.T) (blocked <-chan struct{}, resume func()) {
	t.Helper()
	begun, end := make(chan struct{}), make(chan struct{})
	resume = sync.OnceFunc(func() { close(end) })
	t.Cleanup(resume) // before the database is closed
	held := false
	f.fs.Before(func(name string) {
		if name == dbName && !held {
			held = true
			close(begun)
			<-end
		}
	})
	return begun, resume
}

// A WAL that cannot be backfilled grows until the disk is full, so failed checkpoints are reported.
// Commits still succeed.
func TestAFailedCheckpointIsReported(t *testing.T) {
	f := newTestDB(t)
	f.fs.FailWrites(true, dbName)
	f.add(t, 10_000)
	f.seen.want(t, "passive false")
	f.fs.FailWrites(false)
	f.add(t, 1)
	f.seen.want(t, "passive true")
}

// Most of a checkpoint, which can take long in a large database, runs concurrently with commits.
// Their pages are backfilled too, and the WAL is reset.
func TestACheckpointDoesNotBlockCommits(t *testing.T) {
	f := newTestDB(t)
	blocked, resume := f.holdWrites(t)
	f.add(t, 18_000)
	<-blocked
	for range 3 {
		f.add(t, 1000)
	}
	resume()
	f.seen.want(t, "passive true", "passive true", "final true")
	f.add(t, 1)
	if n := f.Stats().WALBytes; n > 100_000 {
		t.Errorf("the WAL still has %d bytes", n)
	}
}

// A long read prevents a WAL reset. Commits do not wait for it each time, and the WAL is reset once
// it has ended.
func TestAWALHeldByAReaderIsResetAfterIt(t *testing.T) {
	f := newTestDB(t)
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
	if n := f.Stats().WALBytes; n > 100_000 {
		t.Errorf("the WAL still has %d bytes", n)
	}
}

// A large WAL that a long read keeps from being reset is reported until that read has ended, even
// without further commits.
func TestALargeWALHeldByAReaderIsReported(t *testing.T) {
	f := newTestDB(t)
	go func() { // not of interest
		for range f.seen {
		}
	}()
	reader := open(t, f.fs)
	run(t, reader, "BEGIN")
	run(t, reader, "SELECT * FROM t")
	wait := func(blocked bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); f.Stats().WALBlocked != blocked; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("WALBlocked is %v with %d bytes", !blocked, f.Stats().WALBytes)
			}
		}
	}
	for range 3 {
		f.add(t, 20_000)
	}
	if f.Stats().WALBlocked {
		t.Errorf("reported with %d bytes", f.Stats().WALBytes)
	}
	f.add(t, 14_000)
	wait(true)
	run(t, reader, "COMMIT")
	wait(false)
	f.add(t, 1)
	if n := f.Stats().WALBytes; n > 100_000 {
		t.Errorf("the WAL still has %d bytes", n)
	}
}

// Close waits for a running checkpoint.
func TestCloseWaitsForARunningCheckpoint(t *testing.T) {
	f := newTestDB(t)
	blocked, resume := f.holdWrites(t)
	f.add(t, 10_000)
	<-blocked
	closed := make(chan error, 1)
	go func() { closed <- f.Close() }()
	select {
	case err := <-closed:
		t.Error("closed during a checkpoint:", err)
	case <-time.After(50 * time.Millisecond):
	}
	resume()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if r := restart(t, f.fs, 0); r.integrity != "ok" || !r.has(1, 1) {
		t.Errorf("after a power cut: integrity %s, rows %v", r.integrity, r.ids)
	}
}
