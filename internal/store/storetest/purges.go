package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

// A failingPurges is a DB whose purges fail.
type failingPurges struct{ engine.DB }

func (failingPurges) Purge(context.Context, int64) error {
	return &engine.Error{Class: engine.Unavailable, Err: errOnPurpose}
}

// withoutPurges returns the env of a node that cannot purge the database.
func (e *env) withoutPurges() *env {
	other := *e
	other.Store = store.New(failingPurges{e.db}, e.clock.now)
	return &other
}

// A purgeHook is a DB that calls before at the start of each purge.
type purgeHook struct {
	engine.DB
	before func()
}

func (db purgeHook) Purge(ctx context.Context, maxBytes int64) error {
	db.before()
	return db.DB.Purge(ctx, maxBytes)
}

// hookedPurges returns the env of a node that calls before at the start of each purge.
func (e *env) hookedPurges(before func()) *env {
	other := *e
	other.Store = store.New(purgeHook{e.db, before}, e.clock.now)
	return &other
}

// erasures returns the number of incomplete erasures of the tenant.
func (e *env) erasures(t tb) (n int) {
	t.Helper()
	if err := e.db.Query(t.Context(), "SELECT account_id FROM erasures WHERE tenant_id = $1", engine.Args{storedID(e.tenant)}, func(engine.Row) error {
		n++
		return nil
	}); err != nil {
		t.Fatalf("read the erasures: %v", err)
	}
	return n
}

// wantUncompleted checks that erasures are incomplete until the database is purged.
func (e *env) wantUncompleted(t tb) {
	t.Helper()
	n := e.erasures(t)
	if _, err := e.withoutPurges().ContinueErasures(t.Context()); !errors.Is(err, errOnPurpose) {
		t.Errorf("without a purge: %v", err)
	}
	if left := e.erasures(t); n == 0 || left != n {
		t.Errorf("%d of %d erasures are left without a purge", left, n)
	}
	e.eraseAll(t)
	if n := e.erasures(t); n != 0 {
		t.Errorf("%d erasures are left after a purge", n)
	}
}

func erasedAfterPurge(t *testing.T, e *env) {
	a, b, _ := e.threeAccounts(t)
	e.merge(t, a.ID, b.ID)
	if e.withoutPurges().erase(t, a.ID) {
		t.Error("the erasure is complete without a purge")
	}
	if n := e.entriesOf(t, a.ID) + e.entriesOf(t, b.ID); n != 0 {
		t.Errorf("%d entries are left", n)
	}
	e.wantUncompleted(t)
}

func deletedAfterPurge(t *testing.T, e *env) {
	e = e.fresh(t) // small enough to be purged within the request
	p, other := e.prospect(t, "jane@acme.example"), e.prospect(t, "joe@acme.example")
	if done, err := e.withoutPurges().DeleteProspect(t.Context(), e.change(), p.ID, accept); err != nil || done {
		t.Errorf("done %v without a purge, %v", done, err)
	}
	if _, err := e.Prospect(t.Context(), e.tenant, p.ID); atrium.CodeOf(err) != atrium.CodeNotFound {
		t.Errorf("after its deletion: %v", err)
	}
	e.wantUncompleted(t)
	if done, err := e.DeleteProspect(t.Context(), e.change(), other.ID, accept); err != nil || !done || e.erasures(t) != 0 {
		t.Errorf("done %v with a purge, %v", done, err)
	}
}

func deletedBesideAccount(t *testing.T, e *env) {
	p := e.prospect(t, "jane@acme.example")
	account := &atrium.Account{ID: sameDigits(t, p.ID), Domain: "acme.example"}
	e.put(t, account)
	e.put(t, e.newEntry(account, ""))
	if _, err := e.withoutPurges().DeleteProspect(t.Context(), e.change(), p.ID, accept); err != nil {
		t.Fatal(err)
	}
	e.eraseAll(t)
	if n := e.entriesOf(t, account.ID); n != 1 {
		t.Errorf("the account has %d entries", n)
	}
}

// sameDigits returns an account identifier with the digits of a prospect identifier.
func sameDigits(t tb, id atrium.ProspectID) atrium.AccountID {
	t.Helper()
	digits, ok := strings.CutPrefix(string(id), atrium.ProspectID("").Prefix())
	if !ok {
		t.Fatalf("%s is not an identifier of a prospect", id)
	}
	return atrium.AccountID(atrium.AccountID("").Prefix() + digits)
}
