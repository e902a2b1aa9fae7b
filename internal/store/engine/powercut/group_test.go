package powercut_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/powercut"
	"atrium/internal/store/engine/sqlite"
)

// A commit group is atomic, and no write returns before its commit.
func TestAFailedCommitFailsAllWritesOfItsGroup(t *testing.T) {
	dir, name := t.TempDir(), fmt.Sprintf("powercut%d", vfsCount.Add(1))
	fs, err := powercut.Register(name, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fs.Close() })
	db, err := sqlite.Open(filepath.Join(dir, dbName), sqlite.Options{VFS: name, Rewrite: fs.Rewrite})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.Write(t.Context(), func(tx engine.Tx) error { return tx.Script(createTable) }); err != nil {
		t.Fatal(err)
	}
	writeAll := func(check func(n int, err error)) {
		var all sync.WaitGroup
		for n := 1; n <= 40; n++ {
			all.Go(func() {
				check(n, db.Write(t.Context(), func(tx engine.Tx) error {
					_, err := tx.Exec("INSERT INTO t VALUES ($1, zeroblob(10))", int64(n))
					return err
				}))
			})
		}
		all.Wait()
	}
	// A write that holds the lock makes all others queue for the next commit.
	holds, release := make(chan struct{}), make(chan struct{})
	var first sync.WaitGroup
	first.Go(func() {
		_ = db.Write(t.Context(), func(engine.Tx) error {
			close(holds)
			<-release
			return errors.New("refused")
		})
	})
	<-holds
	fs.FailSync(true)
	time.AfterFunc(100*time.Millisecond, func() { close(release) })
	var uncertain atomic.Int64
	writeAll(func(n int, err error) {
		switch engine.ClassOf(err) {
		case engine.Uncertain:
			uncertain.Add(1)
		case engine.Unavailable: // not in the group
		default:
			t.Errorf("write %d: %v, want class Uncertain or Unavailable", n, err)
		}
	})
	if uncertain.Load() < 2 {
		t.Errorf("%d writes shared the failed commit, want several", uncertain.Load())
	}
	first.Wait()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	fs.FailSync(false)
	if db, err = sqlite.Open(filepath.Join(dir, dbName), sqlite.Options{VFS: name, Rewrite: fs.Rewrite}); err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), func(tx engine.Tx) error { return tx.Script("DELETE FROM t") }); err != nil {
		t.Fatal(err) // the uncertain commit may have succeeded
	}
	writeAll(func(n int, err error) {
		if err != nil {
			t.Errorf("write %d: %v", n, err)
		}
		if r := restart(t, fs, 0); !r.has(n, n) {
			t.Errorf("write %d has returned, but a power cut loses it", n)
		}
	})
}
