package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

var tenants = []guarantee{
	{"a tenant is stored as created", tenantAsMade},
	{"a tenant can be created with a given unused identifier", tenantAdopted},
	{"no tenant can have the identifier of the operators' audit log", chainIsNoTenant},
	{"tenants are listed by descending identifier, each once, at any page size", tenantsListed},
	{"a tenant is changed as requested if its precondition holds", tenantChanged},
	{"a repeated request makes one tenant", tenantMadeOnce},
	{"stored results of idempotency keys are deleted after a day, also for idle tenants", requestsForgotten},
	{"a transaction deletes at most 2 MiB of expired results, and a small change only small ones", largeResultsForgotten},
	{"tenants with equal data are independent", tenantsNeverMeet},
	{"objects of another tenant are NotFound like missing ones", othersAreAbsent},
	{"a reference to an object of another tenant is refused", othersCannotBeReferredTo},
}

// requests returns how many requests with a key are stored of a tenant.
func (e *env) requests(t tb) (n int64) {
	t.Helper()
	if err := e.db.Query(t.Context(), "SELECT COUNT(*) FROM requests WHERE tenant_id = $1", engine.Args{storedID(e.tenant)}, func(r engine.Row) error {
		n = r.Int(0)
		return nil
	}); err != nil {
		t.Fatalf("count requests: %v", err)
	}
	return n
}

func requestsForgotten(t *testing.T, e *env) {
	e = e.fresh(t)
	quiet := []*env{e.as(atrium.OperatorChain), e}
	for range 110 { // more than one call handles
		quiet = append(quiet, e.as(e.newTenant(t)))
	}
	ask := func(e *env, key string) {
		t.Helper()
		if _, _, err := e.CreateKey(t.Context(), e.keyed(key, "a key"), atrium.APIKey{ID: atrium.NewID[atrium.KeyID](), Name: "key"}, secretHash(1)); err != nil {
			t.Fatal(err)
		}
	}
	forget := func() (calls int) {
		t.Helper()
		for after := atrium.TenantID(""); calls == 0 || after != ""; calls++ {
			var err error
			if after, err = e.DeleteExpiredRequests(t.Context(), after); err != nil {
				t.Fatal(err)
			}
		}
		return calls
	}
	want := func(n int64) {
		t.Helper()
		for i, e := range quiet {
			if got := e.requests(t); got != n {
				t.Errorf("%d requests of tenant %d are stored, want %d", got, i, n)
			}
		}
	}
	for _, e := range quiet {
		ask(e, "old")
	}
	e.clock.step(time.Hour)
	for _, e := range quiet {
		ask(e, "new")
	}
	e.clock.step(23 * time.Hour)
	forget()
	want(2)
	e.clock.step(time.Second)
	if calls := forget(); calls != 2 {
		t.Errorf("%d calls handle 112 tenants, want 2", calls)
	}
	want(1)
	e.clock.step(time.Hour)
	forget()
	want(0)
}

func largeResultsForgotten(t *testing.T, e *env) {
	e = e.fresh(t)
	large := e.pageDraft(t)
	create := func(key string, bytes int) (admitted []bool) {
		t.Helper()
		large.Context = strings.Repeat("x", bytes)
		c := e.keyed(key, "a page")
		c.Admit = func(_ context.Context, large bool) (func(), error) {
			admitted = append(admitted, large)
			return func() {}, nil
		}
		if _, _, err := e.CreatePage(t.Context(), c, large); err != nil {
			t.Fatal(err)
		}
		return admitted
	}
	for i := range 9 {
		create(fmt.Sprint("large ", i), 900<<10)
	}
	e.clock.step(25 * time.Hour)
	if admitted := create("small", 10); !slices.Equal(admitted, []bool{false}) || e.requests(t) != 10 {
		t.Errorf("a small change left %d requests, admitted as large: %v", e.requests(t), admitted)
	}
	if create("large", 20<<10); e.requests(t) != 9 {
		t.Errorf("a large change left %d requests, want 9", e.requests(t))
	}
	measured, most := e.measured()
	if _, err := measured.DeleteExpiredRequests(t.Context(), ""); err != nil || most.rows != 2 || e.requests(t) != 2 {
		t.Errorf("%d requests are left, %v, one transaction deleted %d", e.requests(t), err, most.rows)
	}
}

func tenantAsMade(t *testing.T, e *env) {
	long := strings.Repeat("\U0001f600", atrium.MaxName)
	for _, name := range []string{"Acme", "Acme", long} {
		e.clock.step(time.Minute)
		made, _, err := e.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), name)
		if err != nil || made.Name != name || made.CreatedAt != e.clock.instant() {
			t.Fatalf("made %+v, %v", made, err)
		}
		if got, err := e.Tenant(t.Context(), made.ID); err != nil || got != made {
			t.Errorf("read %+v, %v, want %+v", got, err, made)
		}
	}
	_, err := e.Tenant(t.Context(), atrium.NewID[atrium.TenantID]())
	wantCode(t, err, atrium.CodeNotFound)
}

func tenantAdopted(t *testing.T, e *env) {
	id := atrium.NewID[atrium.TenantID]()
	made, _, err := e.AdoptTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), id, "Acme")
	if err != nil || made.ID != id || made.Name != "Acme" {
		t.Fatalf("made %+v, %v", made, err)
	}
	_, _, err = e.AdoptTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), id, "Other")
	wantCode(t, err, atrium.CodeConflict)
	if got, err := e.Tenant(t.Context(), id); err != nil || got != made {
		t.Errorf("read %+v, %v, want %+v", got, err, made)
	}
}

func chainIsNoTenant(t *testing.T, e *env) {
	_, _, err := e.AdoptTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), atrium.OperatorChain, "Acme")
	wantCode(t, err, atrium.CodeConflict)
	_, err = e.Tenant(t.Context(), atrium.OperatorChain)
	wantCode(t, err, atrium.CodeNotFound)
}

func tenantsListed(t *testing.T, e *env) {
	e = e.fresh(t)
	want := []atrium.TenantID{e.tenant}
	for range 4 {
		want = append(want, e.newTenant(t))
	}
	slices.Sort(want)
	slices.Reverse(want)
	for limit := 1; limit <= 6; limit++ {
		var got []atrium.TenantID
		for more := true; more; {
			var after *atrium.Position
			if len(got) > 0 {
				after = atrium.PositionAt(0, got[len(got)-1])
			}
			var part []atrium.Tenant
			var err error
			if part, more, err = e.Tenants(t.Context(), after, limit); err != nil {
				t.Fatal(err)
			}
			for _, tenant := range part {
				got = append(got, tenant.ID)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d a page: %v, want %v", limit, got, want)
		}
	}
}

func tenantChanged(t *testing.T, e *env) {
	c := atrium.CommandLine(atrium.OperatorChain)
	made, err := e.Tenant(t.Context(), e.tenant)
	if err != nil {
		t.Fatal(err)
	}
	no := atrium.Errorf(atrium.CodePreconditionFailed, "no")
	if _, err := e.UpdateTenant(t.Context(), c, e.tenant, pointer("Other"), func(given atrium.Tenant) error {
		if given != made {
			t.Errorf("asked about %+v", given)
		}
		return no
	}); !errors.Is(err, no) {
		t.Errorf("a change that was refused: %v", err)
	}
	for _, name := range []*string{nil, &made.Name, pointer("Hearth & Home")} {
		if name != nil {
			made.Name = *name
		}
		if got, err := e.UpdateTenant(t.Context(), c, e.tenant, name, accept); err != nil || got != made {
			t.Errorf("changed to %+v, %v, want %+v", got, err, made)
		}
		if got, err := e.Tenant(t.Context(), e.tenant); err != nil || got != made {
			t.Errorf("it is %+v, %v, want %+v", got, err, made)
		}
	}
	_, err = e.UpdateTenant(t.Context(), c, atrium.NewID[atrium.TenantID](), pointer("x"), accept)
	wantCode(t, err, atrium.CodeNotFound)
}

func tenantMadeOnce(t *testing.T, e *env) {
	c := e.as(atrium.OperatorChain).keyed(string(atrium.NewID[atrium.RequestID]()), "Acme") // all tests share this chain
	first, replayed, err := e.CreateTenant(t.Context(), c, "Acme")
	if err != nil || replayed {
		t.Fatalf("made %+v, %v, %v", first, replayed, err)
	}
	if again, replayed, err := e.CreateTenant(t.Context(), c, "Acme"); err != nil || !replayed || again != first {
		t.Errorf("the same request made %+v, %v, %v, want %+v", again, replayed, err, first)
	}
}

func tenantsNeverMeet(t *testing.T, e *env) {
	them := e.as(e.newTenant(t))
	// The same records for both tenants, except for one text of each.
	write := func(e *env, records []store.Record, text string) {
		for _, r := range records {
			switch r := r.(type) {
			case *atrium.Account:
				r.Name = text
			case *atrium.LinkedProspect:
				r.Name = &text
			case *atrium.Page:
				r.Title = text
			case *atrium.Audience:
				r.Name = text
			case *atrium.AudienceVersion:
				r.Content = []byte(`"` + text + `"`)
			case *atrium.Entry:
				r.Source = text
			}
		}
		e.put(t, records...)
	}
	records := e.oneOfEach()
	write(e, records, "ours")
	ours := describeAll(records)
	write(them, records, "theirs")
	theirs := describeAll(records)

	a := records[0].(*atrium.Account).ID
	for _, side := range []struct {
		e    *env
		want []string
		text string
	}{{e, ours, "ours"}, {them, theirs, "theirs"}} {
		e := side.e
		if got := describeAll(e.records(t)); !slices.Equal(got, side.want) {
			t.Errorf("exported %q, want %q", got, side.want)
		}
		account, linked, err := e.Account(t.Context(), e.tenant, a)
		if err != nil || account.Name != side.text || len(linked) != 1 || *linked[0].Name != side.text {
			t.Errorf("account %+v with %+v, %v, want %s", account, linked, err, side.text)
		}
		pages, _, err := e.Pages(t.Context(), e.tenant, "", nil, 9)
		if err != nil || len(pages) != 1 || pages[0].Title != side.text || pages[0].AudiencesCount != 1 {
			t.Errorf("pages %+v, %v, want one of %s", pages, err, side.text)
		}
		for _, claim := range []atrium.Claim{byID(a), byDomain("acme.example"), byName(side.text)} {
			if r := e.record(t, claim); r.AccountID != a {
				t.Errorf("%+v went to %s, want %s", claim, r.AccountID, a)
			}
		}
	}
	e.clock.step(time.Hour)
	e.rename(t, a, "renamed")
	e.record(t, byID(a))
	if got := them.account(t, a); got.Name != "theirs" || *got.LatestActivityAt == e.clock.instant() {
		t.Errorf("changes of one tenant changed the other's account to %+v", got)
	}
	if n := len(them.entries(t)); n != 4 {
		t.Errorf("the other tenant has %d entries, want 4", n)
	}
}

func othersAreAbsent(t *testing.T, e *env) {
	them := e.as(e.newTenant(t))
	records := them.oneOfEach()
	them.put(t, records...)
	a, page, u := records[0].(*atrium.Account).ID, records[2].(*atrium.Page).ID, records[3].(*atrium.Audience).ID
	ours := e.newPage(atrium.PageDraft)
	e.put(t, ours)

	same := func(what string, theirs, missing error) {
		t.Helper()
		wantCode(t, theirs, atrium.CodeNotFound)
		if theirs == nil || missing == nil || theirs.Error() != missing.Error() {
			t.Errorf("%s: %v for another tenant's, %v for a missing one", what, theirs, missing)
		}
	}
	account := func(id atrium.AccountID) error { _, _, err := e.Account(t.Context(), e.tenant, id); return err }
	same("account", account(a), account(atrium.NewID[atrium.AccountID]()))
	readPage := func(id atrium.PageID) error { _, err := e.Page(t.Context(), e.tenant, id); return err }
	same("page", readPage(page), readPage(atrium.NewID[atrium.PageID]()))
	listVersions := func(page atrium.PageID, u atrium.AudienceID) error {
		_, _, err := e.Versions(t.Context(), e.tenant, page, u, 0, 9)
		return err
	}
	same("versions", listVersions(page, u), listVersions(atrium.NewID[atrium.PageID](), atrium.NewID[atrium.AudienceID]()))
	same("versions of an audience", listVersions(ours.ID, u), listVersions(ours.ID, atrium.NewID[atrium.AudienceID]()))

	if pages, more, err := e.Pages(t.Context(), e.tenant, "", nil, 9); err != nil || more || len(pages) != 1 {
		t.Errorf("pages %v, %v, %v, want the page of the tenant", pages, more, err)
	}
	e.wantRecords(t, ours)
}

func othersCannotBeReferredTo(t *testing.T, e *env) {
	them := e.as(e.newTenant(t))
	records := them.oneOfEach()
	them.put(t, records...)
	a, page, u := records[0].(*atrium.Account), records[2].(*atrium.Page), records[3].(*atrium.Audience)
	for member, r := range map[string]store.Record{
		"accountIds": e.newProspect(a), "pageId": e.newAudience(page, false), "audienceId": e.newVersion(u, 0), "accountId": e.newEntry(a, ""),
	} {
		_, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(r))
		wantRefused(t, err, 0, member)
	}
	e.wantRecords(t)
}
