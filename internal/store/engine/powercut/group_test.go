package powercut_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/powercut"
)

// Writes that share a commit are all in it or none is, and none returns before it.
func TestACommitThatFailsFailsEveryWriteOfIt(t *testing.T) {
	dir, name := t.TempDir(), fmt.Sprintf("powercut%d", vfsCount.Add(1))
	fs, err := powercut.Register(name, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fs.Close() })
	db, err := engine.OpenSQLite(filepath.Join(dir, dbName), engine.SQLiteOptions{VFS: name})
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
	fs.FailSync(true)
	writeAll(func(n int, err error) {
		if engine.ClassOf(err) != engine.Uncertain {
			t.Errorf("write %d: %v, want an uncertain commit", n, err)
		}
	})
	fs.FailSync(false)
	writeAll(func(n int, err error) {
		if err != nil {
			t.Errorf("write %d: %v", n, err)
		}
		if r := restart(t, fs, 0); !r.has(n, n) {
			t.Errorf("write %d has returned, and a power cut loses it", n)
		}
	})
}
