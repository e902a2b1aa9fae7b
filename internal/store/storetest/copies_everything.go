package storetest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

// Tests of copies of whole databases, and copies that are interrupted.

// everythingIn creates a database with two tenants and operators, and returns one of the tenants.
func (e *env) everythingIn(t *testing.T) *env {
	t.Helper()
	from := e.fresh(t)
	from.target = e.target
	from.fill(t)
	from.as(from.newTenant(t)).fill(t)
	operator := from.as(atrium.OperatorChain)
	if _, _, err := from.CreateKey(t.Context(), operator.change(), atrium.APIKey{ID: atrium.NewID[atrium.KeyID](), Name: "key"}, secretHash(7)); err != nil {
		t.Fatalf("create a key: %v", err)
	}
	if _, err := from.Secret(t.Context(), store.CursorKey); err != nil {
		t.Fatal(err)
	}
	return from
}

// wantAllEqual compares all tenants and the operators.
func (e *env) wantAllEqual(t *testing.T, to *env) {
	t.Helper()
	tenants, _, err := e.Tenants(t.Context(), nil, 10)
	if err != nil || len(tenants) != 2 {
		t.Fatalf("tenants %v, %v", tenants, err)
	}
	for _, tenant := range append(tenants, atrium.Tenant{ID: atrium.OperatorChain}) {
		e.as(tenant.ID).wantEqual(t, to.as(tenant.ID))
		to.as(tenant.ID).wantSound(t, nil)
	}
	want, err := e.Secret(t.Context(), store.CursorKey)
	got, e2 := to.Secret(t.Context(), store.CursorKey)
	if err != nil || e2 != nil || !bytes.Equal(got, want) {
		t.Errorf("the secrets are %x and %x, %v, %v", want, got, err, e2)
	}
	report, err := e.CompareTo(t.Context(), to.Store, store.CopyOptions{})
	if err != nil || report.Different() || report.Tenants != 2 {
		t.Errorf("compared %+v, %v", report, err)
	}
}

func copyEverything(t *testing.T, e *env) {
	from := e.everythingIn(t)
	to := from.newTarget(t)
	report, err := from.CopyTo(t.Context(), to.Store, store.CopyOptions{})
	if err != nil || report.Different() || report.Tenants != 2 || report.Skipped != 0 {
		t.Fatalf("copy: %+v, %v", report, err)
	}
	from.wantAllEqual(t, to)
	var keys int
	if err := to.db.Query(t.Context(), "SELECT key_id FROM api_keys WHERE tenant_id IS NULL", nil, func(engine.Row) error {
		keys++
		return nil
	}); err != nil || keys != 1 {
		t.Errorf("operators have %d keys, %v", keys, err)
	}
	_, err = from.CopyTo(t.Context(), to.Store, store.CopyOptions{})
	wantCode(t, err, atrium.CodeConflict) // it is complete
}

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

func copyContinues(t *testing.T, e *env) {
	from := e.everythingIn(t)
	from.withProspects(t, "many.example", 2100) // more than a batch
	to := from.newTarget(t)
	random := rand.New(rand.NewPCG(1, 2))
	for run := 0; ; run++ {
		broken := &interruptedDB{DB: to.db, left: 1 + random.IntN(8), random: random}
		report, err := from.CopyTo(t.Context(), store.New(broken, e.clock.now), store.CopyOptions{})
		if err == nil && !report.Different() {
			if run < 10 {
				t.Errorf("it was interrupted only %d times", run)
			}
			break
		}
		if !errors.Is(err, errInterrupted) || run > 1000 {
			t.Fatalf("run %d: %+v, %v", run, report, err)
		}
	}
	from.wantAllEqual(t, to)
}

// A slowDB fails queries for more than a few rows, as a server does whose rows take too long.
type slowDB struct{ engine.DB }

func (db slowDB) Query(ctx context.Context, sql string, args engine.Args, each func(engine.Row) error) error {
	if strings.HasSuffix(sql, " LIMIT $"+strconv.Itoa(len(args))) && args[len(args)-1].(int64) > 8 {
		return &engine.Error{Class: engine.Unavailable, Err: errInterrupted}
	}
	return db.DB.Query(ctx, sql, args, each)
}

func copyFromSlow(t *testing.T, e *env) {
	e.fill(t)
	e.withProspects(t, "many.example", 40)
	to := e.newTarget(t)
	report, err := store.New(slowDB{e.db}, e.clock.now).CopyTo(t.Context(), to.Store, store.CopyOptions{Tenant: e.tenant})
	if err != nil || report.Different() {
		t.Fatalf("copy: %+v, %v", report, err)
	}
	e.wantEqual(t, to)
}
