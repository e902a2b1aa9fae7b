package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"atrium/internal/store/engine"
)

// Queries that come while others are under way wait a moment and are sent
// together, on one connection and in one round trip, as entries share a commit.
// Most of what a small query costs is the way there and back; under load this
// saves most of it, and a lone query goes at once.
//
// There is no goroutine for it. The first query to come leads: it runs what has
// gathered, and then hands the lead to one of those that have come meanwhile.
const (
	connsPerLeader = 4  // of the pool: the others are for transactions
	maxGathered    = 64 // queries that are sent together
)

// A gathered query is one that is run with others, or waits to be.
type gathered struct {
	ctx  context.Context
	sql  string
	args engine.Args
	each func(engine.Row) error

	turn  chan []*gathered // gives the lead, with what is to be run; closed when it was run
	rows  bool             // some have been handed out
	alone bool             // its caller is to run it
	err   error
}

// A gathering is the queries that wait to be sent together.
type gathering struct {
	leaders int // how many there are at most
	limit   int // how many lead and wait at most

	mu      sync.Mutex
	leading int         // guarded by mu
	waiting []*gathered // guarded by mu
}

// enter makes q the leader of itself, or lets it wait for its turn.
func (g *gathering) enter(q *gathered) (lead []*gathered, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leading < g.leaders {
		g.leading++
		return []*gathered{q}, nil
	}
	if g.leading+len(g.waiting) >= g.limit {
		return nil, errTooMany
	}
	q.turn = make(chan []*gathered, 1)
	g.waiting = append(g.waiting, q)
	return nil, nil
}

// leave hands the lead on, or gives it up if nobody waits. With an error it is
// given up, and so do all that wait.
func (g *gathering) leave(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		for _, q := range g.waiting {
			q.err = err
			close(q.turn)
		}
		g.waiting = nil
	}
	if len(g.waiting) == 0 {
		g.leading--
		return
	}
	n := min(len(g.waiting), maxGathered)
	next := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	next[0].turn <- next
}

// quit takes q out of those that wait, and reports whether it was one of them.
func (g *gathering) quit(q *gathered) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, q)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	return i >= 0
}

func (g *gathering) size() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

func (db *database) Query(ctx context.Context, sql string, args engine.Args, each func(engine.Row) error) error {
	q := &gathered{ctx: ctx, sql: sql, args: args, each: each}
	lead, err := db.queries.enter(q)
	if err != nil {
		return err
	}
	if lead == nil {
		select {
		case lead = <-q.turn:
		case <-ctx.Done():
			if db.queries.quit(q) {
				return &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("wait for other queries: %w", context.Cause(ctx))}
			}
			lead = <-q.turn // it has come meanwhile
		}
	}
	if lead != nil {
		db.lead(lead)
	}
	switch {
	case q.alone && q.rows: // whoever led has come to grief in the middle of it
		return &engine.Error{Class: engine.Unavailable, Err: errors.New("a query was left before its end")}
	case q.alone:
		return db.single(q)
	}
	return q.err
}

func (db *database) single(q *gathered) error {
	return db.again(q.ctx, func(t *transaction) error { return t.Query(q.sql, q.args, q.each) })
}

// lead runs queries, the first of which is the caller's own.
func (db *database) lead(queries []*gathered) {
	var away error // of a database that the next would wait for in vain
	defer func() {
		for _, q := range queries[1:] {
			close(q.turn)
		}
		db.queries.leave(away)
	}()
	if len(queries) == 1 {
		queries[0].err = db.single(queries[0])
		return
	}
	for _, q := range queries {
		q.alone = true // unless this comes to an end
	}
	results := make([]result, len(queries))
	_, err := db.once(context.Background(), func(t *transaction) error {
		for i, q := range queries {
			t.queue(&results[i], q.sql, q.args, q.handOut)
		}
		return t.send()
	})
	// What the server refuses is the fault of one query: each is run alone, and it
	// is found. So is what a lost connection has left undone.
	if engine.ClassOf(err) == engine.Unavailable && sqlState(err) == "" && !isLost(err) {
		away = err
	}
	for i, q := range queries {
		if results[i].done {
			q.err, q.alone = results[i].err, false
		} else {
			q.err, q.alone = err, away == nil && !q.rows
		}
	}
}

// handOut calls each, which is another caller's: its panic is not this one's.
func (q *gathered) handOut(row engine.Row) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic while a row was read: %v", p)
		}
	}()
	q.rows = true
	return q.each(row)
}
