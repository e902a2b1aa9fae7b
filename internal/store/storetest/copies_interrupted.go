package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

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
		if err == nil {
			break
		}
		if !errors.Is(err, errInterrupted) || writes > 1000 {
			t.Fatalf("run %d: %v", writes, err)
		}
		if _, _, _, err := to.Key(t.Context(), f.key); err == nil { // then everything that the key can read is there
			from, other := e.dump(t), to.dump(t)
			for _, table := range register.Tables() {
				if table.Kind == register.Distributed && len(from[table.Name]) != len(other[table.Name]) {
					t.Errorf("the key works, and %s has %d of %d rows", table.Name, len(other[table.Name]), len(from[table.Name]))
				}
			}
		}
		to.runDue(t, 0)
	}
	e.wantEqual(t, to)
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
