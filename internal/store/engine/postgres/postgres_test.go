package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/engine/postgrestest"
	"atrium/test/cutproxy"
)

// storetest tests what all engines guarantee. These tests are for failures that only a server has.

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

// A server is a DB on its own database, with a table of the counters a and b.
type server struct {
	*postgrestest.Server
	engine.DB
	url string
}

func open(t *testing.T, options postgres.Options) server {
	t.Helper()
	s := server{Server: postgrestest.Shared(t)}
	s.url = s.NewDatabase(t)
	s.DB = s.another(t, options)
	if err := s.Migrate(t.Context(), func(tx engine.Tx) error {
		return tx.Script(`CREATE TABLE counters (name TEXT PRIMARY KEY, n BIGINT);
			INSERT INTO counters VALUES ('a', 0), ('b', 0)`)
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s server) another(t *testing.T, options postgres.Options) engine.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), s.url, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func increment(tx engine.Tx, name string) error {
	_, err := tx.Exec("UPDATE counters SET n = n + 1 WHERE name = $1", name)
	return err
}

func (s server) counters(t *testing.T) (all string) {
	t.Helper()
	if err := s.Query(t.Context(), "SELECT name, n FROM counters ORDER BY name", nil, func(r engine.Row) error {
		all += fmt.Sprint(r.Text(0), r.Int(1))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// pid returns the ID of the server process that runs the transaction.
func pid(tx engine.Tx) (pid int64, err error) {
	err = engine.Find(tx.Query, "SELECT pg_backend_pid()", nil, func(r engine.Row) { pid = r.Int(0) })
	return pid, err
}

func (s server) terminate(t *testing.T, pid int64) {
	t.Helper()
	const sql = "SELECT 1 WHERE pg_terminate_backend($1::bigint::integer, 10000)"
	if err := s.Query(t.Context(), sql, engine.Args{pid}, func(engine.Row) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestDeadlockedTransactionsBothCommit(t *testing.T) {
	s := open(t, postgres.Options{})
	var calls atomic.Int64
	var both sync.WaitGroup
	both.Add(2)
	meet := [2]sync.Once{}
	run := func(i int, first, second string) error {
		return s.Write(t.Context(), func(tx engine.Tx) error {
			calls.Add(1)
			if err := increment(tx, first); err != nil {
				return err
			}
			meet[i].Do(both.Done)
			both.Wait() // each holds the lock that the other needs
			return increment(tx, second)
		})
	}
	other := make(chan error, 1)
	go func() { other <- run(1, "b", "a") }()
	if err := errors.Join(run(0, "a", "b"), <-other); err != nil {
		t.Error(err)
	}
	if calls.Load() < 3 {
		t.Errorf("%d calls: there was no deadlock", calls.Load())
	}
	if got := s.counters(t); got != "a2b2" {
		t.Errorf("the counters are %s, want a2b2", got)
	}
}

func TestAnAbortedTransactionIsRetriedAFewTimes(t *testing.T) {
	s := open(t, postgres.Options{})
	for _, code := range []string{"40001", "40P01"} {
		failures := 2
		calls := 0
		run := func() error {
			return s.Write(t.Context(), func(tx engine.Tx) error {
				calls++
				if err := increment(tx, "a"); err != nil || calls > failures {
					return err
				}
				return tx.Script("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '" + code + "'; END $$")
			})
		}
		if err := run(); err != nil || calls != 3 {
			t.Errorf("%s: %d calls, %v, want the third to succeed", code, calls, err)
		}
		failures, calls = 1000, 0
		if err := run(); engine.ClassOf(err) != engine.Unavailable || calls < 3 || calls > 20 {
			t.Errorf("%s: %d calls, %v, want a few and then Unavailable", code, calls, err)
		}
	}
	if got := s.counters(t); got != "a2b0" {
		t.Errorf("the counters are %s, want only the committed increments", got)
	}
}

func TestAConnectionLostBeforeTheCommitIsReplaced(t *testing.T) {
	s := open(t, postgres.Options{})
	admin := server{DB: s.another(t, postgres.Options{})}
	calls := 0
	if err := s.Write(t.Context(), func(tx engine.Tx) error {
		calls++
		if err := increment(tx, "a"); err != nil || calls > 2 {
			return err
		}
		id, err := pid(tx)
		if err != nil {
			return err
		}
		admin.terminate(t, id)
		return increment(tx, "b")
	}); err != nil || calls != 3 {
		t.Errorf("%d calls, %v, want the third to succeed", calls, err)
	}
	if got := s.counters(t); got != "a1b0" {
		t.Errorf("the counters are %s", got)
	}
}

// The statement was not used on the connection before, so it is prepared first.
func TestAConnectionLostBeforeAStatementIsPreparedIsReplaced(t *testing.T) {
	s := open(t, postgres.Options{})
	p, through := cutproxy.New(t, s.url)
	db, err := postgres.Open(t.Context(), through, postgres.Options{Connections: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	calls := 0
	if err := db.Write(t.Context(), func(tx engine.Tx) error {
		calls++
		if _, err := pid(tx); err != nil {
			return err
		}
		if calls == 1 {
			p.Silence()
			p.Wake()
		}
		return increment(tx, "a")
	}); err != nil || calls != 2 {
		t.Errorf("%d calls, %v, want the second to succeed", calls, err)
	}
	if got := s.counters(t); got != "a1b0" {
		t.Errorf("the counters are %s", got)
	}
}

func TestAReadIsRetriedOnlyBeforeItsFirstRow(t *testing.T) {
	s := open(t, postgres.Options{Connections: 2})
	admin := server{DB: s.another(t, postgres.Options{})}
	calls := 0
	err := s.Read(t.Context(), func(tx engine.Tx) error {
		calls++
		id, err := pid(tx) // a row
		if err != nil {
			return err
		}
		admin.terminate(t, id)
		return tx.Query("SELECT n FROM counters", nil, func(engine.Row) error { return nil })
	})
	if engine.ClassOf(err) != engine.Unavailable || calls != 1 {
		t.Errorf("%d calls, %v, want one and Unavailable", calls, err)
	}
	for range 10 { // the pool still has the terminated connections
		admin.terminateOthers(t)
		if got := s.counters(t); got != "a0b0" {
			t.Errorf("the counters are %s", got)
		}
	}
}

func (s server) terminateOthers(t *testing.T) {
	t.Helper()
	const sql = `SELECT CASE WHEN pid <> pg_backend_pid() THEN pg_terminate_backend(pid, 10000)::integer END
		FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname = current_database()`
	if err := s.Query(t.Context(), sql, nil, func(engine.Row) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestASnapshotReplacesALostConnection(t *testing.T) {
	s := open(t, postgres.Options{Connections: 2})
	admin := server{DB: s.another(t, postgres.Options{})}
	s.counters(t) // opens a connection
	admin.terminateOthers(t)
	calls := 0
	err := s.Snapshot(t.Context(), func(engine.DB) error {
		calls++
		return nil
	})
	if err != nil || calls != 1 {
		t.Errorf("%d calls, %v, want one", calls, err)
	}
}

func TestTheNumberOfCallsWaitingForAConnectionIsLimited(t *testing.T) {
	s := open(t, postgres.Options{Connections: 2})
	release := make(chan struct{})
	var running, all sync.WaitGroup
	running.Add(2)
	for range 2 {
		all.Go(func() {
			_ = s.Read(t.Context(), func(engine.Tx) error {
				running.Done()
				<-release
				return nil
			})
		})
	}
	running.Wait()
	var refused atomic.Int64
	const more, most = 200, 2 * 48
	for range more {
		all.Go(func() {
			err := s.Query(t.Context(), "SELECT 1", nil, func(engine.Row) error { return nil })
			if err != nil && engine.ClassOf(err) == engine.Unavailable && strings.Contains(err.Error(), "too many") {
				refused.Add(1)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	for deadline := time.Now().Add(30 * time.Second); refused.Load() < more-most; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%d calls were refused, want %d", refused.Load(), more-most)
			break
		}
	}
	close(release)
	all.Wait()
	if got := refused.Load(); got != more-most {
		t.Errorf("%d calls were refused, want %d", got, more-most)
	}
}

func TestOpenReportsWhyADatabaseIsUnusable(t *testing.T) {
	s := open(t, postgres.Options{})
	at := strings.Index(s.url, "?")
	slash := strings.LastIndex(s.url[:at], "/") + 1
	ascii := s.url[slash:at] + "_ascii"
	create := "CREATE DATABASE " + ascii + " ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0"
	if err := s.Query(t.Context(), create, nil, func(engine.Row) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		s.url[:slash] + ascii + s.url[at:]:                "UTF8",
		s.url[:slash] + "nowhere" + s.url[at:]:            "does not exist",
		"postgres://u:secret@127.0.0.1:1/d":               "connect",
		"postgres://u:secret@127.0.0.1:port/d":            "URL",
		s.url + "&default_transaction_read_only=on":       "read only",
		"postgres://u:secret@127.0.0.1:1/d?sslmode=magic": "sslmode",
	} {
		db, err := postgres.Open(t.Context(), url, postgres.Options{})
		if err == nil {
			_ = db.Close()
			t.Errorf("%s was opened", url)
			continue
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v does not contain %q", url, err, want)
		}
	}
}

func TestInvalidArgumentsAreAnInternalError(t *testing.T) {
	s := open(t, postgres.Options{})
	pair := engine.NewBatch("SELECT t, n FROM batch", "t text", "n bigint")
	for name, f := range map[string]func(engine.Tx) error{
		"too few":       func(tx engine.Tx) error { _, err := tx.Exec("SELECT $1::text, $2::text", "x"); return err },
		"another type":  func(tx engine.Tx) error { _, err := tx.Exec("SELECT n + $1 FROM counters", "x"); return err },
		"no such type":  func(tx engine.Tx) error { _, err := tx.Exec("SELECT $1", 1); return err },
		"a short row":   func(tx engine.Tx) error { _, err := tx.Batch(pair, []engine.Args{{"x"}}, nil); return err },
		"a wrong value": func(tx engine.Tx) error { _, err := tx.Batch(pair, []engine.Args{{"x", "y"}}, nil); return err },
	} {
		if err := s.Write(t.Context(), f); err == nil || engine.ClassOf(err) != engine.Internal {
			t.Errorf("%s: %v, want an error of class Internal", name, err)
		}
	}
	if got := s.counters(t); got != "a0b0" {
		t.Errorf("the counters are %s", got)
	}
}

func TestASnapshotDoesNotSeeLaterCommits(t *testing.T) {
	s := open(t, postgres.Options{})
	if err := s.Snapshot(t.Context(), func(snapshot engine.DB) error {
		if err := s.Write(t.Context(), func(tx engine.Tx) error { return increment(tx, "a") }); err != nil {
			return err
		}
		if got := (server{DB: snapshot}).counters(t); got != "a0b0" {
			t.Errorf("the counters are %s, want a0b0", got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := s.counters(t); got != "a1b0" {
		t.Errorf("the counters are %s", got)
	}
}

// Acknowledged data is on disk even if an administrator turned synchronous_commit off.
func TestCommitsAreDurableWhateverTheDatabasesDefault(t *testing.T) {
	s := open(t, postgres.Options{})
	if err := s.Migrate(t.Context(), func(tx engine.Tx) error {
		return tx.Script(`DO $$ BEGIN
			EXECUTE 'ALTER DATABASE ' || current_database() || ' SET synchronous_commit = off'; END $$`)
	}); err != nil {
		t.Fatal(err)
	}
	fresh := s.another(t, postgres.Options{})
	if err := fresh.Query(t.Context(), "SELECT current_setting('synchronous_commit')", nil, func(r engine.Row) error {
		if r.Text(0) != "on" {
			t.Errorf("synchronous_commit is %s", r.Text(0))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
