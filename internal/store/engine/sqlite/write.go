package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"atrium/internal/store/engine"
)

// The rules of this file.
//
// Writes that wait for the same turn share a transaction, and so a commit and its sync.
// The first one begins it. Each runs in its own goroutine, in the order of arrival, and
// hands the turn on to the next one while there is one; the last one commits for all,
// and none returns before. That holds for one that has failed, too: it may have been
// refused for what another one has done.
//
// The second one and those behind it have a savepoint, so that one which fails leaves
// nothing and takes nobody along. Only what makes SQLite give up a transaction, such as
// a full disk, ends it for all.
const (
	maxGroup     = 64                    // how many writes share a transaction
	maxGroupTime = 20 * time.Millisecond // for how long others join it
)

// A group is the writes that share a transaction.
type group struct {
	writes  int
	changed map[string]bool // the cache tags that it changes; nil for everything
	began   time.Time
	done    chan struct{} // closed when the transaction has ended
	err     error         // why it was not committed; set before done is closed
}

func (db *database) Write(ctx context.Context, f func(engine.Tx) error) (err error) {
	if err := db.takeTurn(ctx); err != nil {
		return err
	}
	if err := db.join(ctx); err != nil {
		db.endTurn()
		return err
	}
	g, start := db.group, time.Now()
	defer func() { // also if f panics
		ended := db.group != g // for what has failed here
		db.endTurn()
		<-g.done
		switch {
		case ended || g.err == nil:
		case err == nil:
			err = g.err
		default:
			err = &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("refused, perhaps for what was not committed: %w", errors.Join(err, g.err))}
		}
		db.options.Observer.Wrote(ctx, time.Since(start), 1, err == nil)
	}()
	return db.noting(db.part(ctx, f))
}

// join begins a transaction unless there is one to take part in.
func (db *database) join(ctx context.Context) error {
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
	if err := db.begin(ctx); err != nil {
		return db.noting(err)
	}
	db.versions.begin(db.writer)
	db.group = &group{changed: map[string]bool{}, began: time.Now(), done: make(chan struct{})}
	return nil
}

// begin starts a write transaction, and waits up to busyLimit for another
// process that has one.
func (db *database) begin(ctx context.Context) error {
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
			return &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("wait for another process to finish writing: %w", context.Cause(ctx))}
		}
	}
}

// part runs f as a part of the open transaction.
func (db *database) part(ctx context.Context, f func(engine.Tx) error) (err error) {
	c, first := db.writer, db.group.writes == 0
	db.group.writes++
	c.failed, c.changed = nil, nil
	kept := false
	defer func() { // also if f panics
		if !kept {
			_ = db.noting(c.failed) // err may not say so
			err = db.undo(first, err)
		}
	}()
	if !first {
		if _, err := c.Exec("SAVEPOINT part"); err != nil {
			return err
		}
	}
	if err := c.within(ctx, func() error { return f(c) }); err != nil {
		return err
	}
	if c.failed != nil {
		return engine.FailedTransaction(c.failed)
	}
	if !first {
		if _, err := c.Exec("RELEASE part"); err != nil {
			return err
		}
	}
	kept = true
	db.group.change(c.changed)
	return nil
}

// change notes the cache tags that one more write of the group changes, nil for everything.
func (g *group) change(tags []string) {
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

// undo takes back what a part has done that failed with an error, nil for a panic. It
// ends the transaction if there is nothing else in it, or SQLite has ended it.
func (db *database) undo(first bool, failure error) error {
	c := db.writer
	if !first && !c.conn.AutocommitEnabled() {
		_, err := c.Exec("ROLLBACK TO part")
		if err == nil {
			_, err = c.Exec("RELEASE part")
		}
		if err == nil {
			return failure
		}
		failure = errors.Join(failure, err)
	}
	if err := db.end(&engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("another write has ended the transaction: %w", failure)}); err != nil {
		failure = errors.Join(failure, err)
	}
	return failure
}

// commit ends the open transaction, if there is one.
func (db *database) commit() {
	if db.group == nil {
		return
	}
	if err := db.refusal(); err != nil { // for what one of them has met
		_ = db.end(err)
		return
	}
	_, err := db.writer.Exec("COMMIT")
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultIOErr {
		// What was written may outlive a crash before the next commit, even
		// though this process will not see it.
		err = &engine.Error{Class: engine.Uncertain, Err: err}
	}
	if err == nil {
		if lost := db.files.check(); lost != nil {
			err = &engine.Error{Class: engine.Uncertain, Err: lost} // it is there if the file is put back
		} else if failed := db.syncFailure.Load(); failed != nil { // of a checkpoint
			err = &engine.Error{Class: engine.Uncertain, Err: *failed}
		}
	}
	if err := db.noting(err); err != nil {
		_ = db.end(err)
		return
	}
	_ = db.end(nil)
	db.watchLog()
}

// end tells those of the open transaction why it was not committed, nil if it was, and
// rolls it back then, unless SQLite has.
func (db *database) end(why error) (failure error) {
	if why != nil && !db.writer.conn.AutocommitEnabled() {
		_, failure = db.writer.Exec("ROLLBACK")
	}
	g := db.group
	db.group = nil
	if why != nil {
		g.changed = nil // if it was committed all the same
	}
	db.versions.end(db.writer, g.changed)
	g.err = why
	close(g.done)
	return failure
}

// takeTurn waits until this process writes nothing, but for what the next commit
// has anyway. Who has the turn gives it to the next one with endTurn.
func (db *database) takeTurn(ctx context.Context) error {
	if err := db.turn.take(ctx); err != nil {
		return err
	}
	if db.writer == nil {
		db.turn.end()
		return errClosed
	}
	return nil
}

// endTurn commits, unless somebody waits who may join.
func (db *database) endTurn() {
	if g := db.group; g != nil {
		if g.writes < maxGroup && time.Since(g.began) < maxGroupTime && db.turn.pass() {
			return
		}
		db.commit()
	}
	db.turn.end()
}

// A turn is a lock that hands itself on in the order of arrival.
type turn struct {
	mu      sync.Mutex
	taken   bool            // guarded by mu
	waiting []chan struct{} // guarded by mu; what is closed for each when it has the turn
}

// take waits for the turn until ctx ends.
func (t *turn) take(ctx context.Context) error {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	t.waiting = append(t.waiting, mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting, mine)
	if i < 0 { // it has come meanwhile
		return nil
	}
	t.waiting = slices.Delete(t.waiting, i, i+1)
	return &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("wait for the writer: %w", context.Cause(ctx))}
}

// pass gives the turn to who has waited longest, or returns false.
func (t *turn) pass() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.passLocked()
}

func (t *turn) passLocked() bool {
	if len(t.waiting) == 0 {
		return false
	}
	close(t.waiting[0])
	t.waiting = slices.Delete(t.waiting, 0, 1)
	return true
}

// end gives the turn to who has waited longest, or to whoever comes next.
func (t *turn) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = t.passLocked()
}

// users returns how many have the turn, 0 or 1.
func (t *turn) users() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken {
		return 1
	}
	return 0
}
