package storetest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

var accountChanges = []guarantee{
	{concurrent + "CreateAccount stores the given domain and name and is idempotent", accountMade},
	{"a current or former domain of an account is taken", domainTaken},
	{"UpdateAccount sets the domain and the name", accountChanged},
	{"a former domain of an account still finds the account", formerDomainLeads},
	{"an account can take back a former domain", formerDomainTakenBack},
	{"the unattributed account cannot be changed", unattributedNotChanged},
	{"a committed change of an account is returned even if later reads fail", changeAnswered},
	{concurrent + "entries and domain changes lose nothing", domainsAndEntriesTogether},
	{concurrent + "of concurrent accounts that take the same domain, one gets it", oneTakesDomain},
}

func accountMade(t *testing.T, e *env) {
	results := make([]atrium.AccountDetail, 2*writers)
	e.onTwoNodes(t, func(e *env, i int) {
		var err error
		if results[i], _, err = e.CreateAccount(t.Context(), e.keyed("once", "a"), "a.example", "A"); err != nil {
			t.Error(err)
		}
	})
	want := atrium.Account{ID: results[0].ID, TenantID: e.tenant, Domain: "a.example", Name: "A", CreatedAt: e.clock.instant(), UpdatedAt: e.clock.instant()}
	for _, d := range results {
		if d.Account != want {
			t.Errorf("made %+v, want %+v", d.Account, want)
		}
	}
	if r := e.record(t, byName("a")); r.AccountID != want.ID {
		t.Errorf("its name led to %s", r.AccountID)
	}
	if acts := e.auditLines(t, string(want.ID)); !slices.Equal(acts, []string{`account.create {"after":{"domain":"a.example","name":"A"}}`}) {
		t.Errorf("recorded %q", acts)
	}
	e.wantSoundGroups(t)
}

// A writeOnly is a DB whose read transactions fail.
type writeOnly struct{ engine.DB }

func (writeOnly) Read(context.Context, func(engine.Tx) error) error {
	return &engine.Error{Class: engine.Unavailable, Err: errOnPurpose}
}

func changeAnswered(t *testing.T, e *env) {
	a, b, _ := e.threeAccounts(t)
	broken := *e
	broken.Store = store.New(writeOnly{e.db}, e.clock.now)
	for _, change := range []func() (atrium.AccountDetail, error){
		func() (atrium.AccountDetail, error) {
			d, _, err := broken.CreateAccount(t.Context(), e.keyed("once", "n"), "n.example", "N")
			return d, err
		},
		func() (atrium.AccountDetail, error) {
			return broken.UpdateAccount(t.Context(), e.change(), a.ID, atrium.AccountUpdate{Domain: "a2.example"}, accept)
		},
		func() (atrium.AccountDetail, error) {
			return broken.MergeAccounts(t.Context(), e.change(), a.ID, b.ID, accept)
		},
		func() (atrium.AccountDetail, error) {
			return broken.SplitAccount(t.Context(), e.change(), b.ID, a.ID, accept)
		},
	} {
		d, err := change()
		if err != nil {
			t.Fatal(err)
		}
		if now := e.detail(t, d.ID); !reflect.DeepEqual(d, now) {
			t.Errorf("the response is %+v and the account is %+v", d, now)
		}
	}
	_, _, err := broken.CreateAccount(t.Context(), e.keyed("once", "n"), "n.example", "N")
	wantCode(t, err, atrium.CodeUnavailable) // changes nothing
}

func domainTaken(t *testing.T, e *env) {
	a, b, c := e.threeAccounts(t)
	e.merge(t, a.ID, b.ID)
	e.changeDomain(t, c.ID, "d.example")
	other := e.as(e.newTenant(t))
	for _, domain := range []string{"a.example", "b.example", "c.example", "d.example"} {
		if _, _, err := e.CreateAccount(t.Context(), e.change(), domain, ""); atrium.CodeOf(err) != atrium.CodeConflict {
			t.Errorf("make an account with %s: %v", domain, err)
		}
		if _, _, err := other.CreateAccount(t.Context(), other.change(), domain, ""); err != nil {
			t.Errorf("another tenant's account with %s: %v", domain, err)
		}
	}
	if _, _, err := e.CreateAccount(t.Context(), e.change(), atrium.UnattributedDomain, ""); atrium.CodeOf(err) != atrium.CodeConflict {
		t.Errorf("make the unattributed account: %v", err)
	}
	for _, domain := range []string{"a.example", "b.example", atrium.UnattributedDomain} {
		if _, err := e.UpdateAccount(t.Context(), e.change(), c.ID, atrium.AccountUpdate{Domain: domain}, accept); atrium.CodeOf(err) != atrium.CodeConflict {
			t.Errorf("take %s: %v", domain, err)
		}
	}
}

func accountChanged(t *testing.T, e *env) {
	a, _, _ := e.threeAccounts(t)
	before := e.detail(t, a.ID)
	update := func(u atrium.AccountUpdate) atrium.AccountDetail {
		t.Helper()
		e.clock.step(1e9)
		d, err := e.UpdateAccount(t.Context(), e.change(), a.ID, u, accept)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := update(atrium.AccountUpdate{Name: pointer("A"), Domain: "a.example"}); d.UpdatedAt != before.UpdatedAt {
		t.Errorf("its own domain and name changed it to %+v", d)
	}
	if d := update(atrium.AccountUpdate{Name: pointer("New")}); d.Name != "New" || d.Domain != "a.example" || d.UpdatedAt != e.clock.instant() {
		t.Errorf("a name changed it to %+v", d)
	}
	if d := update(atrium.AccountUpdate{Name: pointer(""), Domain: "z.example"}); d.Name != "" || d.Domain != "z.example" || d.UpdatedAt != e.clock.instant() {
		t.Errorf("a domain without a name changed it to %+v", d)
	}
	if r := e.record(t, byName("New")); r.AccountID == a.ID {
		t.Error("it is found by its former name")
	}
	e.wantSoundGroups(t)
	unknown := []atrium.AccountID{atrium.NewID[atrium.AccountID](), e.as(e.newTenant(t)).record(t, byDomain("a.example")).AccountID}
	for _, id := range unknown {
		if _, err := e.UpdateAccount(t.Context(), e.change(), id, atrium.AccountUpdate{Domain: "y.example"}, accept); atrium.CodeOf(err) != atrium.CodeNotFound {
			t.Errorf("change an unknown account: %v", err)
		}
		if _, err := e.AccountDetail(t.Context(), e.tenant, id); atrium.CodeOf(err) != atrium.CodeNotFound {
			t.Errorf("read an unknown account: %v", err)
		}
	}
}

func formerDomainLeads(t *testing.T, e *env) {
	a, b, _ := e.threeAccounts(t)
	e.changeDomain(t, a.ID, "a2.example")
	d := e.changeDomain(t, a.ID, "a3.example")
	if d.Domain != "a3.example" || len(d.Merged) != 2 {
		t.Fatalf("the account is %+v", d)
	}
	for _, domain := range []string{"a.example", "a2.example", "a3.example"} {
		if r := e.record(t, byDomain(domain)); r.AccountID != a.ID {
			t.Errorf("%s led to %s, want %s", domain, r.AccountID, a.ID)
		}
	}
	if r := e.record(t, atrium.Claim{Domain: "a.example", Name: "Other"}); r.AccountID != a.ID || e.account(t, a.ID).Name != "A" {
		t.Errorf("a name with a former domain led to %s", r.AccountID)
	}
	e.merge(t, a.ID, b.ID)
	if r := e.record(t, byDomain("a2.example")); r.AccountID != b.ID {
		t.Errorf("after a merge the former domain led to %s, want %s", r.AccountID, b.ID)
	}
	e.wantSoundGroups(t)
}

func formerDomainTakenBack(t *testing.T, e *env) {
	a, b, _ := e.threeAccounts(t)
	e.changeDomain(t, a.ID, "a2.example")
	e.record(t, byDomain("a.example"))
	d := e.changeDomain(t, a.ID, "a.example")
	if d.Domain != "a.example" || len(d.Merged) != 1 || d.Merged[0].Domain != "a2.example" {
		t.Errorf("the account is %+v", d)
	}
	e.merge(t, b.ID, a.ID)
	d = e.changeDomain(t, b.ID, "b.example") // of a merged account
	if d.ID != a.ID || d.Domain != "b.example" {
		t.Errorf("the account is %+v", d)
	}
	for _, domain := range []string{"a.example", "a2.example", "b.example"} {
		if r := e.record(t, byDomain(domain)); r.AccountID != a.ID {
			t.Errorf("%s led to %s, want %s", domain, r.AccountID, a.ID)
		}
	}
	e.wantSoundGroups(t)
}

func unattributedNotChanged(t *testing.T, e *env) {
	id := e.record(t, atrium.Claim{}).AccountID
	for _, u := range []atrium.AccountUpdate{{Name: pointer("N")}, {Domain: "n.example"}} {
		if _, err := e.UpdateAccount(t.Context(), e.change(), id, u, accept); atrium.CodeOf(err) != atrium.CodeConflict {
			t.Errorf("change it to %+v: %v", u, err)
		}
	}
	if a := e.account(t, id); a.Name != "" || a.Domain != atrium.UnattributedDomain {
		t.Errorf("it is %+v", a)
	}
}

// domainsAndEntriesTogether switches the domain of an account between two while entries for both
// are appended. Entries for the first domain must always find the account, because it has or had
// this domain. No transactions may deadlock, although the position of the account in the lock
// order changes.
func domainsAndEntriesTogether(t *testing.T, e *env) {
	for range 3 {
		var deadlocks atomic.Int64
		two := []*env{e.as(e.newTenant(t)), nil}
		e := two[0]
		two[1] = e.node()
		for _, e := range two {
			e.Store = store.New(deadlockCounter{e.db, &deadlocks}, e.clock.now)
		}
		a := e.record(t, byDomain("old.example")).AccountID
		total := 1
		parallel(t, 2*writers, func(i int) {
			e := two[i%2]
			for n := range 5 {
				if i == 0 {
					domain := []string{"new.example", "old.example"}[n%2]
					_, err := e.UpdateAccount(t.Context(), e.change(), a, atrium.AccountUpdate{Domain: domain}, accept)
					if err != nil && atrium.CodeOf(err) != atrium.CodeConflict { // an entry made an account with the new domain
						t.Errorf("change the domain: %v", err)
					}
					continue
				}
				e.clock.step(1e9)
				rs := receipts(t, e.append(t, e.draft(t, byDomain("old.example")), e.draft(t, byDomain("new.example"))))
				if rs[0].AccountID != a {
					t.Errorf("the former domain led to %s, want %s", rs[0].AccountID, a)
				}
			}
		})
		if n := deadlocks.Load(); n > 0 {
			t.Errorf("%d transactions were in a deadlock", n)
		}
		total += (2*writers - 1) * 5 * 2
		if n := len(e.entries(t)); n != total {
			t.Errorf("there are %d entries, want %d", n, total)
		}
		e.wantSoundGroups(t)
	}
}

func oneTakesDomain(t *testing.T, e *env) {
	for n := range 3 {
		domain := fmt.Sprintf("wanted%d.example", n)
		got := make([]bool, 2*writers)
		var ids []atrium.AccountID
		for i := range got {
			ids = append(ids, e.record(t, byDomain(fmt.Sprintf("%d-%d.example", n, i))).AccountID)
		}
		e.onTwoNodes(t, func(e *env, i int) {
			var err error
			if i%4 < 2 {
				_, err = e.UpdateAccount(t.Context(), e.change(), ids[i], atrium.AccountUpdate{Domain: domain}, accept)
			} else {
				_, _, err = e.CreateAccount(t.Context(), e.change(), domain, "")
			}
			if got[i] = err == nil; err != nil && atrium.CodeOf(err) != atrium.CodeConflict {
				t.Errorf("take a domain: %v", err)
			}
		})
		if slices.Index(got, true) < 0 || slices.Contains(got[slices.Index(got, true)+1:], true) {
			t.Errorf("the domain went to %v", got)
		}
	}
	e.wantSoundGroups(t)
}
