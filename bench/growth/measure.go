package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"atrium/bench/load"
	"atrium/bench/server"
)

// A sample is the result of one round. Times are in microseconds.
type sample struct {
	Rate float64 `json:"rate"` // responses per second
	CPU  int64   `json:"cpu"`  // CPU time of the server per request
	P50  int64   `json:"p50"`
	P99  int64   `json:"p99"`
}

// A row has the measurements of one kind of request: per round, the reference and each
// size.
type row struct {
	Name  string     `json:"name"`
	Bytes int        `json:"bytes"` // of a response, at the smallest size
	Bare  []sample   `json:"bare"`
	Sizes [][]sample `json:"sizes"` // by size, then by round
}

// ofSmallest returns the median over all rounds of the rate of a size, divided by the rate
// of the smallest size in the same round.
func (r row) ofSmallest(size int) float64 { return medianRatio(r.Sizes[size], r.Sizes[0]) }

// ofBare is ofSmallest with the rate of the reference.
func (r row) ofBare(size int) float64 { return medianRatio(r.Sizes[size], r.Bare) }

func medianRatio(of, to []sample) float64 {
	ratios := make([]float64, 0, len(of))
	for i := range min(len(of), len(to)) {
		ratios = append(ratios, of[i].Rate/to[i].Rate)
	}
	return median(ratios)
}

// p50 returns the median of the rounds' medians, and p99 that of their 99th percentiles.
func (r row) p50(size int) time.Duration {
	return medianOf(r.Sizes[size], func(s sample) int64 { return s.P50 })
}
func (r row) p99(size int) time.Duration {
	return medianOf(r.Sizes[size], func(s sample) int64 { return s.P99 })
}

func medianOf(samples []sample, value func(sample) int64) time.Duration {
	values := make([]float64, 0, len(samples))
	for _, s := range samples {
		values = append(values, float64(value(s)))
	}
	return time.Duration(median(values)) * time.Microsecond
}

// median returns the middle value, or the mean of the two middle values. It returns NaN
// without values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// A node is a server on a dataset. A small dataset can be restored to its seeded state.
type node struct {
	*dataset
	url     string
	atrium  *server.Atrium
	peak    int64    // the highest anonymous memory seen, in bytes
	release func()   // unlocks the file from memory; nil if it is not locked
	visitor *visitor // of the console; nil if the API is measured
}

// requests returns the kinds of request to measure.
func (n *node) requests() []kind {
	if n.visitor != nil {
		return n.visitor.kinds()
	}
	return n.kinds(n.atrium.Addr())
}

// freshBelow is the size below which a database is restored before each round that adds to
// it, because the additions would soon change its size.
const freshBelow = 100_000

// An experiment runs servers on databases of several sizes, the smallest first.
type experiment struct {
	options
	nodes []*node
	bare  *server.Process
}

// measure measures the selected rows one after the other.
func (e *experiment) measure(ctx context.Context, done func(row) error) error {
	for i, k := range e.nodes[0].requests() {
		if !e.wants(k.Name) {
			continue
		}
		r, err := e.row(ctx, i)
		if err != nil {
			return fmt.Errorf("%s: %w", k.Name, err)
		}
		if err := done(r); err != nil {
			return err
		}
	}
	return nil
}

// row measures the nth kind of request. Sizes and reference take turns, in alternating
// order, so that other load on the machine affects all of them.
func (e *experiment) row(ctx context.Context, nth int) (row, error) {
	kinds := make([]kind, len(e.nodes))
	var r row
	for i, n := range e.nodes {
		k := n.requests()[nth]
		if k.list != "" {
			if err := k.deep(n.dataset, n.atrium.Addr()); err != nil {
				return r, err
			}
		}
		first, err := load.Once(n.atrium.Addr(), k.Request(0))
		if err != nil {
			return r, err
		}
		if first.Status != k.Status {
			return r, fmt.Errorf("%s: status %d, want %d: %s", n.shape, first.Status, k.Status, first.Body)
		}
		if i == 0 {
			r = row{Name: k.Name, Bytes: len(first.Body), Sizes: make([][]sample, len(e.nodes))}
		}
		kinds[i] = k
	}
	bare := server.BareKind(e.bare.Addr(), r.Bytes)
	for round := range e.rounds + 1 {
		warming := round == 0
		s, err := e.round(ctx, bare, e.bare, nil)
		if err != nil {
			return r, err
		}
		if !warming {
			r.Bare = append(r.Bare, s)
		}
		for turn := range e.nodes {
			i := turn
			if round%2 == 1 {
				i = len(e.nodes) - 1 - turn
			}
			n := e.nodes[i]
			if kinds[i].adds && n.total() < freshBelow && n.isFile() {
				if err := e.refresh(ctx, n); err != nil {
					return r, err
				}
				kinds[i] = n.requests()[nth]
			}
			s, err := e.round(ctx, kinds[i].Kind, n.atrium, n)
			if err != nil {
				return r, fmt.Errorf("%s: %w", n.shape, err)
			}
			if !warming {
				r.Sizes[i] = append(r.Sizes[i], s)
			}
		}
	}
	return r, nil
}

// round loads a server. It returns an error if any request fails.
func (e *experiment) round(ctx context.Context, k load.Kind, to load.Server, n *node) (sample, error) {
	l := load.Load{To: []load.Server{to}, Mix: load.Only(k), Connections: e.connections, For: e.roundLength}
	report, err := l.Run(ctx)
	if err == nil && report.Failed > 0 {
		err = fmt.Errorf("%d requests failed: %w", report.Failed, report.Failure)
	}
	if err != nil {
		return sample{}, err
	}
	if n != nil {
		if err := n.look(); err != nil {
			return sample{}, err
		}
	}
	return sample{report.Rate(), report.CPUPerRequest().Microseconds(), report.Latency(50).Microseconds(), report.Latency(99).Microseconds()}, nil
}

// look records the server's current memory if it is the highest so far.
func (n *node) look() error {
	anonymous, err := n.atrium.Anonymous()
	n.peak = max(n.peak, anonymous)
	return err
}

// kind returns the kind of request with a name.
func (n *node) kind(name string) (found load.Kind) {
	for _, k := range n.kinds(n.atrium.Addr()) {
		if k.Name == name {
			found = k.Kind
		}
	}
	return found
}

// file is the path of the database, and pristine that of its seeded copy.
func (n *node) file() string { return strings.TrimPrefix(n.url, "sqlite:") }

func (n *node) pristine() error {
	return errors.Join(remove(n.file()), copyFile(n.path, n.file()))
}

func (n *node) isFile() bool { return strings.HasPrefix(n.url, "sqlite:") }

// refresh restores a database to its seeded state, and warms the new server up.
func (e *experiment) refresh(ctx context.Context, n *node) (err error) {
	n.atrium.Stop()
	if err := n.pristine(); err != nil {
		return err
	}
	if err := e.start(ctx, n); err != nil {
		return err
	}
	warming := *e
	warming.roundLength = e.roundLength / 4
	_, err = warming.round(ctx, n.kind(postEntry), n.atrium, n)
	return err
}

func (e *experiment) start(ctx context.Context, n *node) (err error) {
	n.atrium, err = server.StartAtrium(ctx, e.binary, n.url, strings.Fields(e.flags)...)
	return err
}

// stop stops all servers.
func (e *experiment) stop() {
	for _, n := range e.nodes {
		if n.atrium != nil {
			n.atrium.Stop()
		}
		if n.release != nil {
			n.release()
		}
	}
	if e.bare != nil {
		e.bare.Stop()
	}
}

// copyFile makes a copy and syncs it.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Sync()
}
