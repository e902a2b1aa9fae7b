package crash

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"atrium/internal/store"
)

const clientCount = 16

// Kills the server repeatedly. Each acknowledged entry must exist exactly once, including
// those that were retried.
func TestKillLosesAndDuplicatesNothing(t *testing.T) {
	for name, newDatabase := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killUnderLoad(t, newDatabase(t))
		})
	}
}

func killUnderLoad(t *testing.T, db *database) {
	rng := random(t)
	clients, l := newClients(t, rng, clientCount, db.tenants)
	lost, doubled := 0, 0
	examine := func(stored map[*tenant]*content) {
		v := l.audit(stored, forever)
		lost, doubled = lost+v.lost, doubled+v.doubled
		v.report(t)
	}
	for range *rounds {
		s := start(t, db.url)
		acks := l.acks()
		ctx, cancel := context.WithCancel(t.Context())
		wait := load(ctx, clients, s.base)
		for limit := time.Now().Add(startLimit); l.acks() == acks && time.Now().Before(limit); {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(rng.IntN(int(200 * time.Millisecond))))
		s.kill()
		cancel()
		wait()
		l.ended()
		s.checkLog()
		if l.acks() == acks {
			t.Fatal("a server acknowledged nothing")
		}
		if examine(db.read(t)); t.Failed() {
			return
		}
	}
	s := start(t, db.url)
	settle(clients, s.base)
	s.stop()
	l.ended()
	examine(db.read(t))
	for _, c := range clients {
		if len(c.pending) > 0 {
			t.Errorf("%d requests of %s have no response", len(c.pending), c.name)
		}
	}
	f := l.figures
	t.Logf("killed %d times: sent %d, acknowledged %d, retried %d, unanswered %d, renamed %d, lost %d, duplicated %d",
		*rounds, f.sent, f.acknowledged, f.retried, f.unanswered, f.renamed, lost, doubled)
}

// If a server is killed while it creates its database, the next one completes it.
func TestKillDuringTheFirstStart(t *testing.T) {
	rng := random(t)
	for range 5 {
		path := filepath.Join(t.TempDir(), "atrium.db")
		s := launch(t, "sqlite:"+path)
		for limit := time.Now().Add(startLimit); ; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(path); err == nil {
				break
			}
			if time.Now().After(limit) {
				t.Fatal("the server created no file")
			}
		}
		time.Sleep(time.Duration(rng.IntN(int(20 * time.Millisecond))))
		s.kill()
		start(t, "sqlite:"+path).stop()

		again, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if found, err := again.Check(t.Context(), true); err != nil || len(found) > 0 {
			t.Errorf("check: %v, %v", found, err)
		}
		if ran, err := again.Migrate(t.Context()); err != nil || len(ran) > 0 {
			t.Errorf("remaining migrations: %v, %v", ran, err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}
