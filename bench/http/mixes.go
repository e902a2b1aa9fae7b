package main

import (
	"context"
	"fmt"
	"time"

	"atrium/bench/load"
	"atrium/bench/server"
	"atrium/bench/workload"
)

// An opened is the result of a mix in an open loop.
type opened struct {
	mix   string
	of    string // the rate, in words
	rate  float64
	tried load.Report
}

// openFor is the length of an open loop, in rounds: its percentiles need more requests.
const openFor = 5

// mixes measures the maximum rate of each mix in a closed loop, and then the latencies in
// an open loop at half and at four fifths of that rate.
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

// idle records the memory of a node without requests.
func (r *report) idle(node *server.Atrium) (err error) {
	time.Sleep(2 * time.Second) // let it finish starting
	r.atRest, err = node.Anonymous()
	return err
}

// starts records the start-up time of a node on the existing database.
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
