// Package load sends requests to HTTP servers and measures rates and latencies.
//
// In a closed loop, each connection sends its next request after the response to the last:
// this measures the capacity of a server. A server that stalls receives no requests, so
// the waits of the requests that would have been sent are missing from the latencies. Gil
// Tene calls this coordinated omission ("How NOT to Measure Latency", and the README of
// his wrk2). In an open loop, requests are due at a fixed rate, whatever the server does,
// and a latency counts from the instant at which its request was due, not from when it was
// sent.
//
// Latencies are stored in histograms of fixed size (HdrHistogram, three digits), so the
// memory use does not grow with the length of a load.
package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Server is the target of a load.
type Server interface {
	Addr() string       // host and port
	CPU() time.Duration // CPU time used so far; 0 if unknown
}

// A Load sends requests of a mix for a period.
type Load struct {
	To          []Server // connections are distributed over them in turn
	Mix         Mix
	Connections int // each has one request in flight
	For         time.Duration
	Rate        float64 // requests due per second, over all connections; 0 for a closed loop
}

// longest is the upper limit of the latency histogram.
const longest = time.Minute

// overtime is how long an open loop may take to send its requests, as a multiple of its
// length.
const overtime = 2

// sent numbers all requests of this process, so that each is unique.
var sent atomic.Int64

// Run returns when the time is over and every request has its response, or when ctx is
// done. Failed requests are counted in the report; the error is for a load that cannot be
// sent at all.
func (l Load) Run(ctx context.Context) (Report, error) {
	if len(l.To) == 0 || l.Connections < 1 || l.Mix.total() < 1 {
		return Report{}, errors.New("a load needs servers, connections and requests")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if l.Rate > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, overtime*l.For)
		defer stop()
	}
	before, start := l.cpu(), time.Now()
	next := func() (time.Time, bool) {
		now := time.Now()
		return now, now.Sub(start) < l.For && ctx.Err() == nil
	}
	var pacing sync.WaitGroup
	var unsent int
	if l.Rate > 0 {
		s := schedule{start: start, length: l.For, rate: l.Rate}
		due := make(chan time.Time, l.Connections)
		pacing.Go(func() { unsent = s.pace(ctx, due) })
		next = func() (time.Time, bool) {
			at, more := <-due
			return at, more
		}
	}
	each := make([]Report, l.Connections)
	var loops sync.WaitGroup
	for i := range each {
		c := connection{addr: l.To[i%len(l.To)].Addr()}
		loops.Go(func() { each[i] = c.loop(ctx, l.Mix, next) })
	}
	loops.Wait()
	cancel() // stops a pace without connections
	pacing.Wait()

	report := newReport()
	for _, r := range each {
		report.add(r)
	}
	report.Elapsed, report.CPU = time.Since(start), l.cpu()-before
	report.Unsent += unsent
	if report.Answered == 0 {
		return report, fmt.Errorf("no request succeeded: %w", report.Failure)
	}
	return report, nil
}

func (l Load) cpu() (total time.Duration) {
	for _, s := range l.To {
		total += s.CPU()
	}
	return total
}

// A schedule says when the requests of an open loop are due.
type schedule struct {
	start  time.Time
	length time.Duration
	rate   float64
}

// at returns when the nth request is due, from 0, and whether there is one.
func (s schedule) at(n int) (time.Time, bool) {
	offset := time.Duration(float64(n) * float64(time.Second) / s.rate)
	return s.start.Add(offset), offset < s.length
}

// pace sends each instant once it has come, even if it is late. It returns the number of
// instants that were not received before ctx was done.
func (s schedule) pace(ctx context.Context, due chan<- time.Time) (unsent int) {
	defer close(due)
	for n := 0; ; n++ {
		at, more := s.at(n)
		if !more {
			return unsent
		}
		sleepUntil(ctx, at)
		select {
		case due <- at:
		case <-ctx.Done():
			unsent++
		}
	}
}

// sleepUntil does not use the timers of the runtime, which can be a millisecond late
// because of epoll's timeouts. It checks ctx every tenth of a second.
func sleepUntil(ctx context.Context, at time.Time) {
	for wait := time.Until(at); wait > 0 && ctx.Err() == nil; wait = time.Until(at) {
		t := syscall.NsecToTimespec(int64(min(wait, 100*time.Millisecond)))
		_ = syscall.Nanosleep(&t, nil) // a signal may end it early
	}
}

// A connection is opened when it is needed, and reopened after an error.
type connection struct {
	addr string
	conn net.Conn
	in   *bufio.Reader
}

// loop sends one request per instant that next returns, and measures its latency from that
// instant.
func (c *connection) loop(ctx context.Context, mix Mix, next func() (time.Time, bool)) Report {
	defer c.close()
	r := newReport()
	for at, more := next(); more; at, more = next() {
		if ctx.Err() != nil {
			r.Unsent++
			continue
		}
		n := int(sent.Add(1))
		kind := mix.kind(n)
		if err := c.exchange(kind, n); err != nil {
			r.fail(fmt.Errorf("%s: %w", kind.Name, err))
			continue
		}
		r.record(time.Since(at))
	}
	return r
}

func (c *connection) exchange(k Kind, n int) error {
	status, err := c.roundTrip(k.Request(n))
	if err != nil {
		c.close()
		time.Sleep(10 * time.Millisecond) // do not busy-loop on a server that is down
		return err
	}
	if status != k.Status {
		return fmt.Errorf("status %d, want %d", status, k.Status)
	}
	return nil
}

func (c *connection) roundTrip(request []byte) (status int, err error) {
	if c.conn == nil {
		if c.conn, err = net.DialTimeout("tcp", c.addr, 5*time.Second); err != nil {
			c.conn = nil
			return 0, err
		}
		c.in = bufio.NewReaderSize(c.conn, 64<<10)
	}
	// Coarse on purpose: a deadline per request would cost a timer per request.
	if err := c.conn.SetDeadline(time.Now().Add(longest)); err != nil {
		return 0, err
	}
	if _, err := c.conn.Write(request); err != nil {
		return 0, err
	}
	return readResponse(c.in, nil)
}

func (c *connection) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, longest.Microseconds(), 3)
}
