package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
)

var lists = []guarantee{
	{"a page of a list ends with the item with which it has 4 MiB, and all are met once", listsBoundedInBytes},
}

// listBytes is how much one page of a list holds, with an item more.
const listBytes = 4 << 20

// sized are texts in the order in which a list has them, and how many of them each of
// its pages has.
var (
	sized      = []int{listBytes / 2, listBytes / 2, 10, listBytes, 10}
	sizedPages = []int{2, 2, 1}
)

// wantPages follows a list to its end and holds that it has all that were made, the
// last one first, in pages of so many.
func wantPages(t *testing.T, what string, made []string, list func(after *atrium.Position) (ids []string, next *atrium.Position, err error)) {
	t.Helper()
	var after *atrium.Position
	var met []string
	var pages []int
	for first := true; first || after != nil; first = false {
		ids, next, err := list(after)
		if err != nil {
			t.Fatalf("list %s: %v", what, err)
		}
		met, pages, after = append(met, ids...), append(pages, len(ids)), next
	}
	slices.Reverse(met)
	if !slices.Equal(met, made) {
		t.Errorf("%s: met %v, want %v", what, met, made)
	}
	if !slices.Equal(pages, sizedPages) {
		t.Errorf("%s: pages have %v, want %v", what, pages, sizedPages)
	}
}

// identified returns identifiers and, unless next is set or there is no more, where the last
// one is.
func identified[T any](found []T, more bool, next *atrium.Position, id func(T) (string, *atrium.Position)) ([]string, *atrium.Position) {
	var ids []string
	for _, v := range found {
		text, at := id(v)
		if ids = append(ids, text); more {
			next = at
		}
	}
	return ids, next
}

func listsBoundedInBytes(t *testing.T, e *env) {
	const limit = 100
	ctx := t.Context()
	kept := e.newPage(atrium.PagePublished)
	e.put(t, kept)
	branded := e.brand(t, "Hearth").ID
	account := e.newAccount("sized.example", "")
	e.put(t, account)
	var drafts, deleted, audiences, prospects, brands []string
	for _, size := range slices.Backward(sized) {
		e.clock.step(time.Second)
		text := strings.Repeat("x", size)
		draft, gone, u := e.newPage(atrium.PageDraft), e.newPage(atrium.PageDraft), e.newAudience(kept, false)
		draft.BrandID, draft.Scripts, gone.Context, gone.DeletedAt, u.Name = string(branded), []byte(`["`+text+`"]`), text, pointer(gone.CreatedAt), text
		if size == 10 {
			draft.Metadata = []byte(`"` + strings.Repeat("x", listBytes) + `"`) // which lists have not
		}
		p := &store.LinkedProspect{Prospect: atrium.Prospect{
			ID: atrium.NewID[atrium.ProspectID](), Slug: &text, CreatedAt: draft.CreatedAt, UpdatedAt: draft.CreatedAt,
		}, AccountIDs: []atrium.AccountID{account.ID}}
		e.put(t, draft, gone, u, p)
		drafts, deleted, audiences = append(drafts, string(draft.ID)), append(deleted, string(gone.ID)), append(audiences, string(u.ID))
		prospects = append(prospects, string(p.ID))
	}
	ofPage := func(p atrium.Page) (string, *atrium.Position) {
		return string(p.ID), atrium.PositionAt(p.CreatedAt, p.ID)
	}
	wantPages(t, "pages", drafts, func(after *atrium.Position) ([]string, *atrium.Position, error) {
		found, more, err := e.Pages(ctx, e.tenant, atrium.PageDraft, after, limit)
		ids, next := identified(found, more, nil, ofPage)
		return ids, next, err
	})
	for what, f := range map[string]store.PageFilter{"pages of a brand": {BrandID: branded}, "deleted drafts": {Deleted: true, Status: atrium.PageDraft}, "deleted pages": {Deleted: true}} {
		want := drafts
		if f.Deleted {
			want = deleted
		}
		wantPages(t, what, want, func(after *atrium.Position) ([]string, *atrium.Position, error) {
			found, next, err := e.FilteredPages(ctx, e.tenant, f, after, limit)
			ids, next := identified(found, false, next, ofPage)
			return ids, next, err
		})
	}
	for _, archived := range []*bool{nil, pointer(false)} {
		wantPages(t, "audiences", audiences, func(after *atrium.Position) ([]string, *atrium.Position, error) {
			found, next, err := e.Audiences(ctx, e.tenant, kept.ID, archived, after, limit)
			ids, next := identified(found, false, next, func(u atrium.Audience) (string, *atrium.Position) { return string(u.ID), nil })
			return ids, next, err
		})
	}
	for _, f := range []atrium.ProspectFilter{{}, {AccountID: account.ID}} {
		wantPages(t, "prospects", prospects, func(after *atrium.Position) ([]string, *atrium.Position, error) {
			found, next, err := e.Prospects(ctx, e.tenant, f, after, limit)
			ids, next := identified(found, false, next, func(p atrium.Prospect) (string, *atrium.Position) { return string(p.ID), nil })
			return ids, next, err
		})
	}
	other := e.as(e.newTenant(t))
	for _, size := range slices.Backward(sized) {
		e.clock.step(time.Second)
		brands = append(brands, string(other.brand(t, strings.Repeat("x", size)).ID))
	}
	wantPages(t, "brands", brands, func(after *atrium.Position) ([]string, *atrium.Position, error) {
		found, more, err := e.Brands(ctx, other.tenant, after, limit)
		ids, next := identified(found, more, nil, func(b atrium.Brand) (string, *atrium.Position) {
			return string(b.ID), atrium.PositionAt(b.CreatedAt, b.ID)
		})
		return ids, next, err
	})
}
