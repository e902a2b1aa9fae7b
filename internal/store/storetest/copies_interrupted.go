package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/register"
)

// Tests of copies that are interrupted, and of changes by jobs and other copies at the same time.

// An interruptedDB fails the nth write: before it begins, or after it has committed.
type interruptedDB struct {
	engine.DB
	left   int
	random *rand.Rand
}

var errInterrupted = errors.New("interrupted on purpose")

func (db *interruptedDB) Write(ctx context.Context, f func(engine.Tx) error) error {
	db.left--
	if db.left < 0 {
		return errInterrupted
	}
	if db.left == 0 && db.random.IntN(2) == 0 {
		if err := db.DB.Write(ctx, f); err != nil {
			return err
		}
		return errInterrupted
	}
	return db.DB.Write(ctx, f)
}

// An unfinishedDB fails the write that would complete a copy of a tenant.
type unfinishedDB struct{ engine.DB }

func (db unfinishedDB) Write(ctx context.Context, f func(engine.Tx) error) error {
	return db.DB.Write(ctx, func(tx engine.Tx) error { return f(unfinishedTx{tx}) })
}

type unfinishedTx struct{ engine.Tx }

func (tx unfinishedTx) Exec(sql string, args ...any) (int64, error) {
	if strings.HasPrefix(sql, "DELETE FROM settings") {
		return 0, errInterrupted
	}
	return tx.Tx.Exec(sql, args...)
}

// copyInterrupted copies everything to a new database, and is interrupted again and again.
func (e *env) copyInterrupted(t *testing.T) {
	t.Helper()
	e.withProspects(t, "many.example", 60) // more than a batch
	to := e.emptyTarget(t)
	random := rand.New(rand.NewPCG(1, 2))
	for run := 0; ; run++ {
		broken := &interruptedDB{DB: to.db, left: 1 + random.IntN(5), random: random}
		report, err := e.CopyTo(t.Context(), store.New(broken, e.clock.now), store.CopyOptions{})
		if err == nil && !report.Different() || atrium.CodeOf(err) == atrium.CodeConflict { // the last write was committed
			if run < 10 {
				t.Errorf("it was interrupted only %d times", run)
			}
			break
		}
		if !errors.Is(err, errInterrupted) || run > 1000 {
			t.Fatalf("run %d: %+v, %v", run, report, err)
		}
	}
	e.wantAllEqual(t, to)
}

func copyHidesIncomplete(t *testing.T, e *env) {
	f := e.fill(t)
	to := e.sharedTarget()
	for writes := 1; ; writes++ {
		broken := &interruptedDB{DB: to.db, left: writes, random: rand.New(rand.NewPCG(1, 3))}
		_, err := e.CopyTo(t.Context(), store.New(broken, e.clock.now), store.CopyOptions{Tenant: e.tenant})
		if err == nil || atrium.CodeOf(err) == atrium.CodeConflict { // the last write was committed
			break
		}
		if !errors.Is(err, errInterrupted) || writes > 1000 {
			t.Fatalf("run %d: %v", writes, err)
		}
		if _, _, _, err := to.Key(t.Context(), f.key); err == nil { // then everything that the key can read is there
			from, other := e.dump(t), to.dump(t)
			for _, table := range register.Tables() {
				if table.Kind == register.Distributed && table.Copied() && len(from[table.Name]) != len(other[table.Name]) {
					t.Errorf("the key works, and %s has %d of %d rows", table.Name, len(other[table.Name]), len(from[table.Name]))
				}
			}
		}
		to.runDue(t, 0)
	}
	e.wantEqual(t, to)
}

// A deletion that begins during a copy must not leave a tenant that works in the target.
func copyOfDeletedTenant(t *testing.T, e *env) {
	e.fill(t)
	to, began := e.emptyTarget(t), false
	report, err := e.CopyTo(t.Context(), to.Store, store.CopyOptions{Tenant: e.tenant, Progress: func(int64) {
		if !began {
			began = true
			e.beginDeletion(t)
		}
	}})
	if atrium.CodeOf(err) != atrium.CodeNotFound || !began {
		t.Errorf("copied %+v, %v", report, err)
	}
	if found, err := to.Tenant(t.Context(), e.tenant); atrium.CodeOf(err) != atrium.CodeNotFound {
		t.Errorf("the target has %+v, %v", found, err)
	}
}

func copyAfterJobs(t *testing.T, e *env) {
	f := e.fill(t)
	to, o := e.emptyTarget(t), store.CopyOptions{Tenant: e.tenant}
	if _, err := e.CopyTo(t.Context(), store.New(unfinishedDB{to.db}, e.clock.now), o); !errors.Is(err, errInterrupted) {
		t.Fatal(err)
	}
	to.sweepActivity(t)
	if done := to.finishErasure(t, f.erasure); done.Entries == 0 {
		t.Errorf("erased %+v", done)
	}
	to.eraseAll(t)
	want := to.dump(t)
	report, err := e.CopyTo(t.Context(), to.Store, o)
	if err != nil || report.Different() || report.Skipped != 1 || report.Tenants != 0 {
		t.Fatalf("copy: %+v, %v", report, err)
	}
	for range 2 { // the jobs may run again, and change nothing
		got := to.dump(t)
		for _, table := range register.Tables() {
			if table.Kind == register.Reference { // rows may be stored again for the jobs
				got[table.Name] = want[table.Name]
			}
		}
		if text := want.difference(got); text != "" {
			t.Errorf("what the jobs have done has changed:\n%s", text)
		}
		if _, err := to.RunErasures(t.Context()); err != nil {
			t.Fatal(err)
		}
		to.eraseAll(t)
	}
	if n := to.rowsOf(t, "pending_erasures") + to.rowsOf(t, "erasures"); n != 0 {
		t.Errorf("%d erasures are pending", n)
	}
	to.wantSound(t, nil)
}

// dataRows returns how many rows a copy has stored when it begins to compare.
func (e *env) dataRows(t tb) (n int64) {
	t.Helper()
	for _, table := range register.Tables() {
		if table.Kind == register.Distributed && table.Copied() {
			n += e.rowsOf(t, table.Name)
		}
	}
	return n
}

func copyByTwo(t *testing.T, e *env) {
	to := e.sharedTarget()
	for _, c := range []struct {
		batches   int  // of the first copy, before the second one begins
		comparing bool // it begins when the first one compares
		writes    int  // of the second copy, until it is interrupted
	}{{3, false, 5}, {1, false, 1000}, {1, true, 1000}} {
		from := e.as(e.newTenant(t))
		from.withProspects(t, "many.example", 20)
		data, batches, began := from.dataRows(t), 0, false
		var second error
		o := store.CopyOptions{Tenant: from.tenant}
		both := o
		both.Progress = func(rows int64) {
			if batches++; began || batches < c.batches || c.comparing && rows <= data {
				return
			}
			began = true
			broken := &interruptedDB{DB: to.db, left: c.writes, random: rand.New(rand.NewPCG(1, 2))}
			_, second = from.CopyTo(t.Context(), store.New(broken, e.clock.now), o)
			if second == nil && !c.comparing { // the target may delete data from now on
				to.sql(t, "DELETE FROM search_terms WHERE tenant_id = $1", storedID(from.tenant))
			}
		}
		_, first := from.CopyTo(t.Context(), to.Store, both)
		if completed := c.writes == 1000; completed != (second == nil) || !completed && !errors.Is(second, errInterrupted) {
			t.Errorf("the second copy: %v", second)
		}
		if second == nil || first != nil {
			wantCode(t, first, atrium.CodeConflict)
			if want := "conflict: Another copy is running, or the source has changed: run the command again."; first == nil || first.Error() != want {
				t.Errorf("the first copy failed with %q, want %q", first, want)
			}
		}
		if second != nil && first != nil {
			from.copyTo(t, to.as(from.tenant))
		}
		want, got := from.dump(t), to.as(from.tenant).dump(t)
		if second == nil && !c.comparing {
			want["search_terms"] = nil
		}
		if text := want.difference(got); text != "" {
			t.Errorf("the copy differs:\n%s", text)
		}
		if rows := to.as(atrium.OperatorChain).auditRows(t, atrium.AuditFilter{Subject: string(from.tenant)}, 10); len(rows) != 1 {
			t.Errorf("operators have the audit records %+v", rows)
		}
	}
}

func copyFromRunning(t *testing.T, e *env) {
	for _, comparing := range []bool{false, true} { // when the source updates the activity
		from, to := e.as(e.newTenant(t)), e.sharedTarget()
		to.tenant = from.tenant
		f := from.fill(t)
		e.clock.step(24*time.Hour - 10*time.Minute)
		from.record(t, byID(f.alone)) // changes the minute of its activity
		data := from.dataRows(t)
		report, err := from.CopyTo(t.Context(), to.Store, store.CopyOptions{Tenant: from.tenant, Progress: func(rows int64) {
			if !comparing || rows == data { // everything is copied and nothing compared
				from.sweepActivity(t)
			}
			if rows == data {
				e.clock.step(20 * time.Minute)
				from.expire(t)
			}
		}})
		if err != nil || report.Different() {
			t.Fatalf("copy: %+v, %v", report, err)
		}
		if n, m := from.rowsOf(t, "requests"), to.rowsOf(t, "requests"); n != 0 || m == 0 {
			t.Errorf("%d requests are in the source and %d in the target", n, m)
		}
		to.sweepActivity(t)
		to.expire(t)
		if text := from.dump(t).copied().difference(to.dump(t).inCopy()); text != "" {
			t.Errorf("after the jobs of the target, it differs:\n%s", text)
		}
	}
}

func copyDiscarded(t *testing.T, e *env) {
	e.fill(t)
	to := e.sharedTarget()
	o := store.CopyOptions{Tenant: e.tenant}
	wantCode(t, to.DiscardCopy(t.Context(), o), atrium.CodeNotFound)
	other := to.as(to.newTenant(t))
	other.put(t, other.oneOfEach()...)
	before := other.dump(t)
	for _, writes := range []int{3, 11, 19, 23} {
		broken := &interruptedDB{DB: to.db, left: writes, random: rand.New(rand.NewPCG(1, 2))}
		if _, err := e.CopyTo(t.Context(), store.New(broken, e.clock.now), o); !errors.Is(err, errInterrupted) {
			t.Fatalf("copy: %v", err)
		}
		for broken.left = 2; ; broken.left = 2 {
			err := store.New(broken, e.clock.now).DiscardCopy(t.Context(), o)
			if err == nil || atrium.CodeOf(err) == atrium.CodeNotFound { // interrupted after the last write
				break
			}
			if !errors.Is(err, errInterrupted) {
				t.Fatalf("discard: %v", err)
			}
		}
		if n := to.dump(t).rows(); n > 0 {
			t.Errorf("%d rows are left", n)
		}
	}
	if text := before.difference(other.dump(t)); text != "" {
		t.Errorf("another tenant has changed:\n%s", text)
	}
	e.copyTo(t, to)
	wantCode(t, to.DiscardCopy(t.Context(), o), atrium.CodeNotFound) // it is complete
	e.wantEqual(t, to)
}

func copyDiscardedWhileRunning(t *testing.T, e *env) {
	to := e.sharedTarget()
	for _, batches := range []int{1, 9, 17, 30} { // of the copy, before it is discarded
		from := e.as(e.newTenant(t))
		from.fill(t)
		from.withProspects(t, "many.example", 20)
		o := store.CopyOptions{Tenant: from.tenant}
		stored := 0
		both := o
		both.Progress = func(int64) {
			if stored++; stored == batches { // everything is deleted, and the mark is left
				if err := store.New(unfinishedDB{to.db}, e.clock.now).DiscardCopy(t.Context(), o); !errors.Is(err, errInterrupted) {
					t.Errorf("discard: %v", err)
				}
			}
		}
		_, err := from.CopyTo(t.Context(), to.Store, both)
		wantCode(t, err, atrium.CodeConflict)
		if n := to.as(from.tenant).dump(t).rows(); n > 0 || stored < batches {
			t.Errorf("%d rows are left after %d batches", n, stored)
		}
		_, err = from.CopyTo(t.Context(), to.Store, o)
		wantCode(t, err, atrium.CodeConflict)
		if want := "The copy of " + string(from.tenant) + " is being discarded: run atrium copy --discard again."; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a copy began: %v, want %q", err, want)
		}
		if err := to.DiscardCopy(t.Context(), o); err != nil {
			t.Error(err)
		}
		from.copyTo(t, to.as(from.tenant))
		from.wantEqual(t, to.as(from.tenant))
	}
}

// A storingDB calls before in the transactions that store entries, before they do.
type storingDB struct {
	engine.DB
	before func()
}

func (db storingDB) Write(ctx context.Context, f func(engine.Tx) error) error {
	return db.DB.Write(ctx, func(tx engine.Tx) error { return f(storingTx{tx, db.before}) })
}

type storingTx struct {
	engine.Tx
	before func()
}

func (tx storingTx) Batch(b *engine.Batch, rows []engine.Args, each func(engine.Row) error) (int64, error) {
	if strings.HasPrefix(b.Server, "INSERT INTO entries ") {
		tx.before()
	}
	return tx.Tx.Batch(b, rows, each)
}

// An impatientDB waits only briefly for locks.
type impatientDB struct{ engine.DB }

func (db impatientDB) Write(ctx context.Context, f func(engine.Tx) error) error {
	return db.DB.Write(ctx, func(tx engine.Tx) error {
		tx.LockWait(50 * time.Millisecond)
		return f(tx)
	})
}

func copyNotDiscardedInBatch(t *testing.T, e *env) {
	e.fill(t)
	to := e.sharedTarget()
	o := store.CopyOptions{Tenant: e.tenant}
	tried := 0
	storing := storingDB{to.db, func() {
		if tried++; to.db.Traits().Writers == 1 { // there is no other transaction
			return
		}
		if err := store.New(impatientDB{to.db}, e.clock.now).DiscardCopy(t.Context(), o); engine.ClassOf(err) != engine.Locked {
			t.Errorf("the copy is discarded during a batch: %v", err)
		}
	}}
	if report, err := e.CopyTo(t.Context(), store.New(storing, e.clock.now), o); err != nil || report.Different() || tried == 0 {
		t.Fatalf("copy: %+v, %v, after %d attempts to discard it", report, err, tried)
	}
	e.wantEqual(t, to)
}
