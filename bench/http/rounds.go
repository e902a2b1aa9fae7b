package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"atrium/bench/load"
)

// A figure is the result of a round. Unknown values are 0.
type figure struct {
	rate float64       // requests or rows per second
	cpu  time.Duration // of the server, per request or row
	p50  time.Duration
	p99  time.Duration
}

// A subject is something to measure. It runs one round.
type subject func(context.Context) (figure, error)

// requests returns the subject that sends a kind of request to servers.
func (o options) requests(k load.Kind, to ...load.Server) subject {
	return func(ctx context.Context) (figure, error) {
		r, err := load.Load{To: to, Mix: load.Only(k), Connections: o.connections, For: o.round}.Run(ctx)
		if err == nil && r.Failed > 0 {
			err = fmt.Errorf("%d requests of %d failed: %w", r.Failed, r.Failed+r.Answered, r.Failure)
		}
		if err != nil {
			return figure{}, err
		}
		return figure{r.Rate(), r.CPUPerRequest(), r.Latency(50), r.Latency(99)}, nil
	}
}

// alternate runs rounds of the subjects in turn, after a warm-up round. It returns the
// figures of each subject.
func alternate(ctx context.Context, rounds int, subjects ...subject) ([][]figure, error) {
	all := make([][]figure, len(subjects))
	for n := range rounds + 1 {
		for i, s := range subjects {
			f, err := s(ctx)
			if err != nil {
				return nil, err
			}
			if n > 0 {
				all[i] = append(all[i], f)
			}
		}
	}
	return all, nil
}

// A pair is a row: a kind of request, and a reference that took turns with it.
type pair struct {
	engine    string
	name      string
	reference string
	bytes     int // of a response body; 0 if unknown
	ours      []figure
	theirs    []figure
}

// ratios returns the ratio of our rate to theirs, per round.
func (p pair) ratios() []float64 {
	return p.each(func(ours, theirs figure) float64 { return ours.rate / theirs.rate })
}

// costs returns the ratio of their CPU time per request to ours, per round. As with rates,
// higher is better.
func (p pair) costs() []float64 {
	return p.each(func(ours, theirs figure) float64 { return float64(theirs.cpu) / float64(ours.cpu) })
}

func (p pair) each(ratio func(ours, theirs figure) float64) (all []float64) {
	for i := range p.ours {
		all = append(all, ratio(p.ours[i], p.theirs[i]))
	}
	return all
}

// medianOf returns the median of one of the figures.
func medianOf[T float64 | time.Duration](figures []figure, of func(figure) T) T {
	values := make([]T, len(figures))
	for i, f := range figures {
		values[i] = of(f)
	}
	return median(values)
}

// median returns the middle value, or the mean of the two middle values; 0 without values.
func median[T float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
