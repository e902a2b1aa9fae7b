package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"atrium/bench/load"
	"atrium/bench/server"
	"atrium/bench/workload"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
)

// An experiment has all measurements of one size. Slices are by subject; those of appends then by batch size.
type experiment struct {
	options
	*dataset
	bytes   map[string]int64 // of each table and index at the beginning
	counted [][]work         // appends in the round that counts
	timed   [][][]work       // appends in the other rounds
	jobs    []work
	absent  []work          // lookups of keys without an entry
	present []work          // lookups of keys of old entries
	memory  []int64         // bytes that layouts keep in memory
	loaded  []time.Duration // time to read that
	posts   []post
}

// lookups is the number of keys that are looked up in a round.
const lookups = 10_000

func (e *experiment) run(ctx context.Context) error {
	e.window = min(e.window, e.size)
	e.counted, e.timed = make([][]work, len(subjects)), make([][][]work, len(subjects))
	for i := range subjects {
		e.counted[i], e.timed[i] = make([]work, len(e.batches)), make([][]work, len(e.batches))
	}
	e.jobs, e.absent, e.present = make([]work, len(subjects)), make([]work, len(subjects)), make([]work, len(subjects))
	e.memory, e.loaded = make([]int64, len(subjects)), make([]time.Duration, len(subjects))
	for _, part := range []func(context.Context) error{e.readSizes, e.find, e.appends, e.runJobs, e.send} {
		if err := e.restore(); err != nil {
			return err
		}
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// readSizes reads how large the tables and indexes are.
func (e *experiment) readSizes(ctx context.Context) error {
	say("%d entries: sizes", e.size)
	db, err := sqlite.Open(e.file(), sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	e.bytes = map[string]int64{}
	return db.Query(ctx, "SELECT name, pgsize FROM dbstat WHERE aggregate = TRUE", nil, func(r engine.Row) error {
		e.bytes[r.Text(0)] = r.Int(1)
		return nil
	})
}

// find looks up keys.
func (e *experiment) find(ctx context.Context) error {
	random := rand.New(rand.NewPCG(1, 2))
	present, absent := make([]*entry, lookups), make([]*entry, lookups)
	for i := range lookups {
		present[i], absent[i] = e.entry(random.IntN(e.size)), e.entry(e.size+1_000_000_000+i)
	}
	for i, s := range subjects {
		if s.tables == nil {
			continue
		}
		say("%d entries: lookups, %s", e.size, s.name)
		for _, of := range []struct {
			keys []*entry
			want bool
			to   *work
		}{{absent, false, &e.absent[i]}, {present, true, &e.present[i]}} {
			o, err := e.open(ctx, s, true)
			if err != nil {
				return err
			}
			e.memory[i], e.loaded[i] = o.memory, o.loaded
			if *of.to, err = o.measure(func() (int, error) { return e.lookUp(ctx, o, of.keys, e.batches[0], of.want) }); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	return nil
}

// appends runs the rounds of appends: one that counts work, then those that measure time.
func (e *experiment) appends(ctx context.Context) error {
	for round := range e.rounds + 1 {
		if err := e.restore(); err != nil {
			return err
		}
		for b, size := range e.batches {
			for turn := range subjects {
				i := (turn + round) % len(subjects)
				s := subjects[i]
				say("%d entries: round %d, batches of %d, %s", e.size, round, size, s.name)
				o, err := e.open(ctx, s, round == 0)
				if err != nil {
					return err
				}
				entries := e.entries(e.window)
				w, err := o.measure(func() (int, error) { return e.append(ctx, s, o, entries, size) })
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				if round == 0 {
					e.counted[i][b] = w
				} else {
					e.timed[i][b] = append(e.timed[i][b], w)
				}
			}
		}
	}
	return nil
}

// runJobs runs the jobs of the layouts.
func (e *experiment) runJobs(ctx context.Context) error {
	for i, s := range subjects {
		o, err := e.open(ctx, s, false)
		if err != nil {
			return err
		}
		if e.jobs[i], err = o.measure(func() (int, error) { return o.layout.job(ctx, o) }); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		say("%d entries: job of %s, %d keys in %v", e.size, s.name, e.jobs[i].units, e.jobs[i].elapsed)
	}
	return nil
}

// A post is a kind of request, and its rounds.
type post struct {
	load.Kind
	rounds []load.Report
}

// send sends entries to a server: with random keys, with ordered ones, and without keys.
func (e *experiment) send(ctx context.Context) error {
	if e.atrium == "" {
		return nil
	}
	node, err := server.StartAtrium(ctx, e.atrium, "sqlite:"+e.file())
	if err != nil {
		return err
	}
	defer node.Stop()
	say("%d entries: wait for the jobs of the server", e.size)
	if err := settle(ctx, node); err != nil {
		return err
	}
	run := rand.Uint64()
	kind := func(name string, key func(n int) string) {
		e.posts = append(e.posts, post{Kind: load.Kind{Name: name, Status: http.StatusCreated, Request: func(n int) []byte {
			return load.Send("POST", node.Addr(), "/v0/account_logs", fmt.Appendf(nil, `{"source":"crm","type":"page.viewed","domain":%q,%s"payload":%s}`,
				workload.Domain(rand.IntN(e.accounts())), key(n), e.body), "x-api-key: "+e.key)
		}}})
	}
	kind("random keys", func(int) string { return fmt.Sprintf(`"idempotencyKey":"%016x%016x",`, rand.Uint64(), rand.Uint64()) })
	kind("ordered keys", func(n int) string { return fmt.Sprintf(`"idempotencyKey":"%016x-%015d",`, run, n) })
	kind("without a key", func(int) string { return "" })
	for round := range e.rounds + 1 {
		for turn := range e.posts {
			p := &e.posts[(turn+round)%len(e.posts)]
			say("%d entries: round %d, POST %s", e.size, round, p.Name)
			r, err := load.Load{To: []load.Server{node}, Mix: load.Only(p.Kind), Connections: e.connections, For: e.round}.Run(ctx)
			if err == nil && r.Failed > 0 {
				err = fmt.Errorf("%d requests failed: %w", r.Failed, r.Failure)
			}
			if err != nil {
				return fmt.Errorf("POST %s: %w: %s", p.Name, err, strings.TrimSpace(node.Log()))
			}
			if round > 0 {
				p.rounds = append(p.rounds, r)
			}
		}
	}
	return nil
}

// settle waits until a new server has done the work of its jobs, which count all entries: it is idle for 35 s,
// because counting starts every 30 s.
func settle(ctx context.Context, node *server.Atrium) error {
	const idle, limit = 35 * time.Second, time.Hour
	for start := time.Now(); time.Since(start) < limit; {
		before := node.CPU()
		select {
		case <-time.After(idle):
		case <-ctx.Done():
			return ctx.Err()
		}
		if node.CPU()-before < idle/100 {
			return nil
		}
	}
	return errors.New("the jobs of the server did not end")
}
