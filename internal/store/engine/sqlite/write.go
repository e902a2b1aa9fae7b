package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"atrium/internal/store/engine"
)

// Group commit.
//
// Writes that wait for the write lock share one transaction, and so one commit and one sync: a
// commit group. The first write begins the transaction. Each write runs in its own goroutine, and
// hands the lock to the next waiter. The last one commits for all, and no write returns before that.
// This includes failed writes: a write may have failed because of uncommitted changes of another.
//
// Every write but the first runs in a savepoint, so a failed write is rolled back alone. Only an
// error that makes SQLite roll back the whole transaction, such as a full disk, fails the group.
const (
	maxGroupWrites = 64                   // maximum number of writes in a commit group
	maxGroupAge    = 5 * time.Millisecond // a group accepts no more writes after this
)

// A commitGroup is the writes that share a transaction.
type commitGroup struct {
	writes  int
	changed map[string]bool // cache tags that the group changes; nil for all
	began   time.Time
	done    chan struct{} // closed when the transaction has ended
	err     error         // why the transaction was rolled back; set before done is closed
}

func (db *database) Write(ctx context.Context, f func(engine.Tx) error) (err error) {
	if err := db.lockWriter(ctx); err != nil {
		return err
	}
	if err := db.joinGroup(ctx); err != nil {
		db.unlockWriter()
		return err
	}
	g, start := db.group, time.Now()
	defer func() { // also if f panics
		ended := db.group != g // this write has ended the group
		db.unlockWriter()
		<-g.done
		switch {
		case ended || g.err == nil:
		case err == nil:
			err = g.err
		default:
			err = &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf(
				"write failed, possibly because of changes that were rolled back: %w", errors.Join(err, g.err))}
		}
		db.options.Observer.Wrote(ctx, time.Since(start), 1, err == nil)
	}()
	return db.recordFailure(db.runInGroup(ctx, f))
}

// joinGroup begins a commit group unless one is open.
func (db *database) joinGroup(ctx context.Context) error {
	if db.options.Immutable || db.options.ReadOnly {
		return errReadOnly
	}
	if err := db.refusal(); err != nil {
		return err
	}
	if db.group != nil {
		return nil
	}
	if err := db.files.recheck(); err != nil {
		return err
	}
	if err := db.beginImmediate(ctx); err != nil {
		return db.recordFailure(err)
	}
	db.versions.begin(db.writer)
	db.group = &commitGroup{changed: map[string]bool{}, began: time.Now(), done: make(chan struct{})}
	return nil
}

// beginImmediate begins a write transaction. It waits up to busyLimit for the write transaction of
// another process.
func (db *database) beginImmediate(ctx context.Context) error {
	for deadline := time.Now().Add(busyLimit); ; {
		_, err := db.writer.Exec("BEGIN IMMEDIATE")
		if err == nil || engine.ClassOf(err) != engine.Unavailable || time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(busyPoll):
		case <-db.closing:
			return errClosed
		case <-ctx.Done():
			return &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf(
				"wait for another process's write transaction: %w", context.Cause(ctx))}
		}
	}
}

// runInGroup runs f in the open transaction, and rolls back its changes if it fails.
func (db *database) runInGroup(ctx context.Context, f func(engine.Tx) error) (err error) {
	c, first := db.writer, db.group.writes == 0
	db.group.writes++
	c.failed, c.changed = nil, nil
	succeeded := false
	defer func() { // also if f panics
		if !succeeded {
			_ = db.recordFailure(c.failed) // err may not include it
			err = db.rollbackWrite(first, err)
		}
	}()
	if !first {
		if _, err := c.Exec("SAVEPOINT group_write"); err != nil {
			return err
		}
	}
	if err := c.withContext(ctx, func() error { return f(c) }); err != nil {
		return err
	}
	if c.failed != nil {
		return engine.FailedTransaction(c.failed)
	}
	if !first {
		if _, err := c.Exec("RELEASE group_write"); err != nil {
			return err
		}
	}
	succeeded = true
	db.group.addChanged(c.changed)
	return nil
}

// addChanged adds the cache tags that one write changes, nil for all.
func (g *commitGroup) addChanged(tags []string) {
	if tags == nil {
		g.changed = nil
	}
	if g.changed == nil {
		return
	}
	for _, tag := range tags {
		g.changed[tag] = true
	}
}

// rollbackWrite rolls back a write that failed with the given error, nil for a panic. It rolls back
// the transaction if the write is the only one in it, or if SQLite has already rolled it back.
func (db *database) rollbackWrite(first bool, failure error) error {
	c := db.writer
	if !first && !c.conn.AutocommitEnabled() {
		_, err := c.Exec("ROLLBACK TO group_write")
		if err == nil {
			_, err = c.Exec("RELEASE group_write")
		}
		if err == nil {
			return failure
		}
		failure = errors.Join(failure, err)
	}
	why := fmt.Errorf("another write in the commit group failed: %w", failure)
	if err := db.endGroup(&engine.Error{Class: engine.Unavailable, Err: why}); err != nil {
		failure = errors.Join(failure, err)
	}
	return failure
}

// commit commits the open group, if there is one.
func (db *database) commit() {
	if db.group == nil {
		return
	}
	if err := db.refusal(); err != nil { // a write of the group met damage or a failed sync
		_ = db.endGroup(err)
		return
	}
	_, err := db.writer.Exec("COMMIT")
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultIOErr {
		// The written frames may survive a crash before the next commit, even though this process
		// ignores them.
		err = &engine.Error{Class: engine.Uncertain, Err: err}
	}
	if err == nil {
		if lost := db.files.check(); lost != nil {
			err = &engine.Error{Class: engine.Uncertain, Err: lost} // committed if the file is put back
		} else if failed := db.syncFailure.Load(); failed != nil { // of a checkpoint
			err = &engine.Error{Class: engine.Uncertain, Err: *failed}
		}
	}
	if err := db.recordFailure(err); err != nil {
		_ = db.endGroup(err)
		return
	}
	_ = db.endGroup(nil)
	db.checkpointIfDue()
}

// endGroup ends the group and wakes its writes. why is the reason for a rollback, nil after a
// commit. It rolls back the transaction unless SQLite has done so.
func (db *database) endGroup(why error) (failure error) {
	if why != nil && !db.writer.conn.AutocommitEnabled() {
		_, failure = db.writer.Exec("ROLLBACK")
	}
	g := db.group
	db.group = nil
	if why != nil {
		g.changed = nil // the commit may have succeeded
	}
	db.versions.end(db.writer, g.changed)
	g.err = why
	close(g.done)
	return failure
}

// lockWriter acquires the write lock. A commit group may be open. The caller releases the lock with
// unlockWriter.
func (db *database) lockWriter(ctx context.Context) error {
	if err := db.writeLock.lock(ctx, engine.TenantOf(ctx)); err != nil {
		return err
	}
	if db.writer == nil {
		db.writeLock.unlock()
		return errClosed
	}
	return nil
}

// unlockWriter releases the write lock. It commits the open group first, unless a waiter can join
// it.
func (db *database) unlockWriter() {
	if g := db.group; g != nil {
		if g.writes < maxGroupWrites && time.Since(g.began) < maxGroupAge && db.writeLock.handOff() {
			return
		}
		db.commit()
	}
	db.writeLock.unlock()
}
