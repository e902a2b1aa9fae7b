package engine

import (
	"context"
	"math"
	"time"
)

// The rules of this file.
//
// SQLite's own checkpoints would run behind every commit once the log is long, and sync the
// database each time. Here one runs when checkpointPages wait, on a connection of its own,
// while others write: in a database of many gigabytes these pages lie anywhere, and to
// write and sync them takes a third of a second.
//
// The log starts over with a commit that finds all of it in the database. While others
// write that is never so by itself. Above longLog, what was committed during a checkpoint is
// left to another one, which has less to do, and so on until no more than lastPages wait or
// the writers are faster. For the rest the writer's turn is taken.
//
// A passive one lets the log start over only when no read is in its way, so above
// maxLogPages one is made that waits, for a moment, for the reads that are.
const (
	checkpointPages = 8000
	lastPages       = 500
	longLog         = 20000 // in pages
	maxLogPages     = 32000
	keepLogBytes    = maxLogPages * pageBytes // what is left of a larger log when it starts over
	restartWait     = 100 * time.Millisecond
)

// watchLog has a checkpoint made if enough pages of the log wait for one. It is called by
// who has the writer's turn.
func (db *sqliteDB) watchLog() {
	pages, waiting, err := db.runCheckpoint(db.writer, "NOOP")
	if err != nil {
		return // the next commit looks again
	}
	db.logPages.Store(pages)
	if waiting < checkpointPages {
		return
	}
	select {
	case db.full <- struct{}{}:
	default: // it is known already
	}
}

// keepLogShort makes checkpoints until the database is closed. A failure harms nothing that is
// committed, and behind a later commit it is tried again.
func (db *sqliteDB) keepLogShort() {
	var c *sqliteConn
	for {
		select {
		case <-db.closing:
			if c != nil {
				_ = c.conn.Close() // it has nothing open
			}
			return
		case <-db.full:
		}
		if c == nil {
			var err error
			if c, err = db.open(false); db.noting(err) != nil {
				db.options.Observer.Checkpointed("passive", 0, false)
				continue
			}
			c.conn.SetBusyTimeout(0)
		}
		db.shortenLog(c)
		select {
		case <-db.full: // for what has just been moved; if there is more, the next commit says so
		default:
		}
	}
}

// shortenLog moves what is in the log to the database, as far as it can on a connection that
// nobody else uses, and lets a long log start over.
func (db *sqliteDB) shortenLog(c *sqliteConn) {
	for before := int64(math.MaxInt64); ; {
		if err := db.checkpoint(c, "passive", "PASSIVE"); err != nil {
			return
		}
		pages, waiting, err := db.runCheckpoint(c, "NOOP")
		if err != nil {
			return
		}
		if pages < longLog {
			return
		}
		if waiting <= lastPages || waiting >= before || pages >= maxLogPages {
			break
		}
		before = waiting
	}
	if err := db.takeTurn(context.Background()); err != nil {
		return
	}
	defer db.endTurn()
	db.commit()
	pages := db.logPages.Load()
	if pages < maxLogPages {
		db.nextForce = maxLogPages
	}
	if pages < db.nextForce {
		_ = db.checkpoint(db.writer, "final", "PASSIVE")
		return
	}
	// A read that goes on for long may be in the way: every commit would wait for it in vain.
	db.nextForce = pages + checkpointPages
	db.writer.conn.SetBusyTimeout(restartWait)
	defer db.writer.conn.SetBusyTimeout(0)
	_ = db.checkpoint(db.writer, "restart", "RESTART")
}

// checkpoint makes one and reports it under a name. How many pages the log has then is
// noted with the writer's turn alone.
func (db *sqliteDB) checkpoint(c *sqliteConn, name, mode string) error {
	start := time.Now()
	pages, _, err := db.runCheckpoint(c, mode)
	if err == nil && c == db.writer {
		db.logPages.Store(pages)
	}
	db.options.Observer.Checkpointed(name, time.Since(start), err == nil)
	return err
}

// runCheckpoint returns how many pages the log has, and how many of them are not in the
// database yet. NOOP does nothing else.
func (db *sqliteDB) runCheckpoint(c *sqliteConn, mode string) (pages, waiting int64, err error) {
	err = Find(c.Query, "PRAGMA wal_checkpoint("+mode+")", nil, func(r Row) { pages, waiting = r.Int(1), r.Int(1)-r.Int(2) })
	return pages, waiting, db.noting(err)
}
