package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
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
	request := atrium.ErasureRequest{AccountID: a.ID, Rule: personal()}
	matches := e.checkErasure(t, request)
	done := e.finishErasure(t, e.startErasure(t, request).ID)
	if done.Entries != 2 || done.Prospects != 2 || done.AccountID != b.ID || e.entriesOf(t, c.ID) != before {
		t.Errorf("erased %+v, the other account has %d entries, want %d", done, e.entriesOf(t, c.ID), before)
	}
	if len(matches) != 4 {
		t.Errorf("the check found %+v", matches)
	}
	for _, m := range matches {
		_, err := e.Prospect(t.Context(), e.tenant, m.ProspectID)
		if m.EntryID != "" {
			_, err = e.TimelineEntry(t.Context(), e.tenant, m.EntryID)
		}
		wantCode(t, err, atrium.CodeNotFound)
	}
}

func personErasedWhileMerged(t *testing.T, e *env) {
	a, b, c := e.threeAccounts(t)
	e.merge(t, a.ID, b.ID)
	e.personIn(t, a, b, c)
	made := e.startErasure(t, atrium.ErasureRequest{AccountID: a.ID, Rule: personal()})
	e.merge(t, b.ID, c.ID)
	if done := e.finishErasure(t, made.ID); done.Entries != 3 || done.Prospects != 3 {
		t.Errorf("erased %+v", done)
	}
}

func personErasedWithAccount(t *testing.T, e *env) {
	a, b, _ := e.threeAccounts(t)
	e.personIn(t, a, b)
	made := e.startErasure(t, atrium.ErasureRequest{AccountID: a.ID, Rule: personal()})
	e.erase(t, a.ID)
	if done := e.finishErasure(t, made.ID); done.Entries != 0 || done.Prospects != 0 {
		t.Errorf("erased %+v", done)
	}
}

// eraseAfter erases, and calls change between what a transaction of the erasure, given by its number,
// deletes and the search for it.
func (e *env) eraseAfter(t tb, request atrium.ErasureRequest, number int, change func() error) atrium.Erasure {
	t.Helper()
	made, changed := e.startErasure(t, request), false
	hooked := e.hooked(func(n int) error {
		if n == number {
			changed = true
			if err := change(); err != nil {
				t.Errorf("change: %v", err)
			}
		}
		return nil
	})
	if _, err := hooked.RunErasures(t.Context()); err != nil || !changed {
		t.Errorf("changed %v, %v", changed, err)
	}
	return e.finishErasure(t, made.ID)
}

func prospectNoLongerMatches(t *testing.T, e *env) {
	setEmail := func(email *string) func(*env, atrium.AccountID, atrium.AccountID, atrium.ProspectID) error {
		return func(e *env, _, _ atrium.AccountID, id atrium.ProspectID) error {
			_, err := e.UpdateProspect(t.Context(), e.change(), id, func(p *atrium.Prospect) { p.Email = email }, accept)
			return err
		}
	}
	for what, c := range map[string]struct {
		ofAccount bool
		change    func(e *env, account, merged atrium.AccountID, id atrium.ProspectID) error
	}{
		"the address is corrected": {false, setEmail(pointer("jane.d@example.com"))},
		"the address is removed":   {true, setEmail(nil)},
		"the link is removed": {true, func(e *env, account, _ atrium.AccountID, id atrium.ProspectID) error {
			return e.UnlinkProspect(t.Context(), e.change(), account, id, accept)
		}},
		"the merge is undone": {true, func(e *env, account, merged atrium.AccountID, _ atrium.ProspectID) error {
			_, err := e.SplitAccount(t.Context(), e.change(), account, merged, accept)
			return err
		}},
	} {
		e := e.as(e.newTenant(t))
		account, merged := e.record(t, byDomain("a.example")).AccountID, e.record(t, byDomain("b.example")).AccountID
		id := e.prospect(t, person).ID
		e.link(t, merged, id)
		e.merge(t, merged, account)
		request := atrium.ErasureRequest{Rule: atrium.ErasureRule{ProspectEmail: person}}
		if c.ofAccount {
			request.AccountID = account
		}
		done := e.eraseAfter(t, request, 2, func() error { return c.change(e, account, merged, id) }) // the first one is about rules of moves
		if _, err := e.Prospect(t.Context(), e.tenant, id); err != nil || done.Prospects != 0 {
			t.Errorf("%s, but the prospect was erased: %v, %+v", what, err, done)
		}
	}
}

func entryMovedBeforeErased(t *testing.T, e *env) {
	for _, c := range []struct {
		what      string
		ofAccount bool
		change    func(e *env, id atrium.EntryID, account, merged, other atrium.AccountID) error
		want      int64
	}{
		{"moved", false, func(e *env, id atrium.EntryID, _, _, other atrium.AccountID) error {
			_, _, err := e.MoveEntry(t.Context(), e.change(), id, other, accept)
			return err
		}, 1},
		{"moved out of the account", true, func(e *env, id atrium.EntryID, _, _, other atrium.AccountID) error {
			_, _, err := e.MoveEntry(t.Context(), e.change(), id, other, accept)
			return err
		}, 0},
		{"of an account that is no longer merged", true, func(e *env, _ atrium.EntryID, account, merged, _ atrium.AccountID) error {
			_, err := e.SplitAccount(t.Context(), e.change(), account, merged, accept)
			return err
		}, 0},
	} {
		e := e.as(e.newTenant(t))
		r, account, other := e.record(t, byDomain("a.example"), payload(`{"to":"jane.doe@example.com"}`)), e.record(t, byDomain("b.example")), e.record(t, byDomain("c.example"))
		e.merge(t, r.AccountID, account.AccountID)
		request := atrium.ErasureRequest{Rule: atrium.ErasureRule{Text: person}}
		if c.ofAccount {
			request.AccountID = account.AccountID
		}
		done := e.eraseAfter(t, request, 1, func() error { return c.change(e, r.EntryID, account.AccountID, r.AccountID, other.AccountID) })
		if n := int64(len(e.entries(t))); done.Entries != c.want || n != 3-c.want {
			t.Errorf("an entry %s: %d were erased, %d are left", c.what, done.Entries, n)
		}
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
		if _, err := e.unpaused().interruptedAfter(4).RunErasures(t.Context()); !errors.Is(err, errOnPurpose) { // of the quarantine and of entries
			t.Errorf("a killed node: %v", err)
		}
		one, err := large.FindErasure(t.Context(), large.tenant, first.ID)
		other, err2 := small.FindErasure(t.Context(), small.tenant, second.ID)
		if err := errors.Join(err, err2); err != nil || one.Entries == 0 || one.Entries == 1000 || other.Entries != 1 {
			t.Errorf("four transactions have erased %d entries and %d, %v", one.Entries, other.Entries, err)
		}
		if done := large.finishErasure(t, first.ID); done.Entries != 1000 {
			t.Errorf("erased %d", done.Entries)
		}
		small.finishErasure(t, second.ID)
	}
}

// A purgeCounter is a DB that counts its purges.
type purgeCounter struct {
	engine.DB
	purges *int
}

func (db purgeCounter) Purge(ctx context.Context, maxBytes int64) error {
	*db.purges++
	return db.DB.Purge(ctx, maxBytes)
}

func personsPurgedTogether(t *testing.T, e *env) {
	tenants := []*env{e, e.as(e.newTenant(t))}
	made := map[atrium.ErasureID]*env{}
	for i := range 3 {
		for _, e := range tenants {
			text := fmt.Sprintf("p%d@example.com", i)
			e.record(t, byDomain("a.example"), payload(`{"to":"`+text+`"}`))
			made[e.startErasure(t, atrium.ErasureRequest{Rule: atrium.ErasureRule{Text: text}}).ID] = e
		}
	}
	want := func(complete bool) {
		t.Helper()
		for id, e := range made {
			if found, err := e.FindErasure(t.Context(), e.tenant, id); err != nil || found.Entries != 1 || (found.CompletedAt != nil) != complete {
				t.Errorf("found %+v, %v, want it complete %v", found, err, complete)
			}
		}
	}
	if _, err := e.withoutPurges().RunErasures(t.Context()); !errors.Is(err, errOnPurpose) {
		t.Errorf("without a purge: %v", err)
	}
	want(false)
	purges, counted := 0, *e
	counted.Store = store.New(purgeCounter{e.db, &purges}, e.clock.now)
	if _, err := counted.RunErasures(t.Context()); err != nil || purges != 1 {
		t.Errorf("%d purges, %v", purges, err)
	}
	want(true)
}
