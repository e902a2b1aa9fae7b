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

// Writes that share a commit are all in it or none is, and none returns before it.
func TestACommitThatFailsFailsEveryWriteOfIt(t *testing.T) {
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
	writeAll := func(judge func(n int, err error)) {
		var all sync.WaitGroup
		for n := 1; n <= 40; n++ {
			all.Go(func() {
				judge(n, db.Write(t.Context(), func(tx engine.Tx) error {
					_, err := tx.Exec("INSERT INTO t VALUES ($1, zeroblob(10))", int64(n))
					return err
				}))
			})
		}
		all.Wait()
	}
	// One that holds the lock lets all others queue for the next commit.
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
		case engine.Unavailable: // it came later
		default:
			t.Errorf("write %d: %v, want an uncertain commit or none", n, err)
		}
	})
	if uncertain.Load() < 2 {
		t.Errorf("%d writes shared the commit that failed", uncertain.Load())
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
		t.Fatal(err) // whatever of the uncertain commit is there
	}
	writeAll(func(n int, err error) {
		if err != nil {
			t.Errorf("write %d: %v", n, err)
		}
		if r := restart(t, fs, 0); !r.has(n, n) {
			t.Errorf("write %d has returned, and a power cut loses it", n)
		}
	})
}
