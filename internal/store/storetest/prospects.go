package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/engine"
)

var prospects = []guarantee{
	{"a prospect is stored and changed as requested", prospectAsMade},
	{"a failed precondition leaves a prospect unchanged", prospectRefused},
	{concurrent + "a repeated request makes one prospect, and none after it was deleted", prospectMadeOnce},
	{"prospects are listed newest first, each once, at any page size", prospectsListed},
	{"prospect filters return the same prospects as a full scan", prospectsLikeModel},
	{"a link is visible on both sides at once and updates the account if it changes", prospectLinked},
	{"the number of accounts of a prospect is limited", linkBound},
	{"linking to a merged account links to its survivor", prospectLinkedToGroup},
	{"a deleted prospect is gone with its links and its audit details", prospectDeleted},
	{concurrent + "links, unlinks and deletions leave no dangling link", prospectRaces},
	{concurrent + "links and merges do not deadlock", linksAndMergesInOneOrder},
	{"copies of links are not exported", copiesNotExported},
	{"a prospect of another tenant is NotFound and cannot be linked", prospectOfAnother},
}

func (e *env) prospect(t tb, email string) atrium.LinkedProspect {
	t.Helper()
	p, _, err := e.CreateProspect(t.Context(), e.change(), atrium.Prospect{Email: &email})
	if err != nil {
		t.Fatalf("create a prospect: %v", err)
	}
	return p
}

func (e *env) link(t tb, account atrium.AccountID, id atrium.ProspectID) {
	t.Helper()
	p, err := e.LinkProspect(t.Context(), e.change(), account, id, accept)
	if err != nil {
		t.Fatalf("link: %v", err)
	}
	e.wantProspect(t, p, p.AccountIDs...)
}

// unlinkErr unlinks a prospect and returns the error.
func (e *env) unlinkErr(t tb, account atrium.AccountID, id atrium.ProspectID) error {
	t.Helper()
	return e.UnlinkProspect(t.Context(), e.change(), account, id, accept)
}

// linkErr links a prospect and returns the error.
func (e *env) linkErr(t tb, account atrium.AccountID, id atrium.ProspectID) error {
	t.Helper()
	_, err := e.LinkProspect(t.Context(), e.change(), account, id, accept)
	return err
}

// wantProspect checks a prospect and its accounts.
func (e *env) wantProspect(t tb, want atrium.LinkedProspect, accounts ...atrium.AccountID) {
	t.Helper()
	want.AccountIDs = accounts
	got, err := e.Prospect(t.Context(), e.tenant, want.ID)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("it is %+v, %v, want %+v", got, err, want)
	}
}

func prospectAsMade(t *testing.T, e *env) {
	given := atrium.Prospect{
		Name: pointer("Jane Roe"), Email: pointer("not an address"), Domain: pointer(""), Slug: pointer("jane"), PhoneNumber: pointer("+1"),
		LinkedinProfileURL: pointer("x"),
	}
	made, _, err := e.CreateProspect(t.Context(), e.change(), given)
	if err != nil || made.ID == "" || made.CreatedAt != e.clock.instant() || *made.Domain != "" {
		t.Fatalf("made %+v, %v", made, err)
	}
	e.wantProspect(t, made)
	e.clock.step(time.Second)
	changed, err := e.UpdateProspect(t.Context(), e.change(), made.ID, func(p *atrium.Prospect) { p.Name, p.Email = nil, pointer("jane@acme.example") }, accept)
	want := made
	want.Name, want.Email, want.UpdatedAt = nil, pointer("jane@acme.example"), e.clock.instant()
	if err != nil || !reflect.DeepEqual(changed, want) {
		t.Fatalf("changed to %+v, %v, want %+v", changed, err, want)
	}
	e.clock.step(time.Second)
	if same, err := e.UpdateProspect(t.Context(), e.change(), made.ID, func(p *atrium.Prospect) { p.Email = pointer("jane@acme.example") }, accept); err != nil || !reflect.DeepEqual(same, want) {
		t.Errorf("the same values changed it to %+v, %v", same, err)
	}
	e.wantProspect(t, want)
}

func prospectRefused(t *testing.T, e *env) {
	made := e.prospect(t, "jane@acme.example")
	no := atrium.Errorf(atrium.CodePreconditionFailed, "no")
	refuse := func(p atrium.LinkedProspect) error {
		if !reflect.DeepEqual(p, made) {
			t.Errorf("check was given %+v", p)
		}
		return no
	}
	if _, err := e.UpdateProspect(t.Context(), e.change(), made.ID, func(p *atrium.Prospect) { p.Email = nil }, refuse); !errors.Is(err, no) {
		t.Errorf("update: %v", err)
	}
	if _, err := e.DeleteProspect(t.Context(), e.change(), made.ID, refuse); !errors.Is(err, no) {
		t.Errorf("delete: %v", err)
	}
	account := e.record(t, byDomain("acme.example")).AccountID
	if _, err := e.LinkProspect(t.Context(), e.change(), account, made.ID, refuse); !errors.Is(err, no) {
		t.Errorf("link: %v", err)
	}
	e.wantProspect(t, made)
	e.link(t, account, made.ID)
	made.AccountIDs = append(made.AccountIDs, account)
	if err := e.UnlinkProspect(t.Context(), e.change(), account, made.ID, refuse); !errors.Is(err, no) {
		t.Errorf("unlink: %v", err)
	}
	e.wantProspect(t, made, account)
}

func prospectMadeOnce(t *testing.T, e *env) {
	made := make([]atrium.LinkedProspect, 2*writers)
	replays := make([]bool, 2*writers)
	e.onTwoNodes(t, func(e *env, i int) {
		var err error
		if made[i], replays[i], err = e.CreateProspect(t.Context(), e.keyed("once", "Jane"), atrium.Prospect{Name: pointer("Jane")}); err != nil {
			t.Error(err)
		}
	})
	first := 0
	for i := range made {
		if !replays[i] {
			first++
		}
		if !reflect.DeepEqual(made[i], made[0]) {
			t.Errorf("got %+v and %+v", made[i], made[0])
		}
	}
	if first != 1 {
		t.Errorf("it was created %d times", first)
	}
	if _, err := e.UpdateProspect(t.Context(), e.change(), made[0].ID, func(p *atrium.Prospect) { p.Name = nil }, accept); err != nil {
		t.Fatal(err)
	}
	if again, replayed, err := e.CreateProspect(t.Context(), e.keyed("once", "Jane"), atrium.Prospect{Name: pointer("Jane")}); err != nil || !replayed || !reflect.DeepEqual(again, made[0]) {
		t.Errorf("after a change the result is %+v, %v, %v", again, replayed, err)
	}
	if _, err := e.DeleteProspect(t.Context(), e.change(), made[0].ID, accept); err != nil {
		t.Fatal(err)
	}
	_, _, err := e.CreateProspect(t.Context(), e.keyed("once", "Jane"), atrium.Prospect{Name: pointer("Jane")})
	wantCode(t, err, atrium.CodeNotFound)
	if err := e.db.Read(t.Context(), func(tx engine.Tx) error {
		return tx.Query("SELECT result FROM requests WHERE tenant_id = $1", engine.Args{storedID(e.tenant)}, func(r engine.Row) error {
			if strings.Contains(string(r.Bytes(0)), "Jane") {
				t.Errorf("the key has the result %s", r.Bytes(0))
			}
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
}

// allProspects returns the email addresses of the prospects of all pages of a list.
func (e *env) allProspects(t tb, f atrium.ProspectFilter, limit int) (all []string) {
	t.Helper()
	for after, pages := (*atrium.Position)(nil), 0; pages < 1000; pages++ {
		found, next, err := e.Prospects(t.Context(), e.tenant, f, after, limit)
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		if len(found) > limit {
			t.Fatalf("a page of %d prospects, want %d at most", len(found), limit)
		}
		for _, p := range found {
			all = append(all, *p.Email)
		}
		if after = next; after == nil {
			return all
		}
	}
	t.Fatalf("the list does not end")
	return nil
}

func prospectsListed(t *testing.T, e *env) {
	var want []string
	account := e.record(t, byDomain("acme.example")).AccountID
	for i := range 7 {
		if i%2 == 0 { // two for each instant
			e.clock.step(time.Second)
		}
		p := e.prospect(t, fmt.Sprint(i, "@acme.example"))
		e.link(t, account, p.ID)
		want = append(want, *p.Email)
	}
	slices.Reverse(want)
	for limit := 1; limit <= 8; limit++ {
		for _, f := range []atrium.ProspectFilter{{}, {AccountID: account}, {AccountID: account, Words: []string{"acme"}}} {
			if got := e.allProspects(t, f, limit); !slices.Equal(got, want) {
				t.Errorf("%d a page of %+v: %v, want %v", limit, f, got, want)
			}
		}
	}
	if got := e.allProspects(t, atrium.ProspectFilter{AccountID: atrium.NewID[atrium.AccountID]()}, 5); len(got) != 0 {
		t.Errorf("an account that does not exist has %v", got)
	}
}

func prospectsLikeModel(t *testing.T, e *env) {
	rapid.Check(t, func(t *rapid.T) {
		e := e.as(e.newTenant(t))
		accounts := []atrium.AccountID{"", e.record(t, byDomain("a.example")).AccountID, e.record(t, byDomain("b.example")).AccountID}
		type model struct {
			p       atrium.LinkedProspect
			account atrium.AccountID
		}
		var all []model
		for i := range rapid.IntRange(0, 7).Draw(t, "prospects") {
			name := rapid.SampledFrom([]string{"Jane Roe", "Roe", "jane", ""}).Draw(t, "name")
			p, _, err := e.CreateProspect(t.Context(), e.change(), atrium.Prospect{Name: &name, Email: pointer(fmt.Sprintf("jane%d@acme.example", i))})
			if err != nil {
				t.Fatalf("create: %v", err)
			}
			m := model{p, rapid.SampledFrom(accounts).Draw(t, "account")}
			if m.account != "" {
				e.link(t, m.account, p.ID)
			}
			all = append(all, m)
		}
		slices.Reverse(all)
		f := atrium.ProspectFilter{
			AccountID: rapid.SampledFrom(accounts).Draw(t, "of account"),
			Words:     canonical.QueryWords(rapid.SampledFrom([]string{"", "jane", "ro JANE", "jane1@ac", "acme", "nobody"}).Draw(t, "query")),
		}
		var want []string
		for _, m := range all {
			if (f.AccountID == "" || f.AccountID == m.account) && hasWords(f.Words, *m.p.Name, *m.p.Email) {
				want = append(want, *m.p.Email)
			}
		}
		got := e.allProspects(t, f, rapid.IntRange(1, 4).Draw(t, "limit"))
		if len(f.Words) > 0 && f.AccountID == "" {
			slices.Sort(got)
			slices.Sort(want)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: %v, want %v", f, got, want)
		}
	})
}

func prospectDeleted(t *testing.T, e *env) {
	account := e.record(t, byDomain("acme.example")).AccountID
	p, other := e.prospect(t, "secret@acme.example"), e.prospect(t, "other@acme.example")
	e.link(t, account, p.ID)
	if _, err := e.UpdateProspect(t.Context(), e.change(), p.ID, func(p *atrium.Prospect) { p.Name = pointer("secret") }, accept); err != nil {
		t.Fatal(err)
	}
	if _, err := e.DeleteProspect(t.Context(), e.change(), p.ID, accept); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Prospect(t.Context(), e.tenant, p.ID); atrium.CodeOf(err) != atrium.CodeNotFound {
		t.Errorf("after its deletion: %v", err)
	}
	_, err := e.DeleteProspect(t.Context(), e.change(), p.ID, accept)
	wantCode(t, err, atrium.CodeNotFound)
	if n := e.links(t); n != 0 {
		t.Errorf("%d links are left", n)
	}
	if got := e.allProspects(t, atrium.ProspectFilter{Words: []string{"secret"}}, 5); len(got) != 0 {
		t.Errorf("it is found: %v", got)
	}
	kept := map[string][]string{}
	if err := e.db.Read(t.Context(), func(tx engine.Tx) error {
		return tx.Query("SELECT subject, action, detail FROM audit WHERE tenant_id = $1 ORDER BY number", engine.Args{storedID(e.tenant)}, func(r engine.Row) error {
			kept[r.Text(0)] = append(kept[r.Text(0)], r.Text(1))
			if detail := string(r.Bytes(2)); r.Text(0) == string(p.ID) && strings.Trim(detail, "{}") != "" || strings.Contains(detail, "secret") {
				t.Errorf("the audit log has %s of %s", detail, r.Text(1))
			}
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"prospect.create", "prospect.link", "prospect.update", "prospect.delete"}; !slices.Equal(kept[string(p.ID)], want) {
		t.Errorf("the audited actions are %v, want %v", kept[string(p.ID)], want)
	}
	e.wantProspect(t, other)
}

func prospectRaces(t *testing.T, e *env) {
	var accounts []atrium.AccountID
	for i := range 3 {
		accounts = append(accounts, e.record(t, byDomain(fmt.Sprintf("d%d.example", i))).AccountID)
	}
	var all []atrium.ProspectID
	for i := range 4 {
		all = append(all, e.prospect(t, strconv.Itoa(i)).ID)
	}
	e.onTwoNodes(t, func(e *env, i int) {
		for n := range 12 {
			account, id := accounts[(n+i)%3], all[(n*5+i)%4]
			var err error
			switch {
			case n == 11 && i%2 == 0:
				_, err = e.DeleteProspect(t.Context(), e.change(), all[i/2%2], accept)
			case n%3 == 2:
				err = e.unlinkErr(t, account, id)
			default:
				err = e.linkErr(t, account, id)
			}
			if err != nil && atrium.CodeOf(err) != atrium.CodeNotFound {
				t.Errorf("step %d: %v", n, err)
			}
		}
	})
	want := int64(0)
	for _, p := range of[*atrium.LinkedProspect](e.records(t)) {
		if p.ID == all[0] || p.ID == all[1] {
			t.Errorf("a deleted prospect is there")
		}
		want += int64(len(p.AccountIDs))
	}
	if n := e.links(t); n != want {
		t.Errorf("there are %d links, of prospects %d", n, want)
	}
	e.wantTerms(t)
}

func prospectOfAnother(t *testing.T, e *env) {
	account, p, other := e.record(t, byDomain("acme.example")).AccountID, e.prospect(t, "jane@acme.example"), e.as(e.newTenant(t))
	e.link(t, account, p.ID)
	theirs := other.record(t, byDomain("acme.example")).AccountID
	_, read := other.Prospect(t.Context(), other.tenant, p.ID)
	_, changed := other.UpdateProspect(t.Context(), other.change(), p.ID, func(*atrium.Prospect) {}, accept)
	_, deleted := other.DeleteProspect(t.Context(), other.change(), p.ID, accept)
	for _, err := range []error{
		read, changed, deleted,
		other.linkErr(t, theirs, p.ID), other.unlinkErr(t, theirs, p.ID), other.linkErr(t, account, other.prospect(t, "x").ID),
	} {
		wantCode(t, err, atrium.CodeNotFound)
	}
	if got := other.allProspects(t, atrium.ProspectFilter{AccountID: account}, 5); len(got) != 0 {
		t.Errorf("the account's prospects are %v", got)
	}
	if got := other.allProspects(t, atrium.ProspectFilter{Words: []string{"jane"}}, 5); len(got) != 0 {
		t.Errorf("found %v", got)
	}
	e.wantProspect(t, p, account)
}
