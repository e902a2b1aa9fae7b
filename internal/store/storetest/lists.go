package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

var lists = []guarantee{
	{"a list page ends at 1 MiB, reads little more, and the list returns each item once", listsBoundedInBytes},
	{"a page of a merged account's activity reads little more than it returns", mergedActivityBounded},
	{"an account is found by the words of a domain of any length", longDomainFound},
	{"a search reads a bounded number of merged accounts", mergedSearchBounded},
}

// listBytes is how many bytes one page of a list holds, not counting its last item.
const listBytes = 1 << 20

// sized are the sizes of texts in the order of a list, and sizedPages how many of them are on
// each page.
var (
	sized      = []int{listBytes / 2, listBytes / 2, 10, listBytes, 10}
	sizedPages = []int{2, 2, 1}
)

// A listPage is a page of a list.
type listPage struct {
	ids   []string
	bytes int // of all texts and documents
	next  *atrium.Position
}

func newListPage[T any](found []T, next *atrium.Position, describe func(T) (id string, texts []string)) (p listPage) {
	p.next = next
	for _, v := range found {
		id, texts := describe(v)
		p.ids = append(p.ids, id)
		p.bytes += len(strings.Join(texts, ""))
	}
	return p
}

// wantPages reads a list to its end. It must return the items made, newest first, on pages of
// sizedPages, and read little more than they hold.
func wantPages(t *testing.T, e *env, what string, made []string, list func(e *env, after *atrium.Position) (listPage, error)) {
	t.Helper()
	var after *atrium.Position
	var met []string
	var pages []int
	for first := true; first || after != nil; first = false {
		counted, read := e.counting()
		page, err := list(counted, after)
		if err != nil {
			t.Fatalf("list %s: %v", what, err)
		}
		met, pages, after = append(met, page.ids...), append(pages, len(page.ids)), page.next
		if most := page.bytes + listBytes/2; read.bytes > most {
			t.Errorf("%s: a page of %d bytes reads %d, want %d at most", what, page.bytes, read.bytes, most)
		}
		if len(pages) > 2*len(made) {
			t.Fatalf("%s: the list does not end", what)
		}
	}
	slices.Reverse(met)
	if !slices.Equal(met, made) {
		t.Errorf("%s: listed %v, want %v", what, met, made)
	}
	if !slices.Equal(pages, sizedPages) {
		t.Errorf("%s: pages have %v, want %v", what, pages, sizedPages)
	}
}

func ofPage(p atrium.Page) (string, []string) {
	return string(p.ID), []string{p.Name, p.Title, p.Context, string(p.Actions), string(p.Scripts), string(p.FooterLinks), *orEmpty(p.HeaderActionID)}
}

func orEmpty(text *string) *string {
	if text == nil {
		return new(string)
	}
	return text
}

func listsBoundedInBytes(t *testing.T, e *env) {
	const limit = 100
	ctx := t.Context()
	kept := e.newPage(atrium.PagePublished)
	e.put(t, kept)
	branded := e.brand(t, "Hearth").ID
	account := e.newAccount("sized.example", "")
	e.put(t, account)
	var drafts, deleted, audiences, prospects []string
	for _, size := range slices.Backward(sized) {
		e.clock.step(time.Second)
		text := strings.Repeat("x", size)
		draft, gone, u := e.newPage(atrium.PageDraft), e.newPage(atrium.PageDraft), e.newAudience(kept, false)
		draft.BrandID, draft.Scripts, gone.HeaderActionID, gone.DeletedAt, u.Name = string(branded), []byte(`["`+text+`"]`), &text, pointer(gone.CreatedAt), text
		if size == 10 {
			draft.Metadata = []byte(`"` + strings.Repeat("x", listBytes) + `"`) // not in lists
		}
		p := &atrium.LinkedProspect{Prospect: atrium.Prospect{
			ID: atrium.NewID[atrium.ProspectID](), Slug: &text, CreatedAt: draft.CreatedAt, UpdatedAt: draft.CreatedAt, Name: pointer("Sized"),
		}, AccountIDs: []atrium.AccountID{account.ID}}
		e.put(t, draft, gone, u, p)
		drafts, deleted, audiences = append(drafts, string(draft.ID)), append(deleted, string(gone.ID)), append(audiences, string(u.ID))
		prospects = append(prospects, string(p.ID))
	}
	wantPages(t, e, "pages", drafts, func(e *env, after *atrium.Position) (listPage, error) {
		found, more, err := e.Pages(ctx, e.tenant, atrium.PageDraft, after, limit)
		var next *atrium.Position
		if more {
			next = atrium.PositionAt(found[len(found)-1].CreatedAt, found[len(found)-1].ID)
		}
		return newListPage(found, next, ofPage), err
	})
	for what, f := range map[string]atrium.PageFilter{"pages of a brand": {BrandID: branded}, "deleted drafts": {Deleted: true, Status: atrium.PageDraft}, "deleted pages": {Deleted: true}} {
		want := drafts
		if f.Deleted {
			want = deleted
		}
		wantPages(t, e, what, want, func(e *env, after *atrium.Position) (listPage, error) {
			found, next, err := e.FilteredPages(ctx, e.tenant, f, after, limit)
			return newListPage(found, next, ofPage), err
		})
	}
	for what, archived := range map[string]*bool{"audiences": nil, "audiences that are not archived": pointer(false)} {
		wantPages(t, e, what, audiences, func(e *env, after *atrium.Position) (listPage, error) {
			found, next, err := e.Audiences(ctx, e.tenant, kept.ID, archived, after, limit)
			return newListPage(found, next, func(u atrium.Audience) (string, []string) { return string(u.ID), []string{u.Name} }), err
		})
	}
	for what, f := range map[string]atrium.ProspectFilter{
		"prospects": {}, "prospects of an account": {AccountID: account.ID}, "prospects of an account with a word": {AccountID: account.ID, Words: []string{"sized"}},
	} {
		wantPages(t, e, what, prospects, func(e *env, after *atrium.Position) (listPage, error) {
			found, next, err := e.Prospects(ctx, e.tenant, f, after, limit)
			return newListPage(found, next, func(p atrium.Prospect) (string, []string) { return string(p.ID), []string{*p.Slug} }), err
		})
	}
	e.sizedBrands(t)
	e.sizedAccounts(t)
	e.sizedActivity(t)
	e.sizedMoves(t)
}

func (e *env) sizedBrands(t *testing.T) {
	t.Helper()
	e = e.as(e.newTenant(t))
	var made []string
	for _, size := range slices.Backward(sized) {
		e.clock.step(time.Second)
		made = append(made, string(e.brand(t, strings.Repeat("x", size)).ID))
	}
	wantPages(t, e, "brands", made, func(e *env, after *atrium.Position) (listPage, error) {
		found, more, err := e.Brands(t.Context(), e.tenant, after, 100)
		var next *atrium.Position
		if more {
			next = atrium.PositionAt(found[len(found)-1].CreatedAt, found[len(found)-1].ID)
		}
		return newListPage(found, next, func(b atrium.Brand) (string, []string) { return string(b.ID), []string{b.Name} }), err
	})
}

// sizedAccounts lists accounts in every order. All orders give the same list.
func (e *env) sizedAccounts(t *testing.T) {
	t.Helper()
	e = e.as(e.newTenant(t))
	var made []string
	for i, size := range slices.Backward(sized) {
		e.clock.step(time.Minute)
		a := e.newAccount(strings.Repeat("x", size)+string(rune('a'+i)), "Sized "+string(rune('a'+i)))
		e.put(t, a)
		e.record(t, byID(a.ID))
		made = append(made, string(a.ID))
	}
	for what, by := range map[string]struct {
		atrium.AccountFilter
		order atrium.AccountOrder
	}{
		"accounts":                  {atrium.AccountFilter{}, atrium.AccountsNewest},
		"accounts with a word":      {atrium.AccountFilter{Words: []string{"sized"}}, atrium.AccountsNewest},
		"accounts by activity":      {atrium.AccountFilter{}, atrium.AccountsActivity},
		"accounts by name":          {atrium.AccountFilter{NamePrefix: "sized"}, atrium.AccountsName},
		"accounts by name and word": {atrium.AccountFilter{Words: []string{"sized"}}, atrium.AccountsName},
	} {
		wantPages(t, e, what, made, func(e *env, after *atrium.Position) (listPage, error) {
			found, next, err := e.Accounts(t.Context(), e.tenant, by.AccountFilter, by.order, after, 100)
			return newListPage(found, next, func(a atrium.Account) (string, []string) { return string(a.ID), []string{a.Domain, a.Name} }), err
		})
	}
}

// sizedActivity lists entries with long claimed domains and entries with large payloads.
func (e *env) sizedActivity(t *testing.T) {
	t.Helper()
	e = e.as(e.newTenant(t))
	claiming, holding := e.newAccount("claiming.example", ""), e.newAccount("holding.example", "")
	e.put(t, claiming, holding)
	var claims, payloads []string
	for _, size := range slices.Backward(sized) {
		e.clock.step(time.Second)
		text := strings.Repeat("x", size)
		claims = append(claims, string(e.record(t, atrium.Claim{AccountID: claiming.ID, Domain: text}).EntryID))
		payloads = append(payloads, string(e.record(t, byID(holding.ID), payload(`{"text":"`+text+`"}`)).EntryID))
	}
	list := func(id atrium.AccountID, payloads bool) func(e *env, after *atrium.Position) (listPage, error) {
		return func(e *env, after *atrium.Position) (listPage, error) {
			found, next, err := e.Timeline(t.Context(), e.tenant, id, atrium.TimelineFilter{}, after, 100, payloads)
			return newListPage(found, next, func(v atrium.TimelineEntry) (string, []string) {
				if payloads && int64(len(v.Payload)) != v.PayloadBytes {
					t.Errorf("%s has a payload of %d bytes, but PayloadBytes is %d", v.ID, len(v.Payload), v.PayloadBytes)
				}
				return string(v.ID), []string{v.Claim.Domain, string(v.Payload)}
			}), err
		}
	}
	wantPages(t, e, "activity with long claims", claims, list(claiming.ID, false))
	wantPages(t, e, "activity with long claims and payloads", claims, list(claiming.ID, true))
	wantPages(t, e, "activity with large payloads", payloads, list(holding.ID, true))
	found, next, err := e.Timeline(t.Context(), e.tenant, holding.ID, atrium.TimelineFilter{}, nil, 100, false)
	if err != nil || next != nil || len(found) != len(payloads) {
		t.Errorf("without their payloads, a page has %d entries, %v, %v", len(found), next, err)
	}
}

// sizedMoves lists moves with long rules.
func (e *env) sizedMoves(t *testing.T) {
	t.Helper()
	e = e.as(e.newTenant(t))
	from, to := e.newAccount("from.example", ""), e.newAccount("to.example", "")
	e.put(t, from, to)
	var made []string
	for i, size := range slices.Backward(sized) {
		e.clock.step(time.Second)
		name := string(rune('a' + i))
		e.record(t, atrium.Claim{AccountID: from.ID, Name: name})
		rule := atrium.MoveRule{ClaimedName: name, Given: []byte(`{"claimedName":"` + name + `","x":"` + strings.Repeat("x", size) + `"}`)}
		report, _, err := e.Move(t.Context(), e.change(), atrium.MoveRequest{From: from.ID, To: to.ID, Rule: rule, Limit: 1})
		if err != nil || report.Move == nil {
			t.Fatalf("move: %+v, %v", report, err)
		}
		made = append(made, string(report.Move.ID))
	}
	slices.Sort(made) // moves are listed by their identifiers
	wantPages(t, e, "moves", made, func(e *env, after *atrium.Position) (listPage, error) {
		found, more, err := e.Moves(t.Context(), e.tenant, after, 100)
		var next *atrium.Position
		if more {
			next = atrium.PositionAt(found[len(found)-1].CreatedAt, found[len(found)-1].ID)
		}
		return newListPage(found, next, func(m atrium.Move) (string, []string) { return string(m.ID), []string{string(m.Rule)} }), err
	})
}

// mergeInto creates accounts whose domains begin with a text, and merges them into one.
func (e *env) mergeInto(t *testing.T, survivor atrium.AccountID, n int, domain string) (ids []atrium.AccountID) {
	t.Helper()
	var accounts []store.Record
	for i := range n {
		a := e.newAccount(fmt.Sprintf("%s%d.example", domain, i), "")
		ids, accounts = append(ids, a.ID), append(accounts, a)
	}
	e.put(t, accounts...)
	if err := e.db.Write(t.Context(), func(tx engine.Tx) error {
		for _, id := range ids {
			if _, err := tx.Exec("UPDATE accounts SET merged_into = $1, survivor_id = $1 WHERE tenant_id = $2 AND account_id = $3",
				storedID(survivor), storedID(e.tenant), storedID(id)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatalf("merge: %v", err)
	}
	return ids
}

func mergedActivityBounded(t *testing.T, e *env) {
	survivor := e.newAccount("survivor.example", "")
	e.put(t, survivor)
	kept := append(e.mergeInto(t, survivor.ID, atrium.MaxMerged, "merged"), survivor.ID)
	var want []string
	text := strings.Repeat("x", 64<<10)
	for _, id := range kept {
		e.clock.step(time.Second)
		for range 2 {
			want = append(want, string(e.record(t, atrium.Claim{AccountID: id, Domain: text}).EntryID))
		}
	}
	var met []string
	for after, first := (*atrium.Position)(nil), true; first || after != nil; first = false {
		counted, read := e.counting()
		found, next, err := counted.Timeline(t.Context(), e.tenant, survivor.ID, atrium.TimelineFilter{}, after, 100, false)
		if err != nil {
			t.Fatal(err)
		}
		bytes := 0
		for i := range found {
			met = append(met, string(found[i].ID))
			bytes += len(found[i].Claim.Domain)
		}
		if bytes >= listBytes+len(text) || next != nil && bytes < listBytes {
			t.Errorf("a page has %d bytes", bytes)
		}
		if read.bytes > bytes+listBytes {
			t.Errorf("a page of %d bytes reads %d", bytes, read.bytes)
		}
		after = next
	}
	slices.Reverse(met)
	if !slices.Equal(met, want) {
		t.Errorf("listed %d entries, want %d, each once and newest first", len(met), len(want))
	}
}

func longDomainFound(t *testing.T, e *env) {
	other := e.newAccount("other.example", "Other")
	for _, domain := range []string{
		"shop " + strings.Repeat("x", listBytes), "shop," + strings.Repeat("Ä", 5000), strings.Repeat(" ", 900) + "shop" + strings.Repeat("日", 5000),
	} {
		e := e.as(e.newTenant(t))
		a := e.newAccount(domain, "")
		e.put(t, a)
		for _, order := range []atrium.AccountOrder{atrium.AccountsWord, atrium.AccountsNewest, atrium.AccountsName} {
			all, _ := e.allAccounts(t, atrium.AccountFilter{Words: []string{"shop"}}, order, 10)
			if len(all) != 1 || all[0].Domain != domain {
				t.Errorf("by %s, %.20q… finds %d accounts, or their domains are cut", order, domain, len(all))
			}
		}
		e.put(t, other)
		e.merge(t, a.ID, other.ID)
		if all, _ := e.allAccounts(t, atrium.AccountFilter{Words: []string{"shop"}}, atrium.AccountsNewest, 10); len(all) != 1 || all[0].Domain != other.Domain {
			t.Errorf("once merged, %.20q… finds %d accounts", domain, len(all))
		}
	}
}

func mergedSearchBounded(t *testing.T, e *env) {
	const survivors, each = 60, 95
	for i := range survivors {
		e.clock.step(time.Second)
		a := e.newAccount(fmt.Sprintf("survivor%d.example", i), "")
		e.put(t, a)
		e.mergeInto(t, a.ID, each, fmt.Sprintf("merged%d-", i))
	}
	f := atrium.AccountFilter{Words: []string{"nobody"}}
	for after, first := (*atrium.Position)(nil), true; first || after != nil; first = false {
		counted, read := e.counting()
		found, next, err := counted.Accounts(t.Context(), e.tenant, f, atrium.AccountsNewest, after, 5)
		if err != nil || len(found) > 0 {
			t.Fatalf("found %d accounts, %v", len(found), err)
		}
		if most := 4500; read.rows > most { // of 5,760 accounts
			t.Errorf("a page reads %d rows, want %d at most", read.rows, most)
		}
		after = next
	}
}
