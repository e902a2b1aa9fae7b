package sqlite

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"atrium/internal/store/engine"
)

// WAL checkpoints.
//
// SQLite's automatic checkpoints would run after every commit once the WAL is long, and sync the
// database each time. Here, a checkpoint runs on its own connection, concurrently with writes, once
// checkpointPages pages wait for backfill. In a database of many gigabytes these pages are
// scattered, and to write and sync them takes a third of a second.
//
// The WAL is reset by the first commit after all of it was backfilled. Under constant writes that
// never happens by itself. For a WAL of resetPages, checkpoints therefore repeat: each backfills
// what was committed during the one before, and so has less to do, until at most maxFinalPages wait
// or the writers are too fast. The final checkpoint, which backfills the rest and syncs the
// database, holds the write lock.
//
// The WAL can be reset only when no reader uses it. From restartPages on, the final checkpoint is a
// RESTART, which waits up to restartWait for readers. If a reader still prevents the reset, the
// write lock is not taken again before the WAL has grown by checkpointPages. From maxWALPages on,
// Stats reports that, so that callers end long reads, and checkpoints repeat until one succeeds.
const (
	checkpointPages = 8000                     // pages to backfill at which a checkpoint starts
	maxFinalPages   = 500                      // pages to leave for the final checkpoint if possible
	resetPages      = 20000                    // WAL length at which it is reset
	restartPages    = 32000                    // WAL length at which the final checkpoint waits for readers
	maxWALPages     = 64000                    // WAL length at which long reads should end
	walSizeLimit    = restartPages * pageBytes // a longer WAL file is truncated to this at a reset
	restartWait     = 100 * time.Millisecond   // maximum wait for readers
	checkpointPause = time.Second              // pause after a failed checkpoint
	blockedPause    = 100 * time.Millisecond   // pause after a checkpoint that readers blocked at maxWALPages
)

// checkpointIfDue wakes checkpointLoop if enough pages wait for backfill. The caller holds the
// write lock.
func (db *database) checkpointIfDue() {
	pages, pending, err := db.runCheckpoint(db.writer, "NOOP")
	if err != nil {
		return // the next commit tries again
	}
	db.walPages.Store(pages)
	if pages < resetPages {
		db.blockingPages.Store(resetPages)
	}
	if pending < checkpointPages && pages < db.blockingPages.Load() {
		return
	}
	select {
	case db.checkpointDue <- struct{}{}:
	default: // already signaled
	}
}

// checkpointLoop runs checkpoints until the database is closed. A failed checkpoint loses nothing
// that is committed. It is retried after a later commit, unless a sync has failed.
func (db *database) checkpointLoop() {
	defer func() { _ = db.checkpointer.conn.Close() }() // no transaction is open
	for {
		var truncated chan<- error // receives the result of a truncation; nil if none was requested
		var repeat <-chan time.Time
		if db.walBlocked.Load() {
			repeat = time.After(blockedPause)
		}
		select {
		case <-db.closing:
			return
		case <-db.checkpointDue:
		case truncated = <-db.truncateRequests:
		case <-repeat:
			db.blockingPages.Store(0)
		}
		var err error
		switch {
		case !db.canCheckpoint():
			err = cmp.Or(db.refusal(), error(errClosed))
		case truncated != nil:
			err = db.truncate()
		default:
			err = db.checkpointWAL(db.checkpointer)
		}
		if truncated != nil {
			truncated <- err
		}
		if err == nil || truncated != nil && isBlocked(err) {
			continue
		}
		select {
		case <-db.closing:
			return
		case <-time.After(checkpointPause):
		}
	}
}

// checkpointWAL backfills the WAL, and lets a long one be reset.
func (db *database) checkpointWAL(c *connection) error {
	pages, pending, err := db.runCheckpoint(c, "NOOP")
	if err != nil {
		return err
	}
	if pages < db.blockingPages.Load() {
		if pending < checkpointPages { // another process has backfilled them
			return nil
		}
		return db.checkpoint(c, "passive", "PASSIVE")
	}
	before, maxPages := int64(math.MaxInt64), pages+restartPages-resetPages
	for pending > maxFinalPages && pending < before/4*3 && pages < maxPages && db.canCheckpoint() {
		before = pending
		if err := db.checkpoint(c, "passive", "PASSIVE"); err != nil {
			return err
		}
		if pages, pending, err = db.runCheckpoint(c, "NOOP"); err != nil {
			return err
		}
	}
	return db.finalCheckpoint()
}

// finalCheckpoint backfills the rest of the WAL while it holds the write lock.
func (db *database) finalCheckpoint() error {
	if err := db.lockWriter(context.Background()); err != nil {
		return err
	}
	defer db.unlockWriter()
	db.commit()
	if !db.canCheckpoint() {
		return nil
	}
	pages := db.walPages.Load()
	name, mode, next := "final", "PASSIVE", min(pages+checkpointPages, restartPages)
	if pages >= restartPages {
		name, mode, next = "restart", "RESTART", pages+checkpointPages
		if !db.walBlocked.Load() { // the next try comes soon
			db.writer.conn.SetBusyTimeout(restartWait)
		}
		defer db.writer.conn.SetBusyTimeout(0)
	}
	err := db.checkpoint(db.writer, name, mode)
	blocked := errors.Is(err, errReadersActive)
	if blocked {
		err = nil // the WAL was backfilled as far as the readers allow
	}
	if err == nil {
		db.blockingPages.Store(next)
		db.walBlocked.Store(blocked && pages >= maxWALPages)
	}
	return err
}

// canCheckpoint reports whether a checkpoint may run: the database is not being closed, which runs
// one as well, is not damaged, has all its files, and no sync has failed.
func (db *database) canCheckpoint() bool {
	select {
	case <-db.closing:
		return false
	default:
		return db.refusal() == nil && !db.files.lost.Load()
	}
}

// errCheckpointing is returned while another process runs a checkpoint.
var errCheckpointing = &engine.Error{
	Class: engine.Unavailable, Err: errors.New("another process is running a checkpoint"),
}

// checkpoint runs a checkpoint and reports it to the observer under name, unless another process
// blocked it, or readers blocked the truncation.
func (db *database) checkpoint(c *connection, name, mode string) error {
	start := time.Now()
	_, _, err := db.runCheckpoint(c, mode)
	complete := err == nil || mode == "RESTART" && errors.Is(err, errReadersActive) // backfilled as far as the readers allow
	if complete || !isBlocked(err) {
		db.options.Observer.Checkpointed(name, time.Since(start), complete)
	}
	return err
}

// runCheckpoint runs a checkpoint. It returns the length of the WAL in pages, and how many of them
// are not backfilled yet. NOOP only returns these numbers.
func (db *database) runCheckpoint(c *connection, mode string) (pages, pending int64, err error) {
	busy := false
	err = engine.Find(c.Query, "PRAGMA wal_checkpoint("+mode+")", nil, func(r engine.Row) {
		busy, pages, pending = r.Int(0) != 0, r.Int(1), r.Int(1)-r.Int(2)
	})
	switch {
	case err == nil && pages < 0:
		return 0, 0, errCheckpointing
	case err == nil && busy && (mode == "RESTART" || mode == "TRUNCATE"):
		return pages, pending, errReadersActive
	}
	return pages, pending, db.recordFailure(err)
}
