package crash

import (
	"context"
	"testing"
	"time"

	"atrium"
	"atrium/test/receiver"
)

// arrivalLimit bounds how long no event arrives after a server was killed: its leases must end first.
const arrivalLimit = time.Minute

// Kills the server repeatedly while it delivers events. The event of each acknowledged entry must arrive, always with
// the same body, and in order at an ordered webhook.
func TestKillLosesNoEventOfAWebhook(t *testing.T) {
	for name, newDatabase := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killWhileDelivering(t, newDatabase(t))
		})
	}
}

func killWhileDelivering(t *testing.T, db *database) {
	rng := random(t)
	tenants := db.tenants[:1] // which has events
	clients, l := newClients(t, rng, 2, tenants)
	r, keys := receiver.New(t), receiver.KeyFile(t)
	r.Subscribe(db.url, keys, tenants[0].id)
	run := func() *server {
		return start(t, db.url, "--secrets-key-file", keys, "--webhook-allow", "127.0.0.0/8")
	}
	for range *kills {
		s := run()
		arrived, acks := r.Requests(), l.acks()
		ctx, cancel := context.WithCancel(t.Context())
		wait := load(ctx, clients, s.base)
		for limit := time.Now().Add(arrivalLimit); (r.Requests() < arrived+20 || l.acks() < acks+*entries/2) && time.Now().Before(limit); {
			time.Sleep(time.Millisecond)
			if l.acks() > acks+*entries {
				cancel() // so that the events of all rounds arrive in a short time
			}
		}
		time.Sleep(time.Duration(rng.IntN(int(200 * time.Millisecond))))
		s.kill()
		cancel()
		wait()
		l.ended()
		s.checkLog()
		if r.Requests() == arrived {
			t.Fatal("no event has arrived")
		}
	}
	s := run()
	settle(clients, s.base)
	acknowledged := map[atrium.EntryID]bool{}
	for _, p := range l.postings {
		if p.response != nil {
			acknowledged[p.receipt.EntryID] = true
		}
	}
	lost := r.Wait(acknowledged, arrivalLimit)
	s.stop()
	events := db.read(t)[tenants[0]].events
	for path, entries := range r.Arrived() {
		for _, entry := range entries {
			if events[entry] != 1 {
				t.Errorf("%s has received an event of %s, of which the feed has %d", path, entry, events[entry])
			}
		}
	}
	if lost > 0 || len(acknowledged) == 0 {
		t.Errorf("%d events of %d acknowledged entries have not arrived", lost, len(acknowledged))
	}
	t.Logf("killed %d times: acknowledged %d entries, %d requests of 2 webhooks, %d repeated, lost %d", *kills, len(acknowledged), r.Requests(), r.Repeated(), lost)
}
