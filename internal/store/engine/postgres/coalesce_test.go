package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
)

// coalesced runs queries while a slow one is in flight, so that they are sent together. 4
// connections have one leader.
func coalesced(t *testing.T, db engine.DB, queries ...func() error) []error {
	t.Helper()
	errs := make([]error, len(queries))
	var all sync.WaitGroup
	started := make(chan struct{})
	all.Go(func() {
		close(started)
		err := db.Query(t.Context(), "SELECT 1 FROM pg_sleep(0.4)", nil, func(engine.Row) error { return nil })
		if err != nil {
			t.Errorf("the first query: %v", err)
		}
	})
	<-started
	time.Sleep(100 * time.Millisecond)
	for i, q := range queries {
		all.Go(func() { errs[i] = q() })
	}
	all.Wait()
	return errs
}

func TestWaitingQueriesAreCoalesced(t *testing.T) {
	for _, unprepared := range []bool{false, true} {
		s := open(t, postgres.Options{Connections: 4, Unprepared: unprepared})
		const n = 40
		results := make([]string, n)
		queries := make([]func() error, n)
		for i := range queries {
			queries[i] = func() error {
				const sql = "SELECT $1::bigint, now()::text, name FROM counters ORDER BY name"
				return s.Query(t.Context(), sql, engine.Args{int64(i)}, func(r engine.Row) error {
					if r.Int(0) != int64(i) {
						t.Errorf("query %d got the result of %d", i, r.Int(0))
					}
					results[i] += r.Text(2) + r.Text(1)
					return nil
				})
			}
		}
		if err := errors.Join(coalesced(t, s.DB, queries...)...); err != nil {
			t.Fatal(err)
		}
		transactions := map[string]int{} // by their time
		for i, result := range results {
			if !strings.HasPrefix(result, "a") || strings.Count(result, "b2") != 1 { // the name and the year
				t.Errorf("result %d is %q", i, result)
			}
			transactions[result]++
		}
		if len(transactions) > n/4 {
			t.Errorf("unprepared %t: %d queries were sent in %d transactions", unprepared, n, len(transactions))
		}
	}
}

func TestAFailedQueryDoesNotFailTheQueriesCoalescedWithIt(t *testing.T) {
	s := open(t, postgres.Options{Connections: 4, Timeout: 5 * time.Second})
	rows := make([]int, 30)
	queries := make([]func() error, len(rows))
	for i := range queries {
		count := func(engine.Row) error { rows[i]++; return nil }
		sql, args := "SELECT n FROM counters", engine.Args(nil)
		switch i {
		case 7:
			sql = "SELECT 1 / n FROM counters"
		case 11:
			sql, args = "SELECT n FROM counters WHERE name = $1", engine.Args{1} // an unsupported type
		case 9:
			sql = "SELECT 1 WHERE pg_cancel_backend(pg_backend_pid()) AND pg_sleep(1) IS NOT NULL"
		case 13:
			count = func(engine.Row) error { return errors.New("on purpose") }
		case 17:
			count = func(engine.Row) error { panic("on purpose") }
		case 19:
			sql = "SELECT 1 WHERE pg_terminate_backend(pg_backend_pid(), 10000)"
		}
		queries[i] = func() (err error) {
			defer func() {
				if p := recover(); p != nil { // the query ran alone
					err = fmt.Errorf("panic: %v", p)
				}
			}()
			return s.Query(t.Context(), sql, args, count)
		}
	}
	want := map[int]string{
		7: "division by zero", 9: "cancel", 11: "unable to encode", 13: "on purpose", 17: "on purpose", 19: "terminat",
	}
	for i, err := range coalesced(t, s.DB, queries...) {
		switch {
		case want[i] == "" && err != nil:
			t.Errorf("query %d failed because of another: %v", i, err)
		case want[i] == "" && rows[i] != 2:
			t.Errorf("query %d got %d rows, want 2", i, rows[i])
		case want[i] != "" && (err == nil || !strings.Contains(fmt.Sprint(err), want[i])):
			t.Errorf("query %d: %v, want %q", i, err, want[i])
		}
	}
	if got := s.counters(t); got != "a0b0" {
		t.Errorf("the counters are %s", got)
	}
}

func TestAWaitingQueryStopsWhenItsContextEnds(t *testing.T) {
	s := open(t, postgres.Options{Connections: 4})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var took time.Duration
	errs := coalesced(t, s.DB, func() error {
		start := time.Now()
		defer func() { took = time.Since(start) }()
		return s.Query(ctx, "SELECT n FROM counters", nil, func(engine.Row) error { return nil })
	}, func() error {
		return s.Query(t.Context(), "SELECT n FROM counters", nil, func(engine.Row) error { return nil })
	})
	if engine.ClassOf(errs[0]) != engine.Unavailable || !errors.Is(errs[0], context.DeadlineExceeded) || errs[1] != nil {
		t.Errorf("canceled query: %v after %v; other query: %v", errs[0], took, errs[1])
	}
}

func TestQueriesTimeOutIfTheDatabaseDoesNotRespond(t *testing.T) {
	s := open(t, postgres.Options{Connections: 4, Timeout: 3 * time.Second}) // also of the connection, which a busy machine delays
	nothing := func(engine.Row) error { return nil }
	queries := []func() error{func() error { return s.Query(t.Context(), "SELECT 1 FROM pg_sleep(3600)", nil, nothing) }}
	for range 100 {
		queries = append(queries, func() error { return s.Query(t.Context(), "SELECT n FROM counters", nil, nothing) })
	}
	start := time.Now()
	unavailable := 0
	for _, err := range coalesced(t, s.DB, queries...) {
		if engine.ClassOf(err) == engine.Unavailable {
			unavailable++
		} else if err != nil {
			t.Error(err)
		}
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	if unavailable == 0 {
		t.Error("no query timed out")
	}
	if got := s.counters(t); got != "a0b0" {
		t.Errorf("the counters are %s", got)
	}
}
