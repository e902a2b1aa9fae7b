package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A receiver is an endpoint that accepts all events, in this process.
type receiver struct {
	server *http.Server
	url    string

	mu       sync.Mutex
	ids      map[string]struct{}     // guarded by mu
	repeated int                     // guarded by mu
	lags     *hdrhistogram.Histogram // of the time since an event's timestamp, in milliseconds; guarded by mu
	first    time.Time               // guarded by mu
	last     time.Time               // guarded by mu
	body     []byte                  // of the last request; guarded by mu
}

// longestLag is the upper limit of the histogram.
const longestLag = time.Hour

func newReceiver(ctx context.Context) (*receiver, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{url: "http://" + l.Addr().String() + "/hook", ids: map[string]struct{}{}, lags: hdrhistogram.New(1, longestLag.Milliseconds(), 3)}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

func (r *receiver) close() { _ = r.server.Close() }

// ServeHTTP accepts an event.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	now := time.Now()
	lag := time.Duration(-1)
	if _, after, found := bytes.Cut(body, []byte(`"timestamp":"`)); found {
		text, _, _ := bytes.Cut(after, []byte(`"`))
		if at, err := time.Parse(time.RFC3339, string(text)); err == nil {
			lag = now.Sub(at)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ids) == 0 {
		r.first = now
	}
	id := request.Header.Get("webhook-id")
	if _, has := r.ids[id]; has {
		r.repeated++
	} else if lag >= 0 {
		_ = r.lags.RecordValue(min(max(lag, time.Millisecond), longestLag).Milliseconds()) // values within the limits are always recorded
	}
	r.ids[id], r.last, r.body = struct{}{}, now, body
	w.WriteHeader(http.StatusNoContent)
}

// reset forgets everything but the last body.
func (r *receiver) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.ids)
	r.lags.Reset()
	r.repeated = 0
}

func (r *receiver) received() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ids)
}

// lag returns the 99th percentile of the lags.
func (r *receiver) lag() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(r.lags.ValueAtPercentile(99)) * time.Millisecond
}

// rate returns the events per second, from the first to the last.
func (r *receiver) rate() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return float64(len(r.ids)-1) / r.last.Sub(r.first).Seconds()
}

// patience is how long wait waits without an event.
const patience = time.Minute

// wait returns when n events were received. It fails if none arrives for a minute.
func (r *receiver) wait(ctx context.Context, n int) error {
	for {
		r.mu.Lock()
		have, last := len(r.ids), r.last
		r.mu.Unlock()
		switch {
		case have > n:
			return fmt.Errorf("received %d events of %d", have, n)
		case have == n:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !last.IsZero() && time.Since(last) > patience:
			return fmt.Errorf("received %d events of %d, and none for %v", have, n, patience)
		}
		time.Sleep(time.Millisecond)
	}
}

// post sends n requests with the last body to the receiver over as many connections as one webhook has, as a bare
// client does, and returns the requests per second.
func (r *receiver) post(ctx context.Context, n int) (float64, error) {
	const connections = 16
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	r.mu.Lock()
	body := r.body
	r.mu.Unlock()
	next := make(chan int)
	errs := make([]error, connections)
	var all sync.WaitGroup
	start := time.Now()
	for i := range connections {
		all.Go(func() {
			for n := range next {
				errs[i] = errors.Join(errs[i], send(ctx, client, r.url, fmt.Sprintf("bare_%d", n), body))
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	return float64(n) / time.Since(start).Seconds(), errors.Join(errs...)
}

func send(ctx context.Context, client *http.Client, url, id string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Webhook-Id", id)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// A blackHole is an endpoint that accepts connections and never responds.
type blackHole struct {
	net.Listener
	url string
}

func newBlackHole(ctx context.Context) (*blackHole, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(io.Discard, c) // until the client gives up
				_ = c.Close()
			}()
		}
	}()
	return &blackHole{l, "http://" + l.Addr().String() + "/hook"}, nil
}
