package main

import (
	"context"
	"net/http"
	"os"
	"sync"
	"time"

	"atrium/bench/load"
)

// A start has the memory use and the start-up time of a server on one size.
type start struct {
	Idle   int64         `json:"idle"`   // anonymous memory in bytes, before any request
	Loaded int64         `json:"loaded"` // the highest, while all connections send all kinds of request
	Clean  time.Duration `json:"clean"`  // until /readyz returns 200, after a clean stop
	Cold   time.Duration `json:"cold"`   // the same with an empty page cache; 0 if not measured
	Killed time.Duration `json:"killed"` // the same after kill -9 under load
	Log    int64         `json:"log"`    // bytes of the WAL that it recovered then
}

// idleAfter is how long a server runs without requests before it counts as idle.
const idleAfter = 3 * time.Second

// starts measures each size.
func (e *experiment) starts(ctx context.Context) (all []start, err error) {
	for _, n := range e.nodes {
		s, err := e.starting(ctx, n)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func (e *experiment) starting(ctx context.Context, n *node) (s start, err error) {
	n.atrium.Stop()
	if s.Clean, err = e.ready(ctx, n); err != nil {
		return s, err
	}
	time.Sleep(idleAfter)
	if s.Idle, err = n.atrium.Anonymous(); err != nil {
		return s, err
	}
	n.peak = s.Idle
	if err := e.everything(ctx, n); err != nil {
		return s, err
	}
	s.Loaded = n.peak

	// Write until the kill, so that there is a WAL to recover.
	l := load.Load{To: []load.Server{n.atrium}, Mix: load.Only(n.kind(postEntry)), Connections: e.connections, For: e.roundLength}
	if _, err := l.Run(ctx); err != nil {
		return s, err
	}
	n.atrium.Kill()
	if n.isFile() {
		if info, err := os.Stat(n.file() + "-wal"); err == nil {
			s.Log = info.Size()
		}
	}
	if s.Killed, err = e.ready(ctx, n); err != nil || !n.isFile() {
		return s, err
	}
	n.atrium.Stop()
	if n.release != nil {
		n.release()
		n.release = nil
	}
	if err := forget(n.file()); err != nil {
		return s, err
	}
	s.Cold, err = e.ready(ctx, n)
	return s, err
}

// ready starts a server and returns the time until /readyz returned 200.
func (e *experiment) ready(ctx context.Context, n *node) (time.Duration, error) {
	began := time.Now()
	if err := e.start(ctx, n); err != nil {
		return 0, err
	}
	for {
		a, err := load.Once(n.atrium.Addr(), load.Get(n.atrium.Addr(), "/readyz"))
		if err == nil && a.Status == http.StatusOK {
			return time.Since(began), nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// everything sends all kinds of request at once, and watches the server's memory.
func (e *experiment) everything(ctx context.Context, n *node) (err error) {
	var mix load.Mix
	for _, k := range n.kinds(n.atrium.Addr()) {
		if k.Request != nil {
			mix = append(mix, load.Share{Kind: k.Kind, Weight: 1})
		}
	}
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for err == nil {
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
				err = n.look()
			}
		}
	})
	l := load.Load{To: []load.Server{n.atrium}, Mix: mix, Connections: e.connections, For: 2 * e.roundLength}
	_, failed := l.Run(ctx)
	close(done)
	looking.Wait()
	if failed != nil {
		return failed
	}
	return err
}
