package storetest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

var erasures = []guarantee{
	{"an erased account is gone with its entries, links and merged accounts", erasedIsGone},
	{"a later entry for an erased domain makes a new account", erasedMadeAnew},
	{concurrent + "entries beyond the limit of a request are deleted later and are invisible until then", erasedLater},
	{"a failing erasure does not block others", erasedBesideFailure},
	{"an erasure is complete only after the database was purged", erasedAfterPurge},
	{"the deletion of a prospect is complete only after the database was purged", deletedAfterPurge},
	{"deleting a prospect leaves an account with the same identifier digits alone", deletedBesideAccount},
	{"the audit log keeps no content of an erased account", erasedNotAudited},
	{"rules of moves to an erased account are deleted", erasedRules},
	{"the moves of erased entries are deleted", erasedMoves},
	{"an account of another tenant cannot be erased", erasedOfAnother},
	{concurrent + "entries appended during an erasure are erased or go to a new account", erasuresAndEntriesTogether},
}

func (e *env) erase(t tb, id atrium.AccountID) (done bool) {
	t.Helper()
	done, err := e.EraseAccount(t.Context(), e.change(), id, accept)
	if err != nil {
		t.Fatalf("erase: %v", err)
	}
	return done
}

// eraseAll runs the erasure job until nothing is left.
func (e *env) eraseAll(t tb) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = e.ContinueErasures(t.Context()); err != nil {
			t.Fatalf("erase entries: %v", err)
		}
	}
}

func erasedIsGone(t *testing.T, e *env) {
	e = e.fresh(t) // small enough to be purged within the request
	a, b, c := e.threeAccounts(t)
	e.merge(t, a.ID, b.ID)
	e.changeDomain(t, b.ID, "b2.example")
	kept := e.detail(t, c.ID)
	ids := []atrium.AccountID{a.ID, b.ID, e.detail(t, b.ID).Merged[0].ID, e.detail(t, b.ID).Merged[1].ID}
	if !e.erase(t, a.ID) {
		t.Error("three entries are left for later")
	}
	for _, id := range ids {
		if _, _, err := e.Account(t.Context(), e.tenant, id); atrium.CodeOf(err) != atrium.CodeNotFound {
			t.Errorf("%s is still there: %v", id, err)
		}
		if _, err := e.EraseAccount(t.Context(), e.change(), id, accept); atrium.CodeOf(err) != atrium.CodeNotFound {
			t.Errorf("erase it again: %v", err)
		}
		if o := e.append(t, e.draft(t, byID(id))); atrium.CodeOf(o[0].Err) != atrium.CodeNotFound {
			t.Errorf("an entry for it: %+v", o)
		}
		if n := e.entriesOf(t, id); n > 0 || e.erased(t, id) {
			t.Errorf("%d entries are left", n)
		}
	}
	if got := e.detail(t, c.ID); got.ID != kept.ID || len(got.Prospects) != 1 || *got.LatestActivityAt != *kept.LatestActivityAt {
		t.Errorf("another account became %+v", got)
	}
	if records := e.records(t); len(of[*atrium.Account](records)) != 1 || len(of[*atrium.Entry](records)) != 1 || len(of[*atrium.LinkedProspect](records)) != 3 {
		t.Errorf("the tenant has %q", describeAll(records))
	}
	e.wantSoundGroups(t)
}

func erasedMadeAnew(t *testing.T, e *env) {
	a, b, _ := e.threeAccounts(t)
	e.merge(t, a.ID, b.ID)
	e.erase(t, b.ID)
	for _, claim := range []atrium.Claim{byDomain("a.example"), byDomain("b.example")} {
		if r := e.record(t, claim); r.AccountID == a.ID || r.AccountID == b.ID || e.account(t, r.AccountID).Domain != claim.Domain {
			t.Errorf("%+v led to %s", claim, r.AccountID)
		}
	}
	none := e.record(t, atrium.Claim{}).AccountID
	e.erase(t, none)
	if r := e.record(t, byName("A")); r.AccountID == none || e.account(t, r.AccountID).Domain != atrium.UnattributedDomain {
		t.Errorf("after the unattributed account was erased, a name led to %s", r.AccountID)
	}
	e.wantSoundGroups(t)
}

// importManyEntries imports more entries of an account than one request deletes, the newest with a key.
func (e *env) importManyEntries(t tb, id atrium.AccountID) {
	t.Helper()
	e.clock.step(1e9)
	account := &atrium.Account{ID: id}
	for range 5 {
		var chunk []store.Record
		for range 500 {
			chunk = append(chunk, e.newEntry(account, ""))
		}
		e.put(t, chunk...)
	}
	e.clock.step(1e9)
	e.put(t, e.newEntry(account, "last"))
}

func erasedLater(t *testing.T, e *env) {
	a := e.record(t, byDomain("a.example")).AccountID
	e.importManyEntries(t, a)
	if e.erase(t, a) || e.entriesOf(t, a) == 0 || !e.erased(t, a) {
		t.Fatal("all entries are deleted in the request")
	}
	for _, r := range e.records(t) {
		if _, ok := r.(*atrium.Tombstone); !ok {
			t.Errorf("%s is exported", describe(r))
		}
	}
	again := e.record(t, byDomain("a.example")).AccountID
	other := e.node()
	parallel(t, 4, func(i int) { []*env{e, other}[i%2].eraseAll(t) })
	if n := e.entriesOf(t, a); n != 0 || e.erased(t, a) {
		t.Errorf("%d entries are left", n)
	}
	if n := e.entriesOf(t, again); n != 1 {
		t.Errorf("the new account has %d entries", n)
	}
	if more, err := e.ContinueErasures(t.Context()); err != nil || more {
		t.Errorf("more is left: %v, %v", more, err)
	}
	e.wantSoundGroups(t)
}

// A failingLocks is a DB that cannot lock the entries of some accounts.
type failingLocks struct {
	engine.DB
	accounts []atrium.AccountID
}

func (s failingLocks) Write(ctx context.Context, do func(engine.Tx) error) error {
	return s.DB.Write(ctx, func(tx engine.Tx) error { return do(failingLocksTx{tx, s.accounts}) })
}

type failingLocksTx struct {
	engine.Tx
	accounts []atrium.AccountID
}

func (s failingLocksTx) Lock(sql string, args engine.Args, each func(engine.Row) error) error {
	for _, id := range s.accounts {
		if strings.Contains(sql, "FROM entries") && slices.ContainsFunc(args, func(arg any) bool { return reflect.DeepEqual(arg, storedID(id)) }) {
			return errOnPurpose
		}
	}
	return s.Tx.Lock(sql, args, each)
}

func erasedBesideFailure(t *testing.T, e *env) {
	a, b, _ := e.threeAccounts(t)
	ids := slices.Sorted(slices.Values([]atrium.AccountID{a.ID, b.ID}))
	with := func(ids ...atrium.AccountID) *env {
		broken := *e
		broken.Store = store.New(failingLocks{e.db, ids}, e.clock.now)
		return &broken
	}
	for _, id := range ids {
		if with(ids...).erase(t, id) {
			t.Fatal("all entries are deleted in the request")
		}
	}
	if _, err := with(ids[0]).ContinueErasures(t.Context()); !errors.Is(err, errOnPurpose) {
		t.Errorf("error %v", err)
	}
	for i, want := range []int{1, 0} {
		if n := e.entriesOf(t, ids[i]); n != want || e.erased(t, ids[i]) != (want > 0) {
			t.Errorf("%d entries of account %d are left, want %d", n, i, want)
		}
	}
	e.eraseAll(t)
	if e.erased(t, ids[0]) {
		t.Error("the failed erasure was not retried")
	}
}

func erasedNotAudited(t *testing.T, e *env) {
	a, b, _ := e.threeAccounts(t)
	e.rename(t, a.ID, "Secret")
	e.changeDomain(t, b.ID, "secret.example")
	alias := e.detail(t, b.ID).Merged[0].ID
	e.merge(t, a.ID, b.ID)
	if _, _, err := e.CreateAccount(t.Context(), e.keyed("made", "it"), "made.example", "Secret"); err != nil {
		t.Fatal(err)
	}
	made := e.record(t, byDomain("made.example")).AccountID
	e.erase(t, a.ID)
	e.erase(t, made)
	ids := []string{string(b.ID)}
	ids = append(ids, slices.Sorted(slices.Values([]string{string(a.ID), string(alias)}))...)
	if acts, want := e.auditLines(t, string(a.ID)), []string{"account.update ", "account.merge "}; !slices.Equal(acts, want) {
		t.Errorf("the audit log of the merged account is %q, want %q", acts, want)
	}
	want := []string{"account.update ", `account.erase {"members":2,"redacted":["` + strings.Join(ids, `","`) + `"]}`}
	if acts := e.auditLines(t, string(b.ID)); !slices.Equal(acts, want) {
		t.Errorf("the audit log of the survivor is %q, want %q", acts, want)
	}
	if _, _, err := e.CreateAccount(t.Context(), e.keyed("made", "it"), "made.example", "Secret"); atrium.CodeOf(err) != atrium.CodeNotFound {
		t.Errorf("repeating the request that created an erased account: %v", err)
	}
	if report := e.wantSound(t, nil); report.Redacted == 0 {
		t.Error("no row was redacted")
	}
}

func erasedRules(t *testing.T, e *env) {
	erased, kept := e.record(t, byDomain("erased.example")).AccountID, e.record(t, byDomain("kept.example")).AccountID
	rule := func(name string) atrium.MoveRule {
		e.record(t, byName(name))
		return atrium.MoveRule{ClaimedName: name, Given: []byte(`{"claimedName":"` + name + `"}`)}
	}
	moved := func(to atrium.AccountID, name string) atrium.Move {
		report, _, err := e.Move(t.Context(), e.change(), atrium.MoveRequest{To: to, Rule: rule(name), Limit: 10})
		if err != nil || report.Move == nil {
			t.Fatalf("move: %+v, %v", report, err)
		}
		return *report.Move
	}
	gone, stays := moved(erased, "Secret"), moved(kept, "Open")
	e.erase(t, erased)
	for _, c := range []struct {
		move  atrium.Move
		rule  string
		audit bool
	}{{gone, "", false}, {stays, `{"claimedName":"Open"}`, true}} {
		m, err := e.FindMove(t.Context(), e.tenant, c.move.ID)
		if err != nil || string(m.Rule) != c.rule {
			t.Errorf("the rule is %s, %v, want %s", m.Rule, err, c.rule)
		}
		if acts := e.auditLines(t, string(c.move.ID)); len(acts) != 1 || strings.Contains(acts[0], "claimedName") != c.audit {
			t.Errorf("the audit log has %q", acts)
		}
	}
	e.wantSound(t, nil)
}

func erasedMoves(t *testing.T, e *env) {
	undone, moved, both := e.record(t, byDomain("a.example")), e.record(t, byDomain("a.example")), e.record(t, byDomain("a.example"))
	b, c := e.record(t, byDomain("b.example")).AccountID, e.record(t, byDomain("c.example")).AccountID
	e.undo(t, e.move(t, undone.EntryID, b).ID)
	e.move(t, moved.EntryID, b)
	e.move(t, both.EntryID, b)
	e.undo(t, e.move(t, both.EntryID, c).ID)
	for _, id := range []atrium.AccountID{undone.AccountID, b, c} {
		e.erase(t, id)
	}
	e.eraseAll(t)
	if err := e.db.Query(t.Context(), "SELECT entry_id FROM moved_entries WHERE tenant_id = $1", engine.Args{storedID(e.tenant)}, func(r engine.Row) error {
		t.Errorf("the move of %x is left", r.Bytes(0))
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// moveKeepsNoRule checks that an erasure of the account deletes a rule from the results stored
// for the keys of the move and its undoing, and that nothing else does.
func moveKeepsNoRule(t *testing.T, e *env) {
	from, to := e.record(t, byDomain("secret.example")).AccountID, e.record(t, byDomain("b.example")).AccountID
	request := atrium.MoveRequest{From: from, To: to, Rule: atrium.MoveRule{ClaimedDomain: "secret.example", Given: []byte(`{"claimedDomain":"secret.example"}`)}, Limit: 10}
	made, _, err := e.Move(t.Context(), e.keyed("move", "a"), request)
	if err != nil || made.Move == nil || !bytes.Equal(made.Move.Rule, request.Rule.Given) {
		t.Fatalf("%+v, %v", made, err)
	}
	undone, _, err := e.UndoMove(t.Context(), e.keyed("undo", "a"), made.Move.ID, accept)
	if err != nil || !bytes.Equal(undone.Move.Rule, request.Rule.Given) {
		t.Fatalf("%+v, %v", undone, err)
	}
	for _, erased := range []bool{false, true} {
		if erased {
			e.erase(t, to)
			made.Move.Rule, undone.Move.Rule = nil, nil
		}
		if again, replayed, err := e.Move(t.Context(), e.keyed("move", "a"), request); err != nil || !replayed || describeMove(*again.Move) != describeMove(*made.Move) {
			t.Errorf("erased %v, the move returned %+v, %v, %v", erased, again, replayed, err)
		}
		if again, replayed, err := e.UndoMove(t.Context(), e.keyed("undo", "a"), made.Move.ID, accept); err != nil || !replayed || describeMove(again.Move) != describeMove(undone.Move) {
			t.Errorf("erased %v, the undo returned %+v, %v, %v", erased, again, replayed, err)
		}
	}
	var kept []byte
	if err := e.db.Query(t.Context(), "SELECT result FROM requests WHERE tenant_id = $1", engine.Args{storedID(e.tenant)}, func(r engine.Row) error {
		kept = append(kept, r.Bytes(0)...)
		return nil
	}); err != nil || len(kept) == 0 || bytes.Contains(kept, []byte(base64.StdEncoding.EncodeToString(request.Rule.Given)[:20])) {
		t.Errorf("the keys have the results %s, %v", kept, err)
	}
}

func erasedOfAnother(t *testing.T, e *env) {
	a := e.record(t, byDomain("a.example")).AccountID
	other := e.as(e.newTenant(t))
	if _, err := other.EraseAccount(t.Context(), other.change(), a, accept); atrium.CodeOf(err) != atrium.CodeNotFound {
		t.Errorf("erase: %v", err)
	}
	theirs := other.record(t, byDomain("a.example")).AccountID
	other.erase(t, theirs)
	if e.entriesOf(t, a) != 1 || e.account(t, a).Domain != "a.example" {
		t.Error("the account of the first tenant changed")
	}
}

func erasuresAndEntriesTogether(t *testing.T, e *env) {
	for range 3 {
		e := e.as(e.newTenant(t))
		a, b, _ := e.threeAccounts(t)
		e.merge(t, a.ID, b.ID)
		e.onTwoNodes(t, func(e *env, i int) {
			for n := range 5 {
				switch {
				case i == 0 && n%2 == 0:
					id := e.record(t, byDomain("a.example")).AccountID
					if _, err := e.EraseAccount(t.Context(), e.change(), id, accept); err != nil && atrium.CodeOf(err) != atrium.CodeNotFound {
						t.Errorf("erase: %v", err)
					}
				case i == 1:
					e.eraseAll(t)
				default:
					claim := []atrium.Claim{byDomain("a.example"), byID(b.ID), byName("B"), byDomain("b.example")}[(i+n)%4]
					if o := e.append(t, e.draft(t, claim)); o[0].Err != nil && (claim.AccountID == "" || atrium.CodeOf(o[0].Err) != atrium.CodeNotFound) {
						t.Errorf("append %+v: %v", claim, o[0].Err)
					}
				}
			}
		})
		e.eraseAll(t)
		e.wantSoundGroups(t)
		for _, entry := range e.entries(t) {
			if _, _, err := e.Account(t.Context(), e.tenant, entry.AccountID); err != nil {
				t.Errorf("the account of an entry is missing: %v", err)
			}
		}
		if _, _, err := e.Account(t.Context(), e.tenant, a.ID); atrium.CodeOf(err) != atrium.CodeNotFound {
			t.Errorf("erased data is left: %v", err)
		}
	}
}
