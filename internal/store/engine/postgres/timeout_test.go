package postgres_test

import (
	"context"
	"testing"
	"time"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
)

func TestAStatementIsCanceledAfterItsTimeout(t *testing.T) {
	const limit = 300 * time.Millisecond
	s := open(t, postgres.Options{Timeout: limit})
	slow := "SELECT 1 FROM pg_sleep(3600)"
	nothing := func(engine.Row) error { return nil }
	ctx, cancel := context.WithTimeout(t.Context(), limit/3)
	defer cancel()
	for name, err := range map[string]error{
		"query":       s.Query(t.Context(), slow, nil, nothing),
		"read":        s.Read(t.Context(), func(tx engine.Tx) error { return tx.Query(slow, nil, nothing) }),
		"write":       s.Write(t.Context(), func(tx engine.Tx) error { return tx.Query(slow, nil, nothing) }),
		"caller's":    s.Query(ctx, slow, nil, nothing),
		"caller's, 2": s.Query(ctx, slow, nil, nothing),
	} {
		if engine.ClassOf(err) != engine.Unavailable {
			t.Errorf("%s: %v, want Unavailable", name, err)
		}
	}
	if err := s.Migrate(t.Context(), func(tx engine.Tx) error { return tx.Script("SELECT pg_sleep(1)") }); err != nil {
		t.Errorf("a migration has no timeout: %v", err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		running := int64(0)
		if err := s.Query(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE query LIKE '%pg_sleep(3600)%' AND pid <> pg_backend_pid() AND state <> 'idle'`,
			nil, func(r engine.Row) error { running = r.Int(0); return nil }); err != nil {
			t.Fatal(err)
		}
		if running == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server still runs %d canceled statements", running)
		}
	}
}

func TestAWriteTransactionOfManyStatementsEnds(t *testing.T) {
	const limit = 300 * time.Millisecond
	s := open(t, postgres.Options{WriteTimeout: limit})
	before := s.counters(t)
	for _, c := range []struct {
		name string
		want engine.Class
		f    func(engine.Tx) error
	}{
		{"many statements", engine.Unavailable, func(tx engine.Tx) error {
			err := increment(tx, "a")
			for n := 0; err == nil && n < 1000; n++ {
				err = tx.Query("SELECT 1 FROM pg_sleep(0.05)", nil, func(engine.Row) error { return nil })
			}
			return err
		}},
		{"a late commit", engine.Uncertain, func(tx engine.Tx) error {
			err := increment(tx, "a")
			time.Sleep(2 * limit)
			return err
		}},
	} {
		if err := s.Write(t.Context(), c.f); engine.ClassOf(err) != c.want {
			t.Errorf("%s: %v, want class %v", c.name, err, c.want)
		}
	}
	if after := s.counters(t); after != before {
		t.Errorf("the counters are %s, want %s", after, before)
	}
}
