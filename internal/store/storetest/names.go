package storetest

import (
	"errors"
	"testing"
	"time"

	"atrium"
)

var names = []guarantee{
	{"a new account takes the first name claimed with its domain", firstNameOfNewAccount},
	{"a missing name is set once and never overwritten by entries", nullNameFilledOnce},
	{"setting a missing name changes updatedAt, entries alone do not", fillMovesUpdatedAt},
	{"updatedAt is never before createdAt and never decreases", updatedAtNeverGoesBack},
	{"latestActivityAt is the newest createdAt and never decreases", latestActivityNeverGoesBack},
	{"createdAt of an entry is the time of recording, truncated to milliseconds", createdAtIsCut},
	{"a rename sets the name and updatedAt", renameMovesUpdatedAt},
	{"a rename to the same name changes nothing", renameToSameName},
	{"a failed precondition prevents a rename", renameIsChecked},
	{"renaming an unknown account is NotFound", renameUnknown},
	{"an account has its prospects in the order of their creation", linkedProspectsOrder},
}

func firstNameOfNewAccount(t *testing.T, e *env) {
	r := receipts(t, e.append(t, e.draft(t, byDomain("acme.example")),
		e.draft(t, atrium.Claim{Domain: "ACME.example", Name: "First"}), e.draft(t, atrium.Claim{Domain: "acme.example", Name: "Second"})))
	want := atrium.Account{
		ID: r[0].AccountID, TenantID: e.tenant, Domain: "acme.example", Name: "First",
		CreatedAt: e.clock.instant(), UpdatedAt: e.clock.instant(),
	}
	got := e.account(t, want.ID)
	if got.LatestActivityAt == nil || *got.LatestActivityAt != e.clock.instant() {
		t.Errorf("latest activity at %v, want now", got.LatestActivityAt)
	}
	if got.LatestActivityAt = nil; got != want {
		t.Errorf("account %+v, want %+v", got, want)
	}
}

func nullNameFilledOnce(t *testing.T, e *env) {
	for _, fill := range []func(atrium.Account) atrium.Claim{
		func(a atrium.Account) atrium.Claim { return atrium.Claim{Domain: a.Domain, Name: "Filled"} },
		func(a atrium.Account) atrium.Claim { return atrium.Claim{AccountID: a.ID, Name: "Filled"} },
	} {
		e := e.as(e.newTenant(t))
		a := e.account(t, e.record(t, byDomain("acme.example")).AccountID)
		if a.Name != "" {
			t.Fatalf("a new account without a name has %q", a.Name)
		}
		e.record(t, fill(a))
		for _, later := range []atrium.Claim{{Domain: a.Domain, Name: "Later"}, {AccountID: a.ID, Name: "Later"}} {
			e.record(t, later)
			if got := e.account(t, a.ID).Name; got != "Filled" {
				t.Errorf("the name is %q, want the first that was claimed", got)
			}
		}
	}
}

func fillMovesUpdatedAt(t *testing.T, e *env) {
	made := e.record(t, byDomain("acme.example"))
	at := func(claim atrium.Claim, want atrium.Time) {
		t.Helper()
		e.clock.step(time.Second)
		now := e.clock.instant()
		e.record(t, claim)
		if want == 0 {
			want = now
		}
		if a := e.account(t, made.AccountID); a.UpdatedAt != want || *a.LatestActivityAt != now || a.CreatedAt != made.CreatedAt {
			t.Errorf("after %+v: created %s, updated %s, active %s; want %s, %s, %s", claim,
				a.CreatedAt, a.UpdatedAt, a.LatestActivityAt, made.CreatedAt, want, now)
		}
	}
	at(byDomain("acme.example"), made.CreatedAt)
	at(byID(made.AccountID), made.CreatedAt)
	at(atrium.Claim{AccountID: made.AccountID, Name: "Acme"}, 0)
	filled := e.clock.instant()
	at(atrium.Claim{Domain: "acme.example", Name: "Bolt"}, filled)
	at(byName("acme"), filled)
}

func updatedAtNeverGoesBack(t *testing.T, e *env) {
	made := e.record(t, byDomain("acme.example"))
	e.clock.step(-time.Hour)
	e.record(t, atrium.Claim{Domain: "acme.example", Name: "Acme"})
	if a := e.account(t, made.AccountID); a.Name != "Acme" || a.UpdatedAt != made.CreatedAt || a.CreatedAt != made.CreatedAt {
		t.Errorf("named an hour before its creation: %+v", a)
	}
	e.clock.step(2 * time.Hour)
	e.rename(t, made.AccountID, "Bolt")
	renamed := e.clock.instant()
	e.clock.step(-time.Hour)
	if a := e.rename(t, made.AccountID, "Cord"); a.UpdatedAt != renamed || a.Name != "Cord" {
		t.Errorf("renamed an hour before its last update: %+v, want updated at %s", a, renamed)
	}
}

func latestActivityNeverGoesBack(t *testing.T, e *env) {
	a := e.newAccount("acme.example", "Acme")
	e.put(t, a)
	if at := e.account(t, a.ID).LatestActivityAt; at != nil {
		t.Errorf("without an entry the latest activity is at %s", at)
	}
	var newest atrium.Time
	claims := []atrium.Claim{byID(a.ID), byDomain("acme.example"), byName("acme")}
	for i, step := range []time.Duration{0, time.Second, -time.Minute, -time.Hour, time.Hour, time.Minute, time.Hour, -time.Hour} {
		e.clock.step(step)
		r := e.record(t, claims[i%len(claims)])
		newest = max(newest, r.CreatedAt)
		if at := e.account(t, a.ID).LatestActivityAt; at == nil || *at != newest {
			t.Errorf("the latest activity is at %s, want %s", at, newest)
		}
		if r.CreatedAt != e.clock.instant() {
			t.Errorf("an entry was recorded at %s, want %s", r.CreatedAt, e.clock.instant())
		}
	}
}

func createdAtIsCut(t *testing.T, e *env) {
	r := e.record(t, byDomain("acme.example"))
	if want := "2026-03-04T05:06:07.890Z"; r.CreatedAt.String() != want || r.CreatedAt%1000 != 0 {
		t.Errorf("recorded at %s (%d), want %s", r.CreatedAt, r.CreatedAt, want)
	}
	e.clock.step(time.Date(1969, 12, 31, 23, 59, 59, 999_999_000, time.UTC).Sub(start))
	r = e.record(t, byDomain("acme.example"))
	if want := "1969-12-31T23:59:59.999Z"; r.CreatedAt.String() != want {
		t.Errorf("recorded at %s, want %s", r.CreatedAt, want)
	}
	for _, entry := range e.entries(t) {
		if entry.ID == r.EntryID && entry.CreatedAt != r.CreatedAt {
			t.Errorf("stored as of %s, acknowledged as of %s", entry.CreatedAt, r.CreatedAt)
		}
	}
}

func renameMovesUpdatedAt(t *testing.T, e *env) {
	a := e.account(t, e.record(t, byDomain("acme.example")).AccountID)
	p := e.newProspect(&a)
	e.put(t, p)
	for _, name := range []string{"Acme", "acme", "Bolt"} {
		e.clock.step(time.Minute)
		want := a
		want.Name, want.UpdatedAt = name, e.clock.instant()
		got, err := e.RenameAccount(t.Context(), e.change(), a.ID, name, accept)
		if err != nil || describe(&got.Account) != describe(&want) || len(got.Prospects) != 1 || got.Prospects[0].ID != p.ID {
			t.Errorf("renamed to %+v, %v, want %+v", got, err, want)
		}
		if stored := e.account(t, a.ID); describe(&stored) != describe(&want) || *stored.LatestActivityAt != *a.LatestActivityAt {
			t.Errorf("stored %+v, want %+v", stored, want)
		}
	}
}

func renameToSameName(t *testing.T, e *env) {
	a := e.account(t, e.record(t, atrium.Claim{Domain: "acme.example", Name: "Acme"}).AccountID)
	e.clock.step(time.Minute)
	if got := e.rename(t, a.ID, "Acme"); describe(&got) != describe(&a) {
		t.Errorf("renamed to %+v, want no change, %+v", got, a)
	}
	if got := e.account(t, a.ID); describe(&got) != describe(&a) {
		t.Errorf("stored %+v, want no change, %+v", got, a)
	}
}

func renameIsChecked(t *testing.T, e *env) {
	a := e.account(t, e.record(t, atrium.Claim{Domain: "acme.example", Name: "Acme"}).AccountID)
	p := e.newProspect(&a)
	e.put(t, p)
	refused := atrium.Errorf(atrium.CodePreconditionFailed, "no")
	for _, name := range []string{"Bolt", "Acme"} { // even if nothing changes
		_, err := e.RenameAccount(t.Context(), e.change(), a.ID, name, func(current atrium.AccountDetail) error {
			if describe(&current.Account) != describe(&a) || len(current.Prospects) != 1 || current.Prospects[0].ID != p.ID {
				t.Errorf("check was given %+v, want %+v with one prospect", current, a)
			}
			return refused
		})
		if !errors.Is(err, refused) {
			t.Errorf("error %v, want that of check", err)
		}
	}
	if got := e.account(t, a.ID); describe(&got) != describe(&a) {
		t.Errorf("a refused rename left %+v, want %+v", got, a)
	}
}

func renameUnknown(t *testing.T, e *env) {
	theirs := e.as(e.newTenant(t)).record(t, byDomain("acme.example")).AccountID
	for _, id := range []atrium.AccountID{theirs, atrium.NewID[atrium.AccountID]()} {
		_, err := e.RenameAccount(t.Context(), e.change(), id, "Acme", func(atrium.AccountDetail) error {
			t.Error("check was called for an account that does not exist")
			return nil
		})
		wantCode(t, err, atrium.CodeNotFound)
	}
}

func linkedProspectsOrder(t *testing.T, e *env) {
	a, b := e.newAccount("a.example", ""), e.newAccount("b.example", "")
	e.put(t, a, b)
	var want []atrium.ProspectID
	for i, at := range []atrium.Time{5000, 3000, 3000, -7000, 9000} {
		p := e.newProspect(a)
		p.CreatedAt = at
		if i == 2 { // the same instant with a smaller identifier
			p.ID = as[atrium.ProspectID]("00000000000000000000000000")
		}
		e.put(t, p)
		want = append(want, p.ID)
	}
	want = []atrium.ProspectID{want[3], want[2], want[1], want[0], want[4]}
	_, linked, err := e.Account(t.Context(), e.tenant, a.ID)
	if err != nil || len(linked) != len(want) {
		t.Fatalf("%d prospects, %v, want %d", len(linked), err, len(want))
	}
	for i := range want {
		if linked[i].ID != want[i] || linked[i].TenantID != e.tenant {
			t.Errorf("place %d has %s, want %s", i, linked[i].ID, want[i])
		}
	}
	if _, linked, err := e.Account(t.Context(), e.tenant, b.ID); err != nil || len(linked) != 0 {
		t.Errorf("an account without prospects has %v, %v", linked, err)
	}
}
