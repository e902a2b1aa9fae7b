package powercut_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"atrium/internal/store/engine"
)

// failedID is the row of the commit whose sync fails.
const failedID = 1000

// insertFailing runs the commit whose sync fails.
func (f *testDB) insertFailing(t *testing.T) error {
	t.Helper()
	return f.Write(t.Context(), func(tx engine.Tx) error {
		_, err := tx.Exec("INSERT INTO t VALUES ($1, zeroblob(100000))", int64(failedID))
		return err
	})
}

// wantFatal verifies that the engine has reported a fatal error, refuses writes and still serves
// reads.
func (f *testDB) wantFatal(t *testing.T) {
	t.Helper()
	select {
	case err := <-f.Fatal():
		if !strings.Contains(err.Error(), "start again") {
			t.Errorf("the error does not say how to fix it: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("no fatal error was reported")
	}
	if err := f.insertFailing(t); engine.ClassOf(err) != engine.Unavailable {
		t.Errorf("a write after a failed sync: %v", err)
	}
	if err := f.Purge(t.Context(), 0); engine.ClassOf(err) != engine.Unavailable {
		t.Errorf("a purge after a failed sync: %v", err)
	}
	if err := f.Query(t.Context(), "SELECT count(*) FROM t", nil, func(engine.Row) error { return nil }); err != nil {
		t.Errorf("a read after a failed sync: %v", err)
	}
}

// reopen closes and opens the database, as by the next process.
func (f *testDB) reopen(t *testing.T) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.open(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.path + "-unsynced"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the marker is still there: %v", err)
	}
}

// mustKeep verifies that a power cut at this moment loses no acknowledged row. It returns the
// recovered state.
func (f *testDB) mustKeep(t *testing.T, when string) recovered {
	t.Helper()
	r := restart(t, f.fs, 0)
	if r.integrity != "ok" || !r.has(1, f.count) {
		t.Fatalf("%s: integrity %s, rows %v, want 1 to %d", when, r.integrity, r.ids, f.count)
	}
	return r
}

// syncFaults make a sync fail: of a commit, or of a checkpoint after one that was not synced.
var syncFaults = map[string]func(t *testing.T, f *testDB){
	"of a commit": func(t *testing.T, f *testDB) {
		f.fs.FailSync(true)
		if err := f.insertFailing(t); engine.ClassOf(err) != engine.Uncertain {
			t.Errorf("%v, want an uncertain commit", err)
		}
	},
	"of the first commit of a WAL": func(t *testing.T, f *testDB) {
		if err := f.Purge(t.Context(), 0); err != nil { // truncates the WAL
			t.Fatal(err)
		}
		f.fs.FailSync(true)
		if err := f.insertFailing(t); engine.ClassOf(err) != engine.Uncertain {
			t.Errorf("%v, want an uncertain commit", err)
		}
	},
	"of a checkpoint": func(t *testing.T, f *testDB) {
		f.partialCheckpoint(t)
		f.fs.FailSync(true, dbName)
		f.add(t, 10_500)
		f.seen.want(t, "passive false")
	},
	"of the writer's checkpoint": func(t *testing.T, f *testDB) {
		f.partialCheckpoint(t)
		blocked, resume := f.holdWrites(t)
		f.add(t, 10_500)
		<-blocked
		f.fs.FailSync(true, dbName)
		f.add(t, 1)
		resume()
		f.seen.want(t, "passive true", "final false")
	},
	"of a commit during a checkpoint": func(t *testing.T, f *testDB) {
		blocked, resume := f.holdWrites(t)
		f.add(t, 10_000)
		<-blocked
		f.fs.FailSync(true)
		if err := f.insertFailing(t); engine.ClassOf(err) != engine.Uncertain {
			t.Errorf("%v, want an uncertain commit", err)
		}
		resume()
		f.seen.want(t, "passive false")
	},
}

// partialCheckpoint runs a checkpoint that backfills pages without a sync, because a concurrent
// commit is not backfilled.
func (f *testDB) partialCheckpoint(t *testing.T) {
	t.Helper()
	blocked, resume := f.holdWrites(t)
	f.add(t, 10_000)
	<-blocked
	f.add(t, 1)
	resume()
	f.seen.want(t, "passive true")
}

// After a failed sync, no write is acknowledged, and the next process loses no acknowledged data:
// neither data that the failed sync dropped, nor later commits.
func TestAFailedSyncIsFatalAndLosesNothing(t *testing.T) {
	for name, fail := range syncFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTestDB(t)
			f.fs.DropSync(true)
			f.add(t, 10)
			fail(t, f)
			f.wantFatal(t)
			f.mustKeep(t, "after the failed sync")
			f.fs.FailSync(false)
			f.reopen(t)
			recovered := f.mustKeep(t, "after recovery").has(failedID, failedID)
			for range 2 {
				f.add(t, 1)
				f.mustKeep(t, "after a later commit")
			}
			if err := f.Purge(t.Context(), 0); err != nil { // backfills all
				t.Fatal(err)
			}
			f.add(t, 1)
			if got := f.mustKeep(t, "after a later checkpoint").has(failedID, failedID); got != recovered {
				t.Errorf("the failed commit is there after recovery: %v, and later: %v", recovered, got)
			}
		})
	}
}

// Power cuts at random moments of a recovery.
func TestAPowerCutDuringRecoveryLosesNothing(t *testing.T) {
	for name, fail := range syncFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTestDB(t)
			f.fs.DropSync(true)
			f.add(t, 10)
			fail(t, f)
			f.wantFatal(t)
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			f.fs.FailSync(false)
			changes := 0
			f.fs.Before(func(file string) {
				changes++
				if changes > 4 && changes%6000 > 0 {
					return
				}
				seed := uint64(changes % 2 * changes) // every second one is the worst case
				if r := restart(t, f.fs, seed); r.integrity != "ok" || !r.has(1, f.count) {
					t.Errorf("before change %d of %s, seed %d: integrity %s, rows %v", changes, file, seed, r.integrity, r.ids)
				}
			})
			err := f.open()
			f.fs.Before(nil)
			if err != nil {
				t.Fatal(err)
			}
			if changes == 0 {
				t.Error("recovery has written nothing")
			}
			f.mustKeep(t, "after recovery")
		})
	}
}

// The database cannot be opened until the syncs of its recovery succeed.
func TestRecoveryIsRepeatedUntilItsSyncsSucceed(t *testing.T) {
	for _, file := range []string{dbName, dbName + "-wal"} {
		t.Run(file, func(t *testing.T) {
			f := newTestDB(t)
			f.fs.DropSync(true)
			f.add(t, 10)
			syncFaults["of a commit"](t, f)
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			f.fs.FailSync(true, file)
			for range 2 {
				err := f.open()
				if err == nil {
					t.Fatal("the database was opened")
				}
				f.mustKeep(t, fmt.Sprint("after ", err))
			}
			f.fs.FailSync(false)
			f.reopen(t)
			f.add(t, 1)
			f.mustKeep(t, "after recovery")
		})
	}
}

// Another process keeps the WAL-index, and in it the pages that a failed checkpoint counted as
// backfilled.
func TestRecoveryFailsWhileAnotherProcessHasTheDatabaseOpen(t *testing.T) {
	f := newTestDB(t)
	f.fs.DropSync(true)
	other := open(t, f.fs)
	run(t, other, "SELECT * FROM t")
	syncFaults["of a checkpoint"](t, f)
	f.wantFatal(t)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f.fs.FailSync(false)
	if err := f.open(); engine.ClassOf(err) != engine.Unavailable || !strings.Contains(err.Error(), "another process") {
		t.Fatalf("opened while another process has it open: %v", err)
	}
	f.mustKeep(t, "after the refused recovery")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	f.reopen(t)
	f.add(t, 1)
	f.mustKeep(t, "after recovery")
}
