package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store/engine"
)

// transactions are the guarantees of the engine itself. The tests use the table of settings,
// which belongs to no tenant.
var transactions = []guarantee{
	{"all statements of Read see one snapshot", readSeesOneState},
	{"Write rolls back on an error and on a panic", writeRollsBack},
	{"a committed Write is visible everywhere once it returns", writeIsSeen},
	{"a failed statement rolls back, and the next transaction works", failedStatement},
	{"a transaction with a failed statement is not committed, even if its error is ignored", ignoredError},
	{"after its context has ended, a transaction starts no statement, rolls back and releases the writer", endedContext},
	{"Snapshot sees committed data and blocks no writer", snapshotSeesCommitted},
	{"results of pipelined statements arrive before the next statement or with the commit", pipelinedResults},
	{"transactions share the locks of a batch, and each of them delays Lock", sharedLocks},
	{"empty and null bytes are distinct, and bytes are compared as bytes", bytesAreBytes},
	{"a check of an intact database finds nothing", checkPasses},
	{"a backup is a complete file on SQLite and fails on a server", backupsAreWhole},
	{"Schema and NewestInstant return the newest migration and instant", newestIsKnown},
	{"calls after Close return Unavailable", closedIsUnavailable},
}

var errOnPurpose = errors.New("on purpose")

func set(tx engine.Tx, name, value string) error {
	_, err := tx.Exec("INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, []byte(value))
	return err
}

func get(tx engine.Tx, name string) (value string, err error) {
	err = engine.Find(tx.Query, "SELECT value FROM settings WHERE name = $1", engine.Args{name}, func(r engine.Row) { value = string(r.Bytes(0)) })
	return value, err
}

func mustSet(t tb, db engine.DB, name, value string) {
	t.Helper()
	if err := db.Write(t.Context(), func(tx engine.Tx) error { return set(tx, name, value) }); err != nil {
		t.Fatalf("write: %v", err)
	}
}

// wantSetting checks the value of a setting; "" means that there is none.
func wantSetting(t tb, db engine.DB, name, want string) {
	t.Helper()
	err := db.Read(t.Context(), func(tx engine.Tx) error {
		got, err := get(tx, name)
		if err != nil && !errors.Is(err, engine.ErrNoRow) {
			return err
		}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
		return nil
	})
	if err != nil {
		t.Errorf("read: %v", err)
	}
}

func readSeesOneState(t *testing.T, e *env) {
	mustSet(t, e.db, "one state", "old")
	node := e.node()
	if err := e.db.Read(t.Context(), func(tx engine.Tx) error {
		first, err := get(tx, "one state")
		if err != nil {
			return err
		}
		for _, db := range []engine.DB{e.db, node.db} {
			mustSet(t, db, "one state", "new")
			second, err := get(tx, "one state")
			if err != nil {
				return err
			}
			if first != "old" || second != "old" {
				t.Errorf("read %q and then %q", first, second)
			}
		}
		return nil
	}); err != nil {
		t.Fatalf("read: %v", err)
	}
	wantSetting(t, e.db, "one state", "new")
}

func writeRollsBack(t *testing.T, e *env) {
	mustSet(t, e.db, "kept", "old")
	err := e.db.Write(t.Context(), func(tx engine.Tx) error {
		if err := errors.Join(set(tx, "kept", "new"), set(tx, "lost", "new")); err != nil {
			return err
		}
		return errOnPurpose
	})
	if !errors.Is(err, errOnPurpose) {
		t.Errorf("error %v, want the one that was returned", err)
	}
	func() {
		defer func() {
			if p := recover(); p != errOnPurpose { //nolint:errorlint // the same value
				t.Errorf("recovered %v, want the value of the panic", p)
			}
		}()
		_ = e.db.Write(t.Context(), func(tx engine.Tx) error {
			if err := set(tx, "kept", "newer"); err != nil {
				return err
			}
			panic(errOnPurpose) //nolint:forbidigo // to test the rollback
		})
	}()
	func() {
		defer func() { _ = recover() }()
		_ = e.db.Read(t.Context(), func(engine.Tx) error {
			panic(errOnPurpose) //nolint:forbidigo // to test that the reader is released
		})
	}()
	wantSetting(t, e.db, "kept", "old")
	wantSetting(t, e.db, "lost", "")
	mustSet(t, e.db, "kept", "newest")
	wantSetting(t, e.db, "kept", "newest")
}

func writeIsSeen(t *testing.T, e *env) {
	node := e.node()
	for _, value := range []string{"a", "b", "c"} {
		mustSet(t, e.db, "seen", value)
		wantSetting(t, e.db, "seen", value)
		wantSetting(t, node.db, "seen", value)
	}
}

func failedStatement(t *testing.T, e *env) {
	err := e.db.Write(t.Context(), func(tx engine.Tx) error {
		if err := set(tx, "failed", "new"); err != nil {
			return err
		}
		_, err := tx.Exec("INSERT INTO settings (name, value) VALUES ($1, $2)", "failed", []byte{})
		return err
	})
	if engine.ClassOf(err) != engine.Conflict {
		t.Errorf("a taken name is of class %d, %v, want Conflict", engine.ClassOf(err), err)
	}
	err = e.db.Write(t.Context(), func(tx engine.Tx) error {
		_, err := tx.Exec("INSERT INTO settings (no_such_column) VALUES ($1)", "x")
		return err
	})
	if err == nil || engine.ClassOf(err) != engine.Internal {
		t.Errorf("a wrong statement is of class %d, %v, want Internal", engine.ClassOf(err), err)
	}
	wantSetting(t, e.db, "failed", "")
	mustSet(t, e.db, "failed", "not")
}

func ignoredError(t *testing.T, e *env) {
	fails := func(tx engine.Tx) {
		_, _ = tx.Exec("INSERT INTO settings (name, value) VALUES ($1, $2)", "there", []byte{})
	}
	mustSet(t, e.db, "there", "already")
	for name, f := range map[string]func(engine.Tx) error{
		"later statement": func(tx engine.Tx) error {
			if err := set(tx, "ignored error", "before"); err != nil {
				return err
			}
			fails(tx)
			_ = set(tx, "ignored error", "after")
			return nil
		},
		"first statement": func(tx engine.Tx) error {
			fails(tx)
			_ = set(tx, "ignored error", "after")
			return nil
		},
		"first statement, invalid": func(tx engine.Tx) error {
			_, _ = tx.Exec("UPDATE settings SET no_such_column = $1", "x")
			_ = set(tx, "ignored error", "after")
			return nil
		},
		"first statement, invalid, and an error is returned": func(tx engine.Tx) error {
			_, _ = tx.Exec("UPDATE settings SET no_such_column = $1", "x")
			_ = set(tx, "ignored error", "after")
			return errOnPurpose
		},
		"first statement, with an invalid argument": func(tx engine.Tx) error {
			_, _ = tx.Exec("UPDATE settings SET value = value WHERE name = $1", 1)
			_ = set(tx, "ignored error", "after")
			return nil
		},
	} {
		if err := e.db.Write(t.Context(), f); err == nil {
			t.Errorf("%s: the transaction was committed", name)
		}
		wantSetting(t, e.db, "ignored error", "")
	}
	mustSet(t, e.db, "ignored error", "again")
}

func endedContext(t *testing.T, e *env) {
	ctx, cancel := context.WithCancel(t.Context())
	err := e.db.Write(ctx, func(tx engine.Tx) error {
		if err := set(tx, "ended", "first"); err != nil {
			return err
		}
		cancel() // within the transaction
		for n := range 3 {
			if err := set(tx, "ended", "second"); engine.ClassOf(err) != engine.Unavailable {
				t.Errorf("statement %d after the end: %v", n, err)
			}
		}
		return nil
	})
	if err == nil {
		t.Error("a transaction was committed after its context had ended")
	}
	wantSetting(t, e.db, "ended", "")
	for name, read := range map[string]func(context.Context) error{
		"Query": func(ctx context.Context) error {
			return e.db.Query(ctx, "SELECT value FROM settings WHERE name = $1", engine.Args{"ended"}, func(engine.Row) error { return nil })
		},
		"Read": func(ctx context.Context) error {
			return e.db.Read(ctx, func(tx engine.Tx) error {
				return tx.Query("SELECT value FROM settings WHERE name = $1", engine.Args{"ended"}, func(engine.Row) error { return nil })
			})
		},
	} {
		if err := read(ctx); engine.ClassOf(err) != engine.Unavailable {
			t.Errorf("%s after the end: %v", name, err)
		}
	}

	// A call that waits for the writer is canceled.
	waiting, giveUp := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	mustSet(t, e.db, "turn", "free")
	if err := e.db.Write(t.Context(), func(tx engine.Tx) error {
		go func() {
			gaveUp <- e.db.Write(waiting, func(tx engine.Tx) error { return set(tx, "turn", "taken") })
		}()
		giveUp()
		return set(tx, "turn", "held")
	}); err != nil {
		t.Fatalf("write: %v", err)
	}
	switch err := <-gaveUp; {
	case err == nil && e.db.Traits().Writers == 1:
		wantSetting(t, e.db, "turn", "taken")
	case err == nil: // before or after the other
	case engine.ClassOf(err) == engine.Unavailable:
		wantSetting(t, e.db, "turn", "held")
	default:
		t.Errorf("the canceled call returned class %d, %v, want Unavailable", engine.ClassOf(err), err)
	}

	_, err = e.Append(ctx, []*atrium.Draft{e.draft(t, byDomain("acme.example"))})
	if n := len(e.entries(t)); err == nil && n != 1 || err != nil && n != 0 {
		t.Errorf("error %v and %d entries", err, n)
	}
	if err != nil {
		wantCode(t, err, atrium.CodeUnavailable)
	}
	mustSet(t, e.db, "turn", "free") // the writer was released
}

func snapshotSeesCommitted(t *testing.T, e *env) {
	mustSet(t, e.db, "snapshot", "before")
	node := e.node()
	if err := e.db.Snapshot(t.Context(), func(db engine.DB) error {
		err := db.Read(t.Context(), func(tx engine.Tx) error {
			if got, err := get(tx, "snapshot"); err != nil || got != "before" {
				t.Errorf("read %q, %v, want the value committed before", got, err)
			}
			return nil
		})
		mustSet(t, e.db, "snapshot", "during")
		mustSet(t, node.db, "snapshot", "after")
		return err
	}); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	wantSetting(t, e.db, "snapshot", "after")
	if err := e.db.Snapshot(t.Context(), func(engine.DB) error { return errOnPurpose }); !errors.Is(err, errOnPurpose) {
		t.Errorf("error %v, want the one that was returned", err)
	}
}

var echo = engine.NewBatch("SELECT b, t, n FROM batch", "b bytea", "t text", "n bigint")

func bytesAreBytes(t *testing.T, e *env) {
	rows := []engine.Args{{[]byte{}, "", int64(0)}, {nil, nil, nil}, {[]byte(nil), "x", int64(-1 << 63)}, {[]byte{0, 255}, "é", int64(1<<63 - 1)}}
	for n := range 130 { // some are longer than buffers of engines
		rows = append(rows, engine.Args{bytes.Repeat([]byte{byte(n)}, n), "long", int64(n)})
	}
	var got int
	if err := e.db.Read(t.Context(), func(tx engine.Tx) error {
		got = 0
		_, err := tx.Batch(echo, rows, func(r engine.Row) error {
			got++
			if view := bytes.Clone(r.View(0)); !bytes.Equal(view, r.Bytes(0)) {
				t.Errorf("a view of %x is %x", r.Bytes(0), view)
			}
			switch {
			case r.Text(1) == "long":
				if n := r.Int(2); !bytes.Equal(r.Bytes(0), bytes.Repeat([]byte{byte(n)}, int(n))) {
					t.Errorf("%d bytes are %x", n, r.Bytes(0))
				}
			case r.Null(1): // the second row
				if !r.Null(0) || !r.Null(2) || r.Bytes(0) != nil || r.Text(1) != "" {
					t.Error("nulls are not null")
				}
			case r.Text(1) == "":
				if r.Null(0) || len(r.Bytes(0)) != 0 || r.Bytes(0) == nil || r.Int(2) != 0 {
					t.Error("empty values are not empty")
				}
			case r.Text(1) == "x":
				if !r.Null(0) || r.Int(2) != -1<<63 {
					t.Error("a nil slice is not null, or the least integer not itself")
				}
			default:
				if !bytes.Equal(r.Bytes(0), []byte{0, 255}) || r.Text(1) != "é" || r.Int(2) != 1<<63-1 {
					t.Errorf("got %x, %q, %d", r.Bytes(0), r.Text(1), r.Int(2))
				}
			}
			return nil
		})
		return err
	}); err != nil || got != len(rows) {
		t.Errorf("%d rows, %v, want %d", got, err, len(rows))
	}
}

func pipelinedResults(t *testing.T, e *env) {
	var got []string
	note := func(r engine.Row) { got = append(got, r.Text(1)) }
	row := func(text string) []engine.Args { return []engine.Args{{nil, text, nil}} }
	if err := e.db.Write(t.Context(), func(tx engine.Tx) error {
		got = nil
		if err := tx.PipelineQuery(echo, row("before"), note); err != nil {
			return err
		}
		if _, err := tx.Batch(echo, row("after"), func(r engine.Row) error {
			note(r)
			return nil
		}); err != nil {
			return err
		}
		return tx.PipelineQuery(echo, row("last"), note)
	}); err != nil || !slices.Equal(got, []string{"before", "after", "last"}) {
		t.Errorf("got %q, %v", got, err)
	}
}

var sharedSettings = engine.NewBatch("SELECT s.name FROM batch JOIN settings s ON s.name = batch.name", "name text").Share("s", "s.name")

func sharedLocks(t *testing.T, e *env) {
	mustSet(t, e.db, "shared", "1")
	share := func(tx engine.Tx) error {
		found := 0
		_, err := tx.Batch(sharedSettings, []engine.Args{{"shared"}}, func(engine.Row) error {
			found++
			return nil
		})
		if err == nil && found != 1 {
			err = fmt.Errorf("got %d rows, want 1", found)
		}
		return err
	}
	alone := func(tx engine.Tx) error {
		tx.LockWait(50 * time.Millisecond)
		return tx.Lock("SELECT name FROM settings WHERE name = $1", engine.Args{"shared"}, func(engine.Row) error { return nil })
	}
	node := e.node()
	if err := e.db.Write(t.Context(), func(tx engine.Tx) error {
		if err := share(tx); err != nil || e.db.Traits().Writers == 1 {
			return err
		}
		if err := node.db.Write(t.Context(), share); err != nil {
			t.Errorf("a second transaction could not share the lock: %v", err)
		}
		if err := node.db.Write(t.Context(), alone); engine.ClassOf(err) != engine.Locked {
			t.Errorf("Lock returned %v while another transaction had the shared lock", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := node.db.Write(t.Context(), alone); err != nil {
		t.Errorf("the lock was not released: %v", err)
	}
}

func checkPasses(t *testing.T, e *env) {
	e.put(t, e.oneOfEach()...)
	for _, full := range []bool{false, true} {
		if found, err := e.Check(t.Context(), full); err != nil || len(found) > 0 {
			t.Errorf("check, full %v: %v, %v", full, found, err)
		}
	}
	if err := e.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
}

func backupsAreWhole(t *testing.T, e *env) {
	e = e.fresh(t)
	e.put(t, e.oneOfEach()...)
	server, err := e.Server(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var told int64 = -1
	var written bytes.Buffer
	err = e.WriteBackup(t.Context(), &written, func(size int64) { told = size })
	if server != nil {
		if err == nil || told != -1 || written.Len() > 0 || server.Now.IsZero() || server.Settings["fsync"] == "" {
			t.Errorf("of a server: %v, %d bytes, and %+v", err, written.Len(), server)
		}
		return
	}
	if err != nil || told != int64(written.Len()) || told == 0 || !bytes.HasPrefix(written.Bytes(), []byte("SQLite format 3")) {
		t.Errorf("%d bytes of %d, %v", written.Len(), told, err)
	}
	// A client may disconnect. The next one gets a complete copy.
	enough := errors.New("enough")
	if err := e.WriteBackup(t.Context(), full{enough}, func(int64) {}); !errors.Is(err, enough) {
		t.Errorf("broken off: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.WriteBackup(ctx, io.Discard, func(int64) {}); err == nil {
		t.Error("WriteBackup succeeded after its context had ended")
	}
	var again bytes.Buffer
	if err := e.WriteBackup(t.Context(), &again, func(int64) {}); err != nil || !bytes.Equal(again.Bytes(), written.Bytes()) {
		t.Errorf("again: %v, %d bytes of %d", err, again.Len(), written.Len())
	}
}

// full is a writer that fails.
type full struct{ error }

func (f full) Write([]byte) (int, error) { return 0, f.error }

func newestIsKnown(t *testing.T, e *env) {
	if at, newest, err := e.Schema(t.Context()); err != nil || at != newest || at == 0 {
		t.Errorf("migration %d of %d, %v", at, newest, err)
	}
	e = e.fresh(t)
	e.clock.step(time.Hour)
	e.brand(t, "Brand")
	want := e.clock.instant()
	e.put(t, e.oneOfEach()...) // their own instants do not count
	e.clock.step(time.Hour)
	if newest, err := e.NewestInstant(t.Context()); err != nil || newest != want {
		t.Errorf("the newest instant is %s, %v, want %s", newest, err, want)
	}
}

func closedIsUnavailable(t *testing.T, e *env) {
	node := e.node()
	if err := errors.Join(node.Close(), node.Close()); err != nil {
		t.Fatalf("close, twice: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, appended := node.Append(ctx, []*atrium.Draft{e.draft(t, atrium.Claim{})})
	_, read := node.Tenant(ctx, e.tenant)
	for _, err := range []error{appended, read, node.Ping(ctx)} {
		wantCode(t, err, atrium.CodeUnavailable)
	}
	e.record(t, atrium.Claim{}) // the other node still works
}
