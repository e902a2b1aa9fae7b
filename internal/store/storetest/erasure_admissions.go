package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

var erasureAdmissions = []guarantee{
	{"every transaction of an erasing request after the first is admitted as a large change", erasureAdmitted},
	{"an erasure is left to the background job when a later transaction is not admitted", erasureNotAdmitted},
	{"every transaction that redacts or deletes a prospect with many audit rows is admitted as a large change", deletionAdmitted},
}

// An admittingDB is a DB that records how its write transactions were admitted.
type admittingDB struct {
	engine.DB
	admissions
	most   int   // admissions; 0 for any number
	writes []int // the admissions held by each write transaction
}

var errNotAdmitted = errors.New("not admitted")

func (a *admittingDB) admit(ctx context.Context, large bool) (release func(), err error) {
	if a.most > 0 && len(a.large) == a.most {
		return nil, errNotAdmitted
	}
	return a.admissions.admit(ctx, large)
}

func (a *admittingDB) Write(ctx context.Context, f func(engine.Tx) error) error {
	a.writes = append(a.writes, a.open)
	return a.DB.Write(ctx, f)
}

// wantAdmitted checks that each write transaction was admitted, and only while it ran.
func (a *admittingDB) wantAdmitted(t tb, transactions int) {
	t.Helper()
	if len(a.writes) < transactions || len(a.large) != len(a.writes) || slices.ContainsFunc(a.writes, func(held int) bool { return held != 1 }) || a.open != 0 {
		t.Errorf("%d transactions held %v of %d admissions, and %d were not released", len(a.writes), a.writes, len(a.large), a.open)
	}
}

// admitting returns the env with a store that records admissions, and a change with them.
func (e *env) admitting(most int) (*env, *admittingDB, atrium.Change) {
	a := &admittingDB{DB: e.db, most: most}
	other := *e
	other.Store = store.New(a, e.clock.now)
	c := e.change()
	c.Admit = a.admit
	return &other, a, c
}

// largeAccount returns an account with all that an erasure deletes in parts.
func (e *env) largeAccount(t tb) atrium.AccountID {
	t.Helper()
	account := e.newAccount("large.example", "")
	e.put(t, account)
	for i := range 120 {
		e.rename(t, account.ID, fmt.Sprint("Secret ", i))
	}
	e.record(t, byName("secret"))
	request := atrium.MoveRequest{To: account.ID, Rule: atrium.MoveRule{ClaimedName: "secret", Given: []byte(`{"claimedName":"secret"}`)}, Limit: 10}
	if _, _, err := e.Move(t.Context(), e.change(), request); err != nil {
		t.Fatalf("move: %v", err)
	}
	var prospects []store.Record
	for range 600 {
		prospects = append(prospects, e.newProspect(account))
	}
	e.put(t, prospects[:300]...)
	e.put(t, prospects[300:]...)
	payload := fmt.Appendf(nil, "%q", bytes.Repeat([]byte("x"), 1<<20))
	for range 6 {
		entry := e.newEntry(account, "")
		entry.Payload = payload
		e.put(t, entry)
	}
	return account.ID
}

func erasureAdmitted(t *testing.T, e *env) {
	e = e.fresh(t)
	id := e.largeAccount(t)
	admitting, a, c := e.admitting(0)
	if _, err := admitting.EraseAccount(t.Context(), c, id, nil); err != nil {
		t.Fatal(err)
	}
	a.wantAdmitted(t, 8) // hidden, as a small and a large change, 2 of details, rules, links, 2 of entries
	if slices.Contains(a.large[1:], false) {
		t.Errorf("admitted as large: %v", a.large)
	}
	if n := e.entriesOf(t, id); n != 0 {
		t.Errorf("%d entries are left", n)
	}
	e.eraseAll(t)
}

func erasureNotAdmitted(t *testing.T, e *env) {
	for most := 2; most < 8; most++ { // the first transaction is admitted twice: as small, and as large
		e := e.as(e.newTenant(t))
		id := e.largeAccount(t)
		admitting, a, c := e.admitting(most)
		if done, err := admitting.EraseAccount(t.Context(), c, id, nil); err != nil || done {
			t.Errorf("after %d transactions: done %v, %v", most, done, err)
		}
		a.wantAdmitted(t, most)
		if !e.erased(t, id) {
			t.Errorf("after %d transactions, the erasure is complete", most)
		}
		e.eraseAll(t)
		if n := e.entriesOf(t, id); n != 0 || e.erased(t, id) {
			t.Errorf("%d entries are left", n)
		}
		e.wantSound(t, nil)
	}
}

func deletionAdmitted(t *testing.T, e *env) {
	e = e.fresh(t)
	unchecked := func(atrium.LinkedProspect) error { return nil }
	for _, details := range []int{1, 250} {
		p := e.prospect(t, "jane@acme.example")
		for i := range details {
			if _, err := e.UpdateProspect(t.Context(), e.change(), p.ID, func(p *atrium.Prospect) { p.Name = pointer(fmt.Sprint("Secret ", i)) }, unchecked); err != nil {
				t.Fatal(err)
			}
		}
		admitting, a, c := e.admitting(0)
		if done, err := admitting.DeleteProspect(t.Context(), c, p.ID, unchecked); err != nil || !done {
			t.Errorf("done %v, %v", done, err)
		}
		a.wantAdmitted(t, 2+details/redactedAtOnce)
		if want := details >= redactedAtOnce; a.large[0] != want || slices.Contains(a.large[1:], false) {
			t.Errorf("with %d audit rows, admitted as large: %v", details, a.large)
		}
	}
	p := e.prospect(t, "joe@acme.example")
	admitting, _, c := e.admitting(1)
	if done, err := admitting.DeleteProspect(t.Context(), c, p.ID, unchecked); err != nil || done {
		t.Errorf("not admitted: done %v, %v", done, err)
	}
	e.wantUncompleted(t)
}

// redactedAtOnce is how many audit rows a transaction redacts.
const redactedAtOnce = 100
