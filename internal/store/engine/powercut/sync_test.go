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

// refusedID is the row of the commit whose sync fails.
const refusedID = 1000

// insertRefused makes the commit whose sync fails.
func (f *filling) insertRefused(t *testing.T) error {
	t.Helper()
	return f.Write(t.Context(), func(tx engine.Tx) error {
		_, err := tx.Exec("INSERT INTO t VALUES ($1, zeroblob(100000))", int64(refusedID))
		return err
	})
}

// wantFatal holds that the engine has reported a fatal error, and that nothing is written after it.
func (f *filling) wantFatal(t *testing.T) {
	t.Helper()
	select {
	case err := <-f.Fatal():
		if !strings.Contains(err.Error(), "start again") {
			t.Errorf("the error does not say what to do: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("no fatal error was reported")
	}
	if err := f.insertRefused(t); engine.ClassOf(err) != engine.Unavailable {
		t.Errorf("a write after a failed sync: %v", err)
	}
	if err := f.Purge(t.Context(), 0); engine.ClassOf(err) != engine.Unavailable {
		t.Errorf("a purge after a failed sync: %v", err)
	}
	if err := f.Query(t.Context(), "SELECT count(*) FROM t", nil, func(engine.Row) error { return nil }); err != nil {
		t.Errorf("a read after a failed sync: %v", err)
	}
}

// reopen does what the next process does after this one has ended.
func (f *filling) reopen(t *testing.T) {
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

// mustKeep holds that a power cut at this moment loses none of what was acknowledged. It returns
// what is left.
func (f *filling) mustKeep(t *testing.T, when string) recovered {
	t.Helper()
	r := restart(t, f.fs, 0)
	if r.integrity != "ok" || !r.has(1, f.count) {
		t.Fatalf("%s: integrity %s, rows %v, want 1 to %d", when, r.integrity, r.ids, f.count)
	}
	return r
}

// syncFaults make a sync fail, of a commit or of a checkpoint that follows one that was not synced.
var syncFaults = map[string]func(t *testing.T, f *filling){
	"of a commit": func(t *testing.T, f *filling) {
		f.fs.FailSync(true)
		if err := f.insertRefused(t); engine.ClassOf(err) != engine.Uncertain {
			t.Errorf("%v, want an uncertain commit", err)
		}
	},
	"of the first commit of a WAL": func(t *testing.T, f *filling) {
		if err := f.Purge(t.Context(), 0); err != nil { // truncates the WAL
			t.Fatal(err)
		}
		f.fs.FailSync(true)
		if err := f.insertRefused(t); engine.ClassOf(err) != engine.Uncertain {
			t.Errorf("%v, want an uncertain commit", err)
		}
	},
	"of a checkpoint": func(t *testing.T, f *filling) {
		f.partialCheckpoint(t)
		f.fs.FailSync(true, dbName)
		f.add(t, 10_500)
		f.seen.want(t, "passive false")
	},
	"of the writer's checkpoint": func(t *testing.T, f *filling) {
		f.partialCheckpoint(t)
		waits, goOn := f.holdWrites(t)
		f.add(t, 10_500)
		<-waits
		f.fs.FailSync(true, dbName)
		f.add(t, 1)
		goOn()
		f.seen.want(t, "passive true", "final false")
	},
	"of a commit during a checkpoint": func(t *testing.T, f *filling) {
		waits, goOn := f.holdWrites(t)
		f.add(t, 10_000)
		<-waits
		f.fs.FailSync(true)
		if err := f.insertRefused(t); engine.ClassOf(err) != engine.Uncertain {
			t.Errorf("%v, want an uncertain commit", err)
		}
		goOn()
		f.seen.want(t, "passive false")
	},
}

// partialCheckpoint makes a checkpoint that backfills pages without a sync, because there is a
// commit that it does not backfill.
func (f *filling) partialCheckpoint(t *testing.T) {
	t.Helper()
	waits, goOn := f.holdWrites(t)
	f.add(t, 10_000)
	<-waits
	f.add(t, 1)
	goOn()
	f.seen.want(t, "passive true")
}

// After a failed sync nothing is acknowledged, and the next process loses nothing that was: neither what
// the failed sync dropped from the disk, nor what is committed later.
func TestAFailedSyncIsFatalAndLosesNothing(t *testing.T) {
	for name, fail := range syncFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFilling(t)
			f.fs.DropSync(true)
			f.add(t, 10)
			fail(t, f)
			f.wantFatal(t)
			f.mustKeep(t, "after the failed sync")
			f.fs.FailSync(false)
			f.reopen(t)
			refused := f.mustKeep(t, "after recovery").has(refusedID, refusedID)
			for range 2 {
				f.add(t, 1)
				f.mustKeep(t, "after a later commit")
			}
			if err := f.Purge(t.Context(), 0); err != nil { // backfills all
				t.Fatal(err)
			}
			f.add(t, 1)
			if got := f.mustKeep(t, "after a later checkpoint").has(refusedID, refusedID); got != refused {
				t.Errorf("the refused commit is there after recovery: %v, and later: %v", refused, got)
			}
		})
	}
}

// The power may go at any moment of a recovery.
func TestAPowerCutDuringRecoveryLosesNothing(t *testing.T) {
	for name, fail := range syncFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFilling(t)
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
				seed := uint64(changes % 2 * changes) // every other one the worst case
				if r := restart(t, f.fs, seed); r.integrity != "ok" || !r.has(1, f.count) {
					t.Errorf("before change %d, of %s, seed %d: integrity %s, rows %v", changes, file, seed, r.integrity, r.ids)
				}
			})
			err := f.open()
			f.fs.Before(nil)
			if err != nil {
				t.Fatal(err)
			}
			if changes == 0 {
				t.Error("recovery has changed nothing")
			}
			f.mustKeep(t, "after recovery")
		})
	}
}

// A sync that fails during recovery keeps the database from being opened, until one succeeds.
func TestARecoveryWhoseSyncFailsIsRepeated(t *testing.T) {
	for _, file := range []string{dbName, dbName + "-wal"} {
		t.Run(file, func(t *testing.T) {
			f := newFilling(t)
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

// Another process keeps the WAL-index, and with it what a failed checkpoint counted as backfilled.
func TestRecoveryWaitsUntilNoProcessHasTheDatabaseOpen(t *testing.T) {
	f := newFilling(t)
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
	f.mustKeep(t, "after a recovery that was refused")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	f.reopen(t)
	f.add(t, 1)
	f.mustKeep(t, "after recovery")
}
