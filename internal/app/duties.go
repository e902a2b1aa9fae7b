package app

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"atrium"
	"atrium/internal/store"
)

// A duty is work that nobody asks for when it comes up: every node looks for it, and
// does it when it finds some. What do does must be right however many nodes do it at
// once, and leave nothing half done when it is stopped.
type duty struct {
	name  string
	every time.Duration                                    // how long it pauses when there is nothing to do
	do    func(ctx context.Context) (more bool, err error) // more: there is some left, as far as is known
}

// duties are all that there are.
func duties(s *store.Store) []duty {
	var after atrium.TenantID // whose requests were forgotten last
	all := []duty{
		{"erasures", lookPause, s.EraseEntries},
		{"requests", forgetPause, func(ctx context.Context) (_ bool, err error) {
			after, err = s.ForgetRequests(ctx, after)
			return after != "", err
		}},
		{"schedules", lookPause, func(ctx context.Context) (bool, error) {
			done, err := s.RunDue(ctx, dueAtOnce)
			return done == dueAtOnce, err
		}},
	}
	if !s.Traits().Remote { // a server that nothing is asked of would not notice
		all = append(all, duty{"files", lookPause, func(context.Context) (bool, error) { return false, s.CheckFiles() }})
	}
	return all
}

// dueAtOnce is how much of what is due is looked for at a time.
const dueAtOnce = 100

// Between two looks a duty pauses for lookPause, or forgetPause where nobody waits for
// it, and after failures for twice lookPause, and twice as long each time, up to
// failurePause; and always a quarter more or less, so that nodes do not look all at
// the same moment. So what comes up is begun within 1.25 seconds while some node can.
const (
	lookPause    = time.Second
	forgetPause  = 10 * time.Minute
	failurePause = 10 * time.Second
)

// A performing is duties that are being done.
type performing struct {
	stop  context.CancelFunc // lets them come to their end
	ended chan struct{}      // closed when all have
	log   *slog.Logger
}

// perform begins to do duties, and tells did, which may be nil, whenever one has been
// done without a failure.
func perform(ctx context.Context, all []duty, log *slog.Logger, did func(duty string)) *performing {
	ctx, stop := context.WithCancel(ctx)
	p := &performing{stop: stop, ended: make(chan struct{}), log: log}
	var doing sync.WaitGroup
	for _, d := range all {
		doing.Go(func() { d.perform(ctx, log, did) })
	}
	go func() {
		doing.Wait()
		close(p.ended)
	}()
	return p
}

// wait returns when all have ended, or ctx has: a statement on a database that hangs
// is not called off, and what it leaves when the process ends is taken back.
func (p *performing) wait(ctx context.Context) {
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.log.Warn("a duty has not ended in time")
	}
}

// perform does the duty again and again until ctx ends.
func (d duty) perform(ctx context.Context, log *slog.Logger, did func(string)) {
	failed := lookPause
	for ctx.Err() == nil {
		more, err := d.do(ctx)
		pause := d.every
		if err == nil && did != nil {
			did(d.name)
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return
		case err != nil:
			log.Error("a duty failed and will be tried again", "duty", d.name, "error", err)
			failed = min(2*failed, failurePause)
			pause = failed
		case more:
			failed = lookPause
			continue
		default:
			failed = lookPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause*3/4 + rand.N(pause/2)):
		}
	}
}
