package sqlite

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"atrium/internal/store/engine"
)

// The rules of this file.
//
// SQLite's own checkpoints would run behind every commit once the log is long, and sync the
// database each time. Here one runs when checkpointPages wait, on a connection of its own,
// while others write: in a database of many gigabytes these pages lie anywhere, and to
// write and sync them takes a third of a second.
//
// The log starts over with a commit that finds all of it in the database. While others
// write that is never so by itself. Of a long log, what was committed during a checkpoint is
// left to another one, which has less to do, and so on until no more than lastPages wait, or
// the writers are too fast. For the rest, and to sync the database, the writer's turn is taken.
//
// It starts over only when no read is in its way, so behind maxLogPages the turn is for a
// checkpoint that waits, for a moment, for the reads that are. Where one stays in the way,
// the turn is not taken again before the log has grown by as much as a checkpoint moves.
const (
	checkpointPages = 8000
	lastPages       = 500
	longLog         = 20000 // in pages
	maxLogPages     = 32000
	keepLogBytes    = maxLogPages * pageBytes // what is left of a larger log when it starts over
	restartWait     = 100 * time.Millisecond
	checkpointPause = time.Second // behind one that failed
)

// watchLog has the log shortened if enough of it waits for that. It is called by who has the
// writer's turn.
func (db *database) watchLog() {
	pages, waiting, err := db.runCheckpoint(db.writer, "NOOP")
	if err != nil {
		return // the next commit looks again
	}
	db.logPages.Store(pages)
	if pages < longLog {
		db.nextTurn.Store(longLog)
	}
	if waiting < checkpointPages && pages < db.nextTurn.Load() {
		return
	}
	select {
	case db.long <- struct{}{}:
	default: // it is known already
	}
}

// keepLogShort makes checkpoints until the database is closed. One that fails harms nothing
// that is committed. It is tried again after a later commit, unless a sync has failed.
func (db *database) keepLogShort() {
	defer func() { _ = db.checkpointer.conn.Close() }() // which has nothing open
	for {
		var truncated chan<- error // who waits for a truncation; nil for nobody
		select {
		case <-db.closing:
			return
		case <-db.long:
		case truncated = <-db.truncations:
		}
		var err error
		switch {
		case !db.mayCheckpoint():
			err = cmp.Or(db.refusal(), error(errClosed))
		case truncated != nil:
			err = db.truncate()
		default:
			err = db.shortenLog(db.checkpointer)
		}
		if truncated != nil {
			truncated <- err
		}
		if err == nil || truncated != nil && isInTheWay(err) {
			continue
		}
		select {
		case <-db.closing:
			return
		case <-time.After(checkpointPause):
		}
	}
}

// shortenLog moves what is in the log to the database, and lets a long one start over.
func (db *database) shortenLog(c *connection) error {
	pages, waiting, err := db.runCheckpoint(c, "NOOP")
	if err != nil {
		return err
	}
	if pages < db.nextTurn.Load() {
		if waiting < checkpointPages { // another one has moved it
			return nil
		}
		return db.checkpoint(c, "passive", "PASSIVE")
	}
	before, most := int64(math.MaxInt64), pages+maxLogPages-longLog
	for waiting > lastPages && waiting < before/4*3 && pages < most && db.mayCheckpoint() {
		before = waiting
		if err := db.checkpoint(c, "passive", "PASSIVE"); err != nil {
			return err
		}
		if pages, waiting, err = db.runCheckpoint(c, "NOOP"); err != nil {
			return err
		}
	}
	return db.finishLog()
}

// finishLog moves the rest of the log while nobody writes.
func (db *database) finishLog() error {
	if err := db.takeTurn(context.Background()); err != nil {
		return err
	}
	defer db.endTurn()
	db.commit()
	if !db.mayCheckpoint() {
		return nil
	}
	pages := db.logPages.Load()
	name, mode, next := "final", "PASSIVE", min(pages+checkpointPages, maxLogPages)
	if pages >= maxLogPages {
		name, mode, next = "restart", "RESTART", pages+checkpointPages
		db.writer.conn.SetBusyTimeout(restartWait)
		defer db.writer.conn.SetBusyTimeout(0)
	}
	err := db.checkpoint(db.writer, name, mode)
	if err == nil {
		db.nextTurn.Store(next)
	}
	return err
}

// mayCheckpoint reports whether the database is neither being closed, which makes a
// checkpoint as well, nor damaged, nor without one of its files, and no sync has failed.
func (db *database) mayCheckpoint() bool {
	select {
	case <-db.closing:
		return false
	default:
		return db.refusal() == nil && !db.files.lost.Load()
	}
}

// errCheckpointing is the error of who finds another process at it.
var errCheckpointing = &engine.Error{Class: engine.Unavailable, Err: errors.New("another process makes a checkpoint")}

// checkpoint makes one and reports it under a name, unless others hold it up.
func (db *database) checkpoint(c *connection, name, mode string) error {
	start := time.Now()
	_, _, err := db.runCheckpoint(c, mode)
	if !isInTheWay(err) {
		db.options.Observer.Checkpointed(name, time.Since(start), err == nil)
	}
	return err
}

// runCheckpoint returns how many pages the log has, and how many of them are not in the
// database yet. NOOP does nothing else.
func (db *database) runCheckpoint(c *connection, mode string) (pages, waiting int64, err error) {
	busy := false
	err = engine.Find(c.Query, "PRAGMA wal_checkpoint("+mode+")", nil, func(r engine.Row) { busy, pages, waiting = r.Int(0) != 0, r.Int(1), r.Int(1)-r.Int(2) })
	switch {
	case err == nil && pages < 0:
		return 0, 0, errCheckpointing
	case err == nil && busy && mode == "TRUNCATE":
		return pages, waiting, errReading
	}
	return pages, waiting, db.noting(err)
}
