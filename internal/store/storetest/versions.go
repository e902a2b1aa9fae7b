package storetest

import (
	"math"
	"slices"
	"testing"

	"atrium"
	"atrium/internal/store"
)

var versions = []guarantee{
	{"versions are listed highest number first, with archived ones, without content", versionsListed},
	{"versions can be paged to any depth with their total", versionsPaged},
	{"deep pages of versions are right whatever numbers are missing", versionsFarDown},
	{"versions are NotFound only if the page does not have the audience", versionsNotFound},
	{"versions of deleted pages and archived audiences can be read", versionsOfDeleted},
	{"numbers start at 1 and continue after the highest number ever used", numbersFollow},
	{"numbers end at the largest exact integer of JSON", numbersEnd},
	{"each audience has its own numbers", numbersOfEachAudience},
}

// audience imports a page with an audience.
func (e *env) audience(t tb) *atrium.Audience {
	t.Helper()
	p := e.newPage(atrium.PagePublished)
	u := e.newAudience(p, false)
	e.put(t, p, u)
	return u
}

// numbers returns the numbers of the versions of an audience in the order of the list, and the
// total.
func (e *env) numbers(t tb, u *atrium.Audience, skip int64, limit int) (numbers []int64, total int64) {
	t.Helper()
	all, total, err := e.Versions(t.Context(), e.tenant, u.PageID, u.ID, skip, limit)
	if err != nil || len(all) > limit {
		t.Fatalf("list versions: %d of %d, %v", len(all), limit, err)
	}
	for _, v := range all {
		if v.TenantID != e.tenant || v.AudienceID != u.ID || v.Content != nil {
			t.Errorf("the list has %+v", v)
		}
		numbers = append(numbers, v.Number)
	}
	return numbers, total
}

func (e *env) wantNumbers(t tb, u *atrium.Audience, want ...int64) {
	t.Helper()
	if got, total := e.numbers(t, u, 0, 100); !slices.Equal(got, want) || total != int64(len(want)) {
		t.Errorf("versions %v of %d, want %v", got, total, want)
	}
}

func versionsListed(t *testing.T, e *env) {
	u := e.audience(t)
	e.wantNumbers(t, u)
	var want []atrium.Version
	for i, n := range []int64{3, 1, 2, 7} { // the order does not depend on the time
		v := e.newVersion(u, n)
		v.Archived = i%2 == 0
		v.CreatedAt -= atrium.Time(n * 1000)
		e.put(t, v)
		v.TenantID, v.Content = e.tenant, nil
		want = append(want, v.Version)
	}
	want = []atrium.Version{want[3], want[0], want[2], want[1]}
	got, total, err := e.Versions(t.Context(), e.tenant, u.PageID, u.ID, 0, 100)
	if err != nil || total != 4 || len(got) != 4 {
		t.Fatalf("%d versions of %d, %v, want 4", len(got), total, err)
	}
	for i := range want {
		if describe(&atrium.AudienceVersion{Version: got[i]}) != describe(&atrium.AudienceVersion{Version: want[i]}) {
			t.Errorf("place %d has %+v, want %+v", i, got[i], want[i])
		}
	}
}

func versionsPaged(t *testing.T, e *env) {
	u := e.audience(t)
	var records []store.Record
	var all []int64
	for n := int64(25); n > 0; n-- {
		all = append(all, n)
		records = append(records, e.newVersion(u, n))
	}
	e.put(t, records...)
	for _, limit := range []int{1, 2, 24, 25, 26, 100} {
		for _, skip := range []int64{0, 1, 23, 24, 25, 26, math.MaxInt64} {
			var want []int64
			if skip < 25 {
				want = all[skip:min(25, int(skip)+limit)]
			}
			if got, total := e.numbers(t, u, skip, limit); !slices.Equal(got, want) || total != 25 {
				t.Errorf("%d after %d: %v of %d, want %v of 25", limit, skip, got, total, want)
			}
		}
	}
}

// Deep pages are found by another statement, which computes the start if no number is missing.
func versionsFarDown(t *testing.T, e *env) {
	for _, missing := range [][]int64{nil, {1}, {1, 2, 3, 4, 5}, {120}, {250}, {1, 2, 120}} {
		u := e.audience(t)
		var records []store.Record
		var all []int64
		for n := int64(260); n > 0; n-- {
			if slices.Contains(missing, n) {
				continue
			}
			all = append(all, n)
			records = append(records, e.newVersion(u, n))
		}
		e.put(t, records...)
		for _, skip := range []int{99, 100, 101, 102, 140, 141, 250, 254, 255, 256, 257, 258, 259, 260, 261} {
			const limit = 3
			var want []int64
			if skip < len(all) {
				want = all[skip:min(len(all), skip+limit)]
			}
			if got, total := e.numbers(t, u, int64(skip), limit); !slices.Equal(got, want) || total != int64(len(all)) {
				t.Errorf("without %v: %d after %d: %v of %d, want %v of %d", missing, limit, skip, got, total, want, len(all))
			}
		}
	}
}

func versionsNotFound(t *testing.T, e *env) {
	u, other := e.audience(t), e.audience(t)
	for _, of := range []struct {
		page     atrium.PageID
		audience atrium.AudienceID
	}{
		{other.PageID, u.ID},
		{u.PageID, other.ID},
		{atrium.NewID[atrium.PageID](), u.ID},
		{u.PageID, atrium.NewID[atrium.AudienceID]()},
	} {
		_, _, err := e.Versions(t.Context(), e.tenant, of.page, of.audience, 0, 9)
		wantCode(t, err, atrium.CodeNotFound)
		_, _, err = e.Versions(t.Context(), e.tenant, of.page, of.audience, math.MaxInt64, 9)
		wantCode(t, err, atrium.CodeNotFound)
	}
	if got, total, err := e.Versions(t.Context(), e.tenant, u.PageID, u.ID, 0, 9); err != nil || total != 0 || got == nil || len(got) != 0 {
		t.Errorf("an audience without versions has %v of %d, %v", got, total, err)
	}
}

func versionsOfDeleted(t *testing.T, e *env) {
	p := e.newPage(atrium.PageArchived)
	p.DeletedAt = pointer(e.clock.instant())
	u := e.newAudience(p, true)
	e.put(t, p, u, e.newVersion(u, 0))
	e.wantNumbers(t, u, 1)
}

func numbersFollow(t *testing.T, e *env) {
	u := e.audience(t)
	e.put(t, e.newVersion(u, 0), e.newVersion(u, 0))
	e.wantNumbers(t, u, 2, 1)
	e.put(t, e.newVersion(u, 10), e.newVersion(u, 0), e.newVersion(u, 5), e.newVersion(u, 0))
	e.wantNumbers(t, u, 12, 11, 10, 5, 2, 1)
	e.put(t, e.newVersion(u, 4))
	e.put(t, e.newVersion(u, 0))
	e.wantNumbers(t, u, 13, 12, 11, 10, 5, 4, 2, 1)

	// A refused version does not use a number.
	bad := e.newVersion(u, 0)
	bad.AudienceID = atrium.NewID[atrium.AudienceID]()
	_, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(e.newVersion(u, 0), bad))
	wantRefused(t, err, 1, "audienceId")
	e.put(t, e.newVersion(u, 0))
	e.wantNumbers(t, u, 14, 13, 12, 11, 10, 5, 4, 2, 1)

	for _, taken := range []int64{1, 14} {
		_, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(e.newVersion(u, taken)))
		wantRefused(t, err, 0, "versionNumber")
	}
	_, err = e.Import(t.Context(), atrium.CommandLine(e.tenant), items(e.newVersion(u, 0), e.newVersion(u, 15)))
	wantRefused(t, err, 1, "versionNumber")
	e.wantNumbers(t, u, 14, 13, 12, 11, 10, 5, 4, 2, 1)
}

func numbersEnd(t *testing.T, e *env) {
	u := e.audience(t)
	e.put(t, e.newVersion(u, atrium.MaxVersionNumber-1), e.newVersion(u, 0))
	e.wantNumbers(t, u, atrium.MaxVersionNumber, atrium.MaxVersionNumber-1)
	_, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(e.newVersion(u, 0)))
	wantRefused(t, err, 0, "versionNumber")
	e.put(t, e.newVersion(u, 1))
	e.wantNumbers(t, u, atrium.MaxVersionNumber, atrium.MaxVersionNumber-1, 1)
}

func numbersOfEachAudience(t *testing.T, e *env) {
	u := e.audience(t)
	sibling := e.newAudience(&atrium.Page{ID: u.PageID}, false)
	e.put(t, sibling, e.newVersion(sibling, 0), e.newVersion(u, 0), e.newVersion(sibling, 7), e.newVersion(u, 0), e.newVersion(sibling, 0))
	e.wantNumbers(t, u, 2, 1)
	e.wantNumbers(t, sibling, 8, 7, 1)
}
