package main

import (
	"context"
	"fmt"
	"time"

	"atrium/bench/load"
	"atrium/bench/server"
	"atrium/bench/workload"
)

// An opened is a mix under an open loop.
type opened struct {
	mix   string
	of    string // the rate, in words
	rate  float64
	tried load.Report
}

// openFor is how many rounds an open loop is long: its percentiles need more of them.
const openFor = 5

// mixes finds how much the node does of each mix in a closed loop, and how long requests
// take when they are due at half of that rate and at four fifths.
func (r *report) mixes(ctx context.Context, node *server.Atrium, w *workload.Workload) error {
	for _, m := range w.Mixes() {
		say("SQLite: %s", m.Name)
		l := load.Load{To: []load.Server{node}, Mix: m.Mix, Connections: r.connections, For: 2 * r.round}
		most, err := r.tried(ctx, l)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		r.opened = append(r.opened, opened{m.Name, "closed loop", 0, most})
		l.For = openFor * r.round
		for _, percent := range []int{50, 80} {
			l.Rate = most.Rate() * float64(percent) / 100
			open, err := r.tried(ctx, l)
			if err != nil {
				return fmt.Errorf("%s at %d %%: %w", m.Name, percent, err)
			}
			r.opened = append(r.opened, opened{m.Name, fmt.Sprintf("%d %% of it", percent), l.Rate, open})
		}
	}
	return nil
}

func (r *report) tried(ctx context.Context, l load.Load) (load.Report, error) {
	report, err := l.Run(ctx)
	if err == nil && report.Failed > 0 {
		err = fmt.Errorf("%d requests failed: %w", report.Failed, report.Failure)
	}
	return report, err
}

// idle notes the memory of a node that nobody asks anything.
func (r *report) idle(node *server.Atrium) (err error) {
	time.Sleep(2 * time.Second) // what it does at its start is done
	r.atRest, err = node.Anonymous()
	return err
}

// starts notes how long a node takes until it answers, on the database that there is.
func (r *report) starts(ctx context.Context, database string) error {
	say("SQLite: starts")
	for range r.rounds {
		node, err := r.startAtrium(ctx, database)
		if err != nil {
			return err
		}
		r.started = append(r.started, node.Ready())
		node.Stop()
	}
	return nil
}
