package powercut_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/powercut"
)

// checkpoints are the results of those that there were.
type checkpoints struct{ done []bool }

func (*checkpoints) Wrote(context.Context, time.Duration, int, bool) {}

func (c *checkpoints) Checkpointed(_ string, _ time.Duration, done bool) {
	c.done = append(c.done, done)
}

// A log that cannot be moved into the database grows until the disk is full: somebody has
// to be told. What is committed is not concerned.
func TestACheckpointThatFailsIsReported(t *testing.T) {
	dir, name := t.TempDir(), fmt.Sprintf("powercut%d", vfsCount.Add(1))
	fs, err := powercut.Register(name, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fs.Close() })
	var seen checkpoints
	db, err := engine.OpenSQLite(filepath.Join(dir, dbName), engine.SQLiteOptions{VFS: name, Observer: &seen})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	write := func(sql string) {
		t.Helper()
		if err := db.Write(t.Context(), func(tx engine.Tx) error { return tx.Script(sql) }); err != nil {
			t.Error(err)
		}
	}
	write(createTable)
	fs.FailWrites(true, dbName)
	write("INSERT INTO t VALUES (1, zeroblob(40000000))") // more pages than a log keeps
	fs.FailWrites(false)
	write("INSERT INTO t VALUES (2, zeroblob(1))")
	if !slices.Equal(seen.done, []bool{false, true}) {
		t.Errorf("checkpoints were done: %v, want one that was not and one that was", seen.done)
	}
}
