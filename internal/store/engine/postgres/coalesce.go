package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"atrium/internal/store/engine"
)

// Coalescing of queries.
//
// Queries that arrive while others are in flight wait, and are then sent together, on one
// connection and in one round trip. The cost of a small query is mostly its round trip: under load,
// coalescing saves most of it, and a lone query is sent at once.
//
// Coalescing needs no separate goroutine. The first query becomes a leader: it runs a group of
// queries, and then hands the lead to one of those that have arrived in the meantime.
const (
	connsPerLeader = 4  // one leader per 4 connections of the pool; the others are for transactions
	maxCoalesced   = 64 // maximum number of queries in a group
)

// A coalescedQuery is a query that runs in a group or waits for one.
type coalescedQuery struct {
	ctx  context.Context
	sql  string
	args engine.Args
	each func(engine.Row) error

	wake     chan []*coalescedQuery // receives a group to lead; closed when the query has run
	returned bool                   // rows were passed to each
	alone    bool                   // the caller must run the query itself
	err      error
}

// A coalescer has the queries that wait to be sent together.
type coalescer struct {
	maxLeaders int
	maxQueries int // leaders and waiting queries

	mu      sync.Mutex
	leaders int               // guarded by mu
	waiting []*coalescedQuery // guarded by mu
}

// enter returns a group of q alone if q becomes a leader. Otherwise it queues q and returns nil.
func (c *coalescer) enter(q *coalescedQuery) (group []*coalescedQuery, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaders < c.maxLeaders {
		c.leaders++
		return []*coalescedQuery{q}, nil
	}
	if c.leaders+len(c.waiting) >= c.maxQueries {
		return nil, errTooMany
	}
	q.wake = make(chan []*coalescedQuery, 1)
	c.waiting = append(c.waiting, q)
	return nil, nil
}

// leave hands the lead to a waiting query, or gives it up if there is none. An error fails all
// waiting queries.
func (c *coalescer) leave(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		for _, q := range c.waiting {
			q.err = err
			close(q.wake)
		}
		c.waiting = nil
	}
	if len(c.waiting) == 0 {
		c.leaders--
		return
	}
	n := min(len(c.waiting), maxCoalesced)
	next := slices.Clone(c.waiting[:n])
	c.waiting = slices.Delete(c.waiting, 0, n)
	next[0].wake <- next
}

// remove removes q from the waiting queries, and reports whether it was one.
func (c *coalescer) remove(q *coalescedQuery) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.waiting, q)
	if i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
	return i >= 0
}

func (c *coalescer) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

func (db *database) Query(ctx context.Context, sql string, args engine.Args, each func(engine.Row) error) error {
	q := &coalescedQuery{ctx: ctx, sql: sql, args: args, each: each}
	group, err := db.queries.enter(q)
	if err != nil {
		return err
	}
	if group == nil {
		select {
		case group = <-q.wake:
		case <-ctx.Done():
			if db.queries.remove(q) {
				return &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("wait for other queries: %w", context.Cause(ctx))}
			}
			group = <-q.wake // woken in the meantime
		}
	}
	if group != nil {
		db.lead(group)
	}
	switch {
	case q.alone && q.returned: // the leader panicked during the query
		return &engine.Error{Class: engine.Unavailable, Err: errors.New("query interrupted after its first rows")}
	case q.alone:
		return db.runAlone(q)
	}
	return q.err
}

// runAlone runs a query on its own connection.
func (db *database) runAlone(q *coalescedQuery) error {
	return db.retry(q.ctx, func(t *transaction) error { return t.Query(q.sql, q.args, q.each) })
}

// lead runs a group of queries. The first is the caller's own.
func (db *database) lead(group []*coalescedQuery) {
	var unreachable error // the database is unreachable, so waiting queries would fail, too
	defer func() {
		for _, q := range group[1:] {
			close(q.wake)
		}
		db.queries.leave(unreachable)
	}()
	if len(group) == 1 {
		group[0].err = db.runAlone(group[0])
		return
	}
	for _, q := range group {
		q.alone = true // in case of a panic
	}
	results := make([]result, len(group))
	_, err := db.once(context.Background(), func(t *transaction) error {
		for i, q := range group {
			t.queue(&results[i], q.sql, q.args, q.passRow)
		}
		return t.send()
	})
	// An error of the server is caused by one of the queries: each remaining query runs alone, so
	// only that one fails. Queries that a lost connection left unfinished run alone, too.
	if engine.ClassOf(err) == engine.Unavailable && sqlState(err) == "" && !isLost(err) {
		unreachable = err
	}
	for i, q := range group {
		if results[i].done {
			q.err, q.alone = results[i].err, false
		} else {
			q.err, q.alone = err, unreachable == nil && !q.returned
		}
	}
}

// passRow calls each. It recovers from a panic, because each may belong to another caller than the
// leader.
func (q *coalescedQuery) passRow(row engine.Row) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a row callback: %v", p)
		}
	}()
	q.returned = true
	return q.each(row)
}
