package storetest

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"atrium"
	"atrium/internal/store"
)

var identifiers = []guarantee{
	{"every identifier round-trips", identifiersRoundTrip},
	{"identifiers sort by their characters", identifiersOrder},
	{"every key identifier round-trips", keyIdentifiersRoundTrip},
	{"every draft identifier round-trips", draftIdentifiersRoundTrip},
}

// suffixes generates suffixes of identifiers: any 26 characters, the ends of the range, and
// neighbors across the groups of bits in which they are stored.
func suffixes() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringOfN(rapid.RuneFrom([]rune("0123456789abcdefghijklmnopqrstuvwxyz")), 26, 26, -1),
		rapid.StringOfN(rapid.RuneFrom([]rune("09az")), 26, 26, -1),
		rapid.SampledFrom([]string{
			strings.Repeat("0", 26), strings.Repeat("z", 26), strings.Repeat("0", 25) + "1", "1" + strings.Repeat("0", 25),
			"00" + strings.Repeat("z", 24), "01" + strings.Repeat("0", 24),
			strings.Repeat("0", 14) + strings.Repeat("z", 12), strings.Repeat("0", 13) + "1" + strings.Repeat("0", 12),
			"zz" + strings.Repeat("0", 24), "7zzzzzzzzzzzzzzzzzzzzzzzzz", "8" + strings.Repeat("0", 25),
		}),
	)
}

func as[T atrium.Identifier](suffix string) T {
	var zero T
	return T(zero.Prefix() + suffix)
}

// identifiersRoundTrip uses one suffix for a record of every kind.
func identifiersRoundTrip(t *testing.T, e *env) {
	rapid.Check(t, func(t *rapid.T) {
		e := e.as(e.newTenant(t))
		suffix := suffixes().Draw(t, "suffix")
		records := e.oneOfEach()
		a, p := records[0].(*atrium.Account), records[1].(*atrium.LinkedProspect)
		page, u := records[2].(*atrium.Page), records[3].(*atrium.Audience)
		v, entry := records[4].(*atrium.AudienceVersion), records[5].(*atrium.Entry)
		a.ID, p.ID, page.ID = as[atrium.AccountID](suffix), as[atrium.ProspectID](suffix), as[atrium.PageID](suffix)
		u.ID, v.ID, entry.ID = as[atrium.AudienceID](suffix), as[atrium.VersionID](suffix), as[atrium.EntryID](suffix)
		p.AccountIDs = []atrium.AccountID{a.ID}
		u.PageID, v.PageID, v.AudienceID = page.ID, page.ID, u.ID
		entry.AccountID, entry.Claim.AccountID = a.ID, as[atrium.AccountID](suffixes().Draw(t, "claimed"))
		e.put(t, records...)

		if got, want := describeAll(e.records(t)), describeAll(records); !slices.Equal(got, want) {
			t.Fatalf("exported %q, want %q", got, want)
		}
		if _, linked, err := e.Account(t.Context(), e.tenant, a.ID); err != nil || len(linked) != 1 || linked[0].ID != p.ID {
			t.Fatalf("account %s with prospects %v, %v", a.ID, linked, err)
		}
		if got, err := e.Page(t.Context(), e.tenant, page.ID); err != nil || got.ID != page.ID {
			t.Fatalf("page %s, %v, want %s", got.ID, err, page.ID)
		}
		got, _, err := e.Versions(t.Context(), e.tenant, page.ID, u.ID, 0, 9)
		if err != nil || len(got) != 1 || got[0].ID != v.ID || got[0].AudienceID != u.ID {
			t.Fatalf("versions %v, %v", got, err)
		}
	})
}

func identifiersOrder(t *testing.T, e *env) {
	rapid.Check(t, func(t *rapid.T) {
		e := e.as(e.newTenant(t))
		all := rapid.SliceOfNDistinct(suffixes(), 2, 6, rapid.ID).Draw(t, "suffixes")
		var records []store.Record
		for _, suffix := range all {
			p := e.newPage(atrium.PageDraft)
			p.ID = as[atrium.PageID](suffix)
			records = append(records, p)
		}
		e.put(t, records...)
		slices.Sort(all)

		pages := of[*atrium.Page](e.records(t))
		for i, suffix := range all {
			if pages[i].ID != as[atrium.PageID](suffix) {
				t.Fatalf("export: place %d has %s, want the one of %s", i, pages[i].ID, suffix)
			}
		}
		slices.Reverse(all)
		listed, _, err := e.Pages(t.Context(), e.tenant, "", nil, 9)
		if err != nil {
			t.Fatalf("list pages: %v", err)
		}
		for i, suffix := range all { // all created at the same instant
			if listed[i].ID != as[atrium.PageID](suffix) {
				t.Fatalf("list: place %d has %s, want the one of %s", i, listed[i].ID, suffix)
			}
		}
		after := atrium.PositionAt(listed[0].CreatedAt, listed[0].ID)
		if rest, _, err := e.Pages(t.Context(), e.tenant, "", after, 9); err != nil || len(rest) != len(all)-1 {
			t.Fatalf("%d pages after the first, %v, want %d", len(rest), err, len(all)-1)
		}
	})
}

func keyIdentifiersRoundTrip(t *testing.T, e *env) {
	made := map[string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		suffix := suffixes().Draw(t, "suffix")
		id := as[atrium.KeyID](suffix)
		if !made[suffix] {
			made[suffix] = true
			if _, _, err := e.CreateKey(t.Context(), e.change(), atrium.APIKey{ID: id, Name: "k"}, []byte(suffix)); err != nil {
				t.Fatalf("create a key: %v", err)
			}
		}
		k, hash, _, err := e.Key(t.Context(), id)
		if err != nil || k.ID != id || k.TenantID != e.tenant || string(hash) != suffix {
			t.Fatalf("key %s of %s with hash %q, %v, want %s of %s", k.ID, k.TenantID, hash, err, id, e.tenant)
		}
	})
}

func draftIdentifiersRoundTrip(t *testing.T, e *env) {
	rapid.Check(t, func(t *rapid.T) {
		e := e.as(e.newTenant(t))
		all := rapid.SliceOfNDistinct(suffixes(), 1, 4, rapid.ID).Draw(t, "suffixes")
		drafts := make([]*atrium.Draft, len(all))
		for i, suffix := range all {
			drafts[i] = e.draft(t, byDomain("acme.example"))
			drafts[i].ID = as[atrium.EntryID](suffix)
		}
		for i, r := range receipts(t, e.append(t, drafts...)) {
			if r.EntryID != drafts[i].ID {
				t.Fatalf("receipt for %s, want one for %s", r.EntryID, drafts[i].ID)
			}
		}
		slices.Sort(all)
		for i, entry := range e.entries(t) {
			if entry.ID != as[atrium.EntryID](all[i]) {
				t.Fatalf("place %d has %s, want the one of %s", i, entry.ID, all[i])
			}
		}
	})
}
