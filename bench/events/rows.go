package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"atrium/bench/load"
	"atrium/bench/server"
	"atrium/bench/workload"
)

var rows = []row{
	{"off", (*bench).off},
	{"open", (*bench).openLoop},
	{"saturated", (*bench).saturated},
	{"throughput", (*bench).throughput},
	{"dead", (*bench).deadEndpoint},
	{"waiting", (*bench).waitingDeliveries},
	{"receiver", (*bench).receivedDeliveries},
}

// entry returns the request that posts an entry.
func (n *node) entry() load.Kind {
	for _, k := range n.Kinds() {
		if k.Name == workload.PostEntry {
			return k
		}
	}
	return load.Kind{} // unreachable: it has one
}

// post posts entries in a closed loop, or in an open one if there is a rate. All must succeed.
func (b *bench) post(ctx context.Context, n *node, length time.Duration, rate float64) (load.Report, error) {
	return b.send(ctx, n, n.entry(), length, rate)
}

// send is post for a kind of request.
func (b *bench) send(ctx context.Context, n *node, kind load.Kind, length time.Duration, rate float64) (load.Report, error) {
	r, err := load.Load{To: []load.Server{n}, Mix: load.Only(kind), Connections: b.connections, For: length, Rate: rate}.Run(ctx)
	if err == nil && r.Failed+r.Unsent > 0 {
		err = fmt.Errorf("%d requests failed, %d were not sent: %w", r.Failed, r.Unsent, r.Failure)
	}
	return r, err
}

// fill posts n entries, or a few more.
func (b *bench) fill(ctx context.Context, to *node, n int) (posted int, err error) {
	for posted < n {
		r, err := b.post(ctx, to, time.Second, 0)
		if err != nil {
			return posted, err
		}
		posted += r.Answered
	}
	return posted, nil
}

// off compares POST without a webhook with that of a release without events.
func (b *bench) off(ctx context.Context) ([]figure, error) {
	if b.before == "" {
		return []figure{one("POST entry without webhooks: needs -before", "", "")}, nil
	}
	before, err := b.start(ctx, b.before)
	if err != nil {
		return nil, err
	}
	defer before.Stop()
	after, err := b.start(ctx, b.atrium)
	if err != nil {
		return nil, err
	}
	defer after.Stop()
	rounds, err := b.alternate(ctx, before, after, nil)
	if err != nil {
		return nil, err
	}
	return []figure{rates("POST entry, before events and without webhooks", rounds[0], rounds[1], "≥ 0.98")}, nil
}

// alternate posts to both nodes in turn after a warm-up, and returns the rates. It calls then, if it is not nil, with the
// entries that each round of the second one has posted.
func (b *bench) alternate(ctx context.Context, first, second *node, then func(posted int) error) (all [2][]float64, err error) {
	for i := range b.rounds + 1 {
		for side, n := range []*node{first, second} {
			r, err := b.post(ctx, n, b.round, 0)
			if err != nil {
				return all, err
			}
			if i > 0 {
				all[side] = append(all[side], r.Rate())
			}
			if side == 1 && then != nil {
				if err := then(r.Answered); err != nil {
					return all, err
				}
			}
		}
	}
	return all, nil
}

// A delivering node has a webhook with a healthy endpoint, and a node without events beside it.
type delivering struct {
	off, on  *node
	receiver *receiver
	webhook  string
}

func (d *delivering) close() {
	for _, n := range []*node{d.off, d.on} {
		if n != nil {
			n.Stop()
		}
	}
	if d.receiver != nil {
		d.receiver.close()
	}
}

func (b *bench) deliver(ctx context.Context) (_ *delivering, err error) {
	d := &delivering{}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.receiver, err = newReceiver(ctx); err != nil {
		return nil, err
	}
	if d.off, err = b.start(ctx, b.atrium); err != nil {
		return nil, err
	}
	if d.on, err = b.start(ctx, b.atrium); err != nil {
		return nil, err
	}
	d.webhook, err = d.on.create(ctx, d.receiver.url)
	return d, err
}

// openLoop posts at half of the capacity.
func (b *bench) openLoop(ctx context.Context) ([]figure, error) {
	d, err := b.deliver(ctx)
	if err != nil {
		return nil, err
	}
	defer d.close()
	capacity, err := b.post(ctx, d.off, 2*b.round, 0)
	if err != nil {
		return nil, err
	}
	rate := capacity.Rate() / 2
	var reports [2]load.Report
	behind := 0
	for range b.rounds {
		for side, n := range []*node{d.off, d.on} {
			r, err := b.post(ctx, n, b.open, rate)
			if err != nil {
				return nil, err
			}
			reports[side].Add(r)
		}
		behind = max(behind, reports[1].Answered-d.receiver.received())
		if err := d.receiver.wait(ctx, reports[1].Answered); err != nil {
			return nil, err
		}
	}
	at := fmt.Sprintf(" at %.0f/s", rate)
	return []figure{
		times("p99 of POST entry"+at, reports[0].Latency(99), reports[1].Latency(99), "≤ 1.5"),
		times("median of POST entry"+at, reports[0].Latency(50), reports[1].Latency(50), ""),
		one("p99 of the lag of deliveries"+at, short(d.receiver.lag()), "≤ 2 s"),
		one(fmt.Sprintf("most events behind after %v", b.open), fmt.Sprint(behind), "flat"),
		one("events delivered more than once", fmt.Sprint(d.receiver.repeated), ""),
	}, nil
}

// saturated posts as fast as possible.
func (b *bench) saturated(ctx context.Context) ([]figure, error) {
	d, err := b.deliver(ctx)
	if err != nil {
		return nil, err
	}
	defer d.close()
	var drained time.Duration
	posted, behind := 0, 0
	rounds, err := b.alternate(ctx, d.off, d.on, func(n int) error {
		posted += n
		behind = max(behind, posted-d.receiver.received())
		began := time.Now()
		err := d.receiver.wait(ctx, posted)
		drained = max(drained, time.Since(began))
		return err
	})
	if err != nil {
		return nil, err
	}
	return []figure{
		rates("POST entry with one webhook", rounds[0], rounds[1], "≥ 0.6"),
		one(fmt.Sprintf("most events behind after %v", b.round), fmt.Sprint(behind), ""),
		one("longest time until they were delivered", short(drained), "ends"),
	}, nil
}

// noticed is how long nodes need to notice a change that a command makes: they look every second.
const noticed = 3 * time.Second

// deliverBurst delivers the events of n entries that have waited for an endpoint, and returns the rate.
func (b *bench) deliverBurst(ctx context.Context, d *delivering, n int) (float64, error) {
	if err := d.on.webhook(ctx, "disable", d.webhook); err != nil {
		return 0, err
	}
	time.Sleep(noticed)
	posted, err := b.fill(ctx, d.on, n)
	if err != nil {
		return 0, err
	}
	d.receiver.reset()
	if err := d.on.webhook(ctx, "enable", d.webhook); err != nil {
		return 0, err
	}
	err = d.receiver.wait(ctx, posted)
	return d.receiver.rate(), err
}

// throughput compares deliveries with a bare client.
func (b *bench) throughput(ctx context.Context) ([]figure, error) {
	d, err := b.deliver(ctx)
	if err != nil {
		return nil, err
	}
	defer d.close()
	var bare, delivered []float64
	for i := range b.rounds + 1 {
		rate, err := b.deliverBurst(ctx, d, b.burst)
		if err != nil {
			return nil, err
		}
		d.receiver.reset()
		other, err := d.receiver.post(ctx, b.burst)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			bare, delivered = append(bare, other), append(delivered, rate)
		}
	}
	return []figure{rates("deliveries, beside requests of a bare client", bare, delivered, "≥ 0.25")}, nil
}

// deadEndpoint compares deliveries to a healthy endpoint without and beside one that never responds.
func (b *bench) deadEndpoint(ctx context.Context) ([]figure, error) {
	d, err := b.deliver(ctx)
	if err != nil {
		return nil, err
	}
	defer d.close()
	hole, err := newBlackHole(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = hole.Close() }()
	dead, err := d.on.create(ctx, hole.url)
	if err != nil {
		return nil, err
	}
	if _, err := b.fill(ctx, d.on, b.dead); err != nil {
		return nil, err
	}
	capacity, err := b.post(ctx, d.off, b.round, 0)
	if err != nil {
		return nil, err
	}
	var throughput [2][]float64
	var reports [2]load.Report
	var lags [2]time.Duration
	for i := range b.rounds + 1 {
		for side, command := range []string{"disable", "enable"} {
			if err := d.on.webhook(ctx, command, dead); err != nil {
				return nil, err
			}
			time.Sleep(noticed)
			rate, err := b.deliverBurst(ctx, d, b.burst)
			if err != nil {
				return nil, err
			}
			d.receiver.reset()
			r, err := b.post(ctx, d.on, b.round, capacity.Rate()/4)
			if err == nil {
				err = d.receiver.wait(ctx, r.Answered)
			}
			if err != nil {
				return nil, err
			}
			if i > 0 {
				throughput[side] = append(throughput[side], rate)
				reports[side].Add(r)
				lags[side] = max(lags[side], d.receiver.lag())
			}
		}
	}
	beside := fmt.Sprintf(" beside %d events of a dead one", b.dead)
	return []figure{
		rates("deliveries to a healthy endpoint"+beside, throughput[0], throughput[1], "≥ 0.9"),
		times("p99 of the lag of a healthy endpoint", lags[0], lags[1], "≤ 2"),
		times("p99 of POST entry", reports[0].Latency(99), reports[1].Latency(99), "≤ 2"),
	}, nil
}

// waitingDeliveries compares a server whose events wait for an endpoint with one that has the same data and no webhook.
func (b *bench) waitingDeliveries(ctx context.Context) ([]figure, error) {
	hole, err := newBlackHole(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = hole.Close() }()
	filled, err := b.start(ctx, b.atrium)
	if err != nil {
		return nil, err
	}
	dead, err := filled.create(ctx, hole.url)
	if err == nil {
		_, err = b.fill(ctx, filled, b.waiting)
	}
	filled.Stop()
	if err != nil {
		return nil, err
	}
	databases, err := b.copyNewest()
	if err != nil {
		return nil, err
	}
	var starts [2][]float64
	var nodes [2]*node
	for i := range b.rounds + 1 {
		for side := range nodes {
			if nodes[side] != nil {
				nodes[side].Stop()
				nodes[side] = nil
			}
			a, err := server.StartAtrium(ctx, b.atrium, databases[side], "--log-level=error")
			if err != nil {
				return nil, err
			}
			defer a.Stop()
			nodes[side] = &node{a, filled.At(a)}
			if i > 0 {
				starts[side] = append(starts[side], a.Ready().Seconds())
			} else if side == 0 {
				if err := nodes[side].webhook(ctx, "delete", dead); err != nil {
					return nil, err
				}
			}
		}
	}
	rounds, err := b.alternate(ctx, nodes[0], nodes[1], nil)
	if err != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	seconds := func(values []float64) time.Duration { return time.Duration(median(values) * float64(time.Second)) }
	return []figure{
		rates(fmt.Sprintf("POST entry with %d waiting deliveries", b.waiting), rounds[0], rounds[1], "≥ 0.9"),
		times("start", seconds(starts[0]), seconds(starts[1]), "≤ 1.1"),
	}, nil
}

// receivedDeliveries compares signed deliveries to a GitHub receiver with POST of entries of the same size.
func (b *bench) receivedDeliveries(ctx context.Context) ([]figure, error) {
	n, err := b.start(ctx, b.atrium)
	if err != nil {
		return nil, err
	}
	defer n.Stop()
	var made struct{ Path, Secret string }
	if err := n.Command(ctx, &made, nil, "receivers", "create", "--tenant", n.Tenant, "--name", "Bench", "--provider", "github", "--domain", "body.domain"); err != nil {
		return nil, err
	}
	var taken [2][]float64
	for i := range b.rounds + 1 {
		for side, kind := range []load.Kind{n.entry(), n.delivery(made.Path, made.Secret)} {
			r, err := b.send(ctx, n, kind, b.round, 0)
			if err != nil {
				return nil, err
			}
			if i > 0 {
				taken[side] = append(taken[side], r.Rate())
			}
		}
	}
	return []figure{rates("signed deliveries to a receiver, beside POST entry", taken[0], taken[1], "≥ 0.7")}, nil
}

// delivery returns a delivery as GitHub signs it, about a random account.
func (n *node) delivery(path, secret string) load.Kind {
	return load.Kind{Name: "POST delivery", Status: http.StatusOK, Request: func(i int) []byte {
		body := fmt.Appendf(nil, `{"action":"opened","domain":%q,"payload":%s}`, workload.Domain(rand.IntN(n.Accounts)), n.Payload)
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		return load.Send(http.MethodPost, n.Addr(), path, body, "X-GitHub-Event: issues", fmt.Sprintf("X-GitHub-Delivery: bench-%012d", i),
			fmt.Sprintf("X-Hub-Signature-256: sha256=%x", mac.Sum(nil)))
	}}
}
