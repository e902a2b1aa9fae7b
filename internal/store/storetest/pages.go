package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"atrium"
	"atrium/internal/store"
)

var pages = []guarantee{
	{"an imported page is read unchanged, deleted or not", pageAsGiven},
	{"pages are listed newest first, without deleted ones, by status", pagesListed},
	{"pages of a list have no gaps or repetitions at any page size", pagesFollow},
	{"a page that exists throughout is listed once while others are created", pagesWhileOthersCome},
	{"a list can continue at any position", positionWithoutPage},
	{"audiencesCount is the number of audiences that are not archived", audiencesCounted},
}

func (e *env) page(t tb, id atrium.PageID) atrium.Page {
	t.Helper()
	p, err := e.Page(t.Context(), e.tenant, id)
	if err != nil {
		t.Fatalf("read a page: %v", err)
	}
	return p
}

func pageAsGiven(t *testing.T, e *env) {
	plain := e.newPage(atrium.PageDraft)
	full := e.newPage(atrium.PageArchived)
	full.Actions, full.Scripts, full.FooterLinks = []byte(`[{"b":1,"a":1.50}]`), []byte(`[[]]`), []byte(`["\u0000"]`)
	full.HeaderActionID, full.Metadata, full.DeletedAt = pointer(""), []byte(`false`), pointer(e.clock.instant()+1000)
	full.UpdatedAt += 5000
	e.put(t, plain, full)
	for _, want := range []*atrium.Page{plain, full} {
		got := e.page(t, want.ID)
		if describe(&got) != describe(want) || got.TenantID != e.tenant {
			t.Errorf("read %+v, want %+v", got, want)
		}
	}
	_, err := e.Page(t.Context(), e.tenant, atrium.NewID[atrium.PageID]())
	wantCode(t, err, atrium.CodeNotFound)
}

// newestFirst compares pages in the order of lists.
func newestFirst(a, b *atrium.Page) int {
	return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), cmp.Compare(b.ID, a.ID))
}

// listable returns the identifiers of the pages that match the filter.
func listable(all []*atrium.Page, status atrium.PageStatus) (ids []atrium.PageID) {
	for _, p := range slices.SortedFunc(slices.Values(all), newestFirst) {
		if p.DeletedAt == nil && (status == "" || p.Status == status) {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// list reads a list of pages to its end and returns the identifiers. It calls between after each
// page of the list.
func (e *env) list(t tb, status atrium.PageStatus, limit int, between func()) (ids []atrium.PageID) {
	t.Helper()
	var after *atrium.Position
	for {
		part, more, err := e.Pages(t.Context(), e.tenant, status, after, limit)
		if err != nil {
			t.Fatalf("list pages: %v", err)
		}
		if len(part) > limit || more && len(part) < limit {
			t.Fatalf("%d pages of %d, more %v", len(part), limit, more)
		}
		for _, p := range part {
			if p.TenantID != e.tenant || p.DeletedAt != nil || status != "" && p.Status != status {
				t.Errorf("the list of %q has %+v", status, p)
			}
			ids = append(ids, p.ID)
		}
		if !more {
			return ids
		}
		after = atrium.PositionAt(part[limit-1].CreatedAt, part[limit-1].ID)
		between()
	}
}

func nothing() {}

// manyPages imports pages of every status, some deleted, some with the same instant.
func (e *env) manyPages(t tb, n int) (all []*atrium.Page) {
	t.Helper()
	var records []store.Record
	for i := range n {
		p := e.newPage(atrium.PageStatuses()[i%3])
		p.CreatedAt = e.clock.instant() + atrium.Time(i/4*1000) - 4000
		if i%5 == 4 {
			p.DeletedAt = pointer(p.CreatedAt + 1000)
		}
		all, records = append(all, p), append(records, p)
	}
	e.put(t, records...)
	return all
}

func pagesListed(t *testing.T, e *env) {
	if ids := e.list(t, "", 5, nothing); len(ids) != 0 {
		t.Errorf("a tenant without pages has %v", ids)
	}
	all := e.manyPages(t, 40)
	for _, status := range append(atrium.PageStatuses(), "") {
		if got, want := e.list(t, status, 100, nothing), listable(all, status); !slices.Equal(got, want) {
			t.Errorf("list of %q is %v, want %v", status, got, want)
		}
	}
	one, _, err := e.Pages(t.Context(), e.tenant, "", nil, 1)
	if err != nil || describe(&one[0]) != describe(all[slices.IndexFunc(all, func(p *atrium.Page) bool { return p.ID == one[0].ID })]) {
		t.Errorf("the first page of the list is %+v, %v", one, err)
	}
}

func pagesFollow(t *testing.T, e *env) {
	all := e.manyPages(t, 23)
	for _, status := range append(atrium.PageStatuses(), "") {
		want := listable(all, status)
		for _, limit := range []int{1, 2, 3, len(want) - 1, len(want), len(want) + 1} {
			if got := e.list(t, status, limit, nothing); !slices.Equal(got, want) {
				t.Errorf("list of %q by %d is %v, want %v", status, limit, got, want)
			}
		}
	}
}

func pagesWhileOthersCome(t *testing.T, e *env) {
	rapid.Check(t, func(t *rapid.T) {
		e := e.as(e.newTenant(t))
		all := e.manyPages(t, rapid.IntRange(1, 12).Draw(t, "pages"))
		limit := rapid.IntRange(1, 4).Draw(t, "limit")
		got := e.list(t, "", limit, func() {
			p := e.newPage(atrium.PageDraft)
			p.CreatedAt += atrium.Time(rapid.IntRange(-6, 6).Draw(t, "created")) * 1000
			p.ID = as[atrium.PageID](suffixes().Draw(t, "identifier"))
			if _, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(p)); err != nil { // a duplicate identifier is refused
				wantRefused(t, err, 0, "anything")
			}
		})
		throughout := listable(all, "")
		for i, id := range got {
			if slices.Contains(got[:i], id) {
				t.Fatalf("%s was listed twice", id)
			}
		}
		met := slices.DeleteFunc(got, func(id atrium.PageID) bool { return !slices.Contains(throughout, id) })
		if !slices.Equal(met, throughout) {
			t.Fatalf("listed %v, want %v", met, throughout)
		}
	})
}

func positionWithoutPage(t *testing.T, e *env) {
	all := e.manyPages(t, 20)
	for _, at := range []atrium.Time{-1 << 60, all[0].CreatedAt - 1000, all[7].CreatedAt, all[19].CreatedAt + 1000, 1 << 60} {
		for _, suffix := range []string{"00000000000000000000000000", "zzzzzzzzzzzzzzzzzzzzzzzzzz", string(all[7].ID[len("page_"):])} {
			after := &atrium.Page{CreatedAt: at, ID: as[atrium.PageID](suffix)}
			want := listable(slices.DeleteFunc(slices.Clone(all), func(p *atrium.Page) bool { return newestFirst(p, after) <= 0 }), "")
			got, _, err := e.Pages(t.Context(), e.tenant, "", atrium.PositionAt(at, after.ID), 100)
			if err != nil || len(got) != len(want) {
				t.Errorf("after %s %s: %d pages, %v, want %d", at, suffix, len(got), err, len(want))
				continue
			}
			for i := range want {
				if got[i].ID != want[i] {
					t.Errorf("after %s %s: place %d has %s, want %s", at, suffix, i, got[i].ID, want[i])
				}
			}
		}
	}
}

func audiencesCounted(t *testing.T, e *env) {
	p, other := e.newPage(atrium.PagePublished), e.newPage(atrium.PagePublished)
	p.DeletedAt = pointer(e.clock.instant())
	e.put(t, p, other)
	for i, archived := range []bool{true, false, false, true, false} {
		e.put(t, e.newAudience(p, archived))
		want := []int64{0, 1, 2, 2, 3}[i]
		if got := e.page(t, p.ID).AudiencesCount; got != want {
			t.Errorf("after %d audiences the count is %d, want %d", i+1, got, want)
		}
	}
	e.put(t, e.newAudience(p, false), e.newAudience(other, false), e.newAudience(p, false), e.newAudience(p, true))
	if a, b := e.page(t, p.ID).AudiencesCount, e.page(t, other.ID).AudiencesCount; a != 5 || b != 1 {
		t.Errorf("the counts are %d and %d, want 5 and 1", a, b)
	}
	before := e.page(t, p.ID)
	audiences := of[*atrium.Audience](e.records(t))
	if added, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(audiences[0], audiences[0])); err != nil || added.Added != 0 {
		t.Errorf("imported again: %d, %v", added, err)
	}
	if after := e.page(t, p.ID); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("importing again: %+v, before %+v", after, before)
	}
	e.clock.step(time.Hour)
	e.put(t, e.newAudience(other, false))
	if got := e.page(t, other.ID); got.UpdatedAt != other.UpdatedAt || got.AudiencesCount != 2 {
		t.Errorf("after an audience the page is %+v, before %+v", got, other)
	}
}
