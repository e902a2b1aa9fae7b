package auth

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"atrium"
	"atrium/internal/limit"
)

// The bounds of the lane. A good key in it waits for one pause, and another for each
// laneKeys that are before it.
const (
	lanePause   = 100 * time.Millisecond // between the end of a question to the store and the next
	laneKeys    = 1000                   // what one of them is about
	laneWaiting = 32 << 10               // how many keys wait, of one client alone half as many
)

// A lane is where keys are asked for that come from clients which fail too often. The store
// is asked one question at a time, about all that have come since the last, with a pause
// between: whoever sends however many keys, it is asked ten times a second at most.
type lane struct {
	ask    func(context.Context, []*asked) error // gives each its verdict
	places *limit.Quota[netip.Addr]              // of those who wait: no client fills the lane

	mu      sync.Mutex
	waiting []*asked // guarded by mu
	running bool     // guarded by mu
}

func newLane(ask func(context.Context, []*asked) error) *lane {
	return &lane{ask: ask, places: limit.NewQuota[netip.Addr](laneWaiting)}
}

// An asked question has its verdict when it is done.
type asked struct {
	question
	verdict verdict
	err     error
	done    chan struct{} // is closed then
}

var errLaneFull = fmt.Errorf("keys of clients that fail too often: %w", limit.ErrBusy)

// look returns the verdict on a key that came from a client. ctx does not end with any
// request. The error's code is atrium.CodeUnavailable if the verdict is not known: nobody
// is turned away who was not asked for.
func (l *lane) look(ctx context.Context, from netip.Addr, q question) (verdict, error) {
	if !l.places.Take(from, 1) {
		return verdict{}, atrium.Unavailable(errLaneFull)
	}
	defer l.places.Return(from, 1)
	mine := &asked{question: q, done: make(chan struct{})}
	l.mu.Lock()
	l.waiting = append(l.waiting, mine)
	if !l.running {
		l.running = true
		go l.run(ctx)
	}
	l.mu.Unlock()
	<-mine.done
	return mine.verdict, mine.err
}

// run asks until nobody has come in a pause.
func (l *lane) run(ctx context.Context) {
	for {
		l.mu.Lock()
		n := min(len(l.waiting), laneKeys)
		all := l.waiting[:n:n]
		if l.waiting = l.waiting[n:]; n == 0 {
			l.waiting, l.running = nil, false
		}
		l.mu.Unlock()
		if n == 0 {
			return
		}
		err := l.ask(ctx, all)
		for _, q := range all {
			q.err = err
			close(q.done)
		}
		time.Sleep(lanePause)
	}
}
