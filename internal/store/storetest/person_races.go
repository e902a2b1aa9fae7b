package storetest

import (
	"errors"
	"testing"

	"atrium"
	"atrium/internal/store"
)

// Erasures of persons while accounts and entries change, and of several tenants.

// personIn stores an entry and a prospect of the person in each account.
func (e *env) personIn(t tb, accounts ...*atrium.Account) {
	t.Helper()
	for _, a := range accounts {
		e.record(t, byID(a.ID), payload(`{"to":"jane.doe@example.com"}`))
		e.link(t, a.ID, e.prospect(t, person).ID)
	}
}

func personErasedFromAccount(t *testing.T, e *env) {
	a, b, c := e.threeAccounts(t)
	e.merge(t, a.ID, b.ID)
	e.personIn(t, a, b, c)
	before := e.entriesOf(t, c.ID)
	done := e.finishErasure(t, e.startErasure(t, atrium.ErasureRequest{AccountID: a.ID, Rule: personal()}).ID)
	if done.Entries != 2 || done.Prospects != 2 || done.AccountID != b.ID || e.entriesOf(t, c.ID) != before {
		t.Errorf("erased %+v, the other account has %d entries, want %d", done, e.entriesOf(t, c.ID), before)
	}
}

func personsInTurn(t *testing.T, e *env) {
	tenants := []*env{e, e.as(e.newTenant(t))}
	for i, large := range tenants { // tests both orders of the identifiers
		small := tenants[1-i]
		account := e.newAccount("a.example", "")
		large.put(t, account)
		for range 2 {
			var chunk []store.Record
			for range 500 {
				entry := large.newEntry(account, "")
				entry.Payload = []byte(`{"to":"jane.doe@example.com"}`)
				chunk = append(chunk, entry)
			}
			large.put(t, chunk...)
		}
		small.record(t, byDomain("b.example"), payload(`{"to":"jane.doe@example.com"}`))
		request := atrium.ErasureRequest{Rule: atrium.ErasureRule{Text: person}}
		first, second := large.startErasure(t, request), small.startErasure(t, request)
		if _, err := e.interruptedAfter(2).RunErasures(t.Context()); !errors.Is(err, errOnPurpose) {
			t.Errorf("a killed node: %v", err)
		}
		one, err := large.FindErasure(t.Context(), large.tenant, first.ID)
		other, err2 := small.FindErasure(t.Context(), small.tenant, second.ID)
		if err := errors.Join(err, err2); err != nil || one.Entries == 0 || one.Entries == 1000 || other.Entries != 1 {
			t.Errorf("two transactions have erased %d entries and %d, %v", one.Entries, other.Entries, err)
		}
		if done := large.finishErasure(t, first.ID); done.Entries != 1000 {
			t.Errorf("erased %d", done.Entries)
		}
		small.finishErasure(t, second.ID)
	}
}
