package storetest

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

// Tests of copies of whole databases, and of slow ones.

// everythingIn creates a database with two tenants and operators, and returns one of the tenants.
func (e *env) everythingIn(t *testing.T) *env {
	t.Helper()
	from := e.fresh(t)
	from.target = e.target
	from.fill(t)
	other := from.as(from.newTenant(t))
	other.put(t, other.oneOfEach()...)
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
	if unfinished, all, err := to.UnfinishedCopies(t.Context()); err != nil || all || len(unfinished) > 0 {
		t.Errorf("unfinished copies are %v, %v, %v", unfinished, all, err)
	}
	report, err := e.CompareTo(t.Context(), to.Store, store.CopyOptions{})
	if err != nil || report.Different() || report.Tenants != 2 {
		t.Errorf("compared %+v, %v", report, err)
	}
}

func copyEverything(t *testing.T, e *env) {
	from := e.everythingIn(t)
	to := from.emptyTarget(t)
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
	from.wantAlreadyCopied(t, to, store.CopyOptions{}, 2)
	from.copyInterrupted(t)
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
	e.withProspects(t, "many.example", 40)
	to := e.sharedTarget()
	report, err := store.New(slowDB{e.db}, e.clock.now).CopyTo(t.Context(), to.Store, store.CopyOptions{Tenant: e.tenant})
	if err != nil || report.Different() {
		t.Fatalf("copy: %+v, %v", report, err)
	}
	e.wantEqual(t, to)
}
