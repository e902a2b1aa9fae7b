package storetest

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	"atrium"
)

var audiences = []guarantee{
	{"an audience is stored and changed as requested", audienceAsMade},
	{"audiences are listed newest first, each once, filtered by archived", audiencesListed},
	{concurrent + "changes keep a page's audiencesCount exact", audiencesCountedTogether},
	{"audiences of a deleted page can be read but not changed", audiencesOfDeleted},
	{"an audience of another page or tenant is NotFound", audienceOfAnother},
}

func (e *env) createAudience(t tb, page atrium.PageID, name string) atrium.Audience {
	t.Helper()
	u, _, err := e.CreateAudience(t.Context(), e.change(), page, name)
	if err != nil {
		t.Fatalf("create an audience: %v", err)
	}
	return u
}

func (e *env) archiveAudience(t tb, u atrium.Audience, archived bool) atrium.Audience {
	t.Helper()
	u, err := e.ArchiveAudience(t.Context(), e.change(), u.PageID, u.ID, archived, accept)
	if err != nil {
		t.Fatalf("archive an audience: %v", err)
	}
	return u
}

func (e *env) wantAudience(t tb, want atrium.Audience) {
	t.Helper()
	if got, err := e.Audience(t.Context(), e.tenant, want.PageID, want.ID); err != nil || got != want {
		t.Errorf("the audience is %+v, %v, want %+v", got, err, want)
	}
}

func audienceAsMade(t *testing.T, e *env) {
	p := e.createPage(t)
	e.clock.step(1e9)
	u, _, err := e.CreateAudience(t.Context(), e.keyed("audience", "same"), p.ID, "Visitors")
	want := atrium.Audience{ID: u.ID, TenantID: e.tenant, PageID: p.ID, Name: "Visitors", CreatedAt: e.clock.instant(), UpdatedAt: e.clock.instant()}
	if err != nil || u != want {
		t.Fatalf("made %+v, %v, want %+v", u, err, want)
	}
	if again, replayed, err := e.CreateAudience(t.Context(), e.keyed("audience", "same"), p.ID, "Visitors"); err != nil || !replayed || again != want {
		t.Errorf("the same request made %+v, %v, %v", again, replayed, err)
	}
	p.AudiencesCount = 1
	e.wantPage(t, p) // not updated
	e.clock.step(1e9)
	want.Name, want.UpdatedAt = "Guests", e.clock.instant()
	for range 2 {
		if got, err := e.UpdateAudience(t.Context(), e.change(), p.ID, u.ID, pointer("Guests"), accept); err != nil || got != want {
			t.Errorf("changed to %+v, %v, want %+v", got, err, want)
		}
		e.clock.step(1e9)
	}
	for _, archived := range []bool{true, false} {
		e.clock.step(1e9)
		want.Archived, want.UpdatedAt = archived, e.clock.instant()
		if got := e.archiveAudience(t, u, archived); got != want {
			t.Errorf("archived %v: %+v, want %+v", archived, got, want)
		}
		_, err := e.ArchiveAudience(t.Context(), e.change(), p.ID, u.ID, archived, accept)
		wantCode(t, err, atrium.CodeConflict)
		e.wantAudience(t, want)
	}
	e.wantAuditActions(t, string(u.ID), "audience.create", "audience.update", "audience.archive", "audience.restore")

	no := atrium.Errorf(atrium.CodePreconditionFailed, "no")
	refuse := func(u atrium.Audience) error {
		if u != want {
			t.Errorf("check was given %+v", u)
		}
		return no
	}
	if _, err := e.UpdateAudience(t.Context(), e.change(), p.ID, u.ID, pointer("x"), refuse); !errors.Is(err, no) {
		t.Errorf("update: %v", err)
	}
	if _, err := e.ArchiveAudience(t.Context(), e.change(), p.ID, u.ID, true, refuse); !errors.Is(err, no) {
		t.Errorf("archive: %v", err)
	}
	e.wantAudience(t, want)
}

func audiencesListed(t *testing.T, e *env) {
	p, other := e.createPage(t), e.createPage(t)
	var all []atrium.Audience
	for i := range 9 {
		if i%2 == 0 { // two for each instant
			e.clock.step(1e6)
		}
		u := e.createAudience(t, p.ID, strconv.Itoa(i))
		if i%3 == 0 {
			u = e.archiveAudience(t, u, true)
		}
		all = append(all, u)
	}
	e.createAudience(t, other.ID, "theirs")
	slices.Reverse(all)
	for _, archived := range []*bool{nil, pointer(true), pointer(false)} {
		want := slices.DeleteFunc(slices.Clone(all), func(u atrium.Audience) bool { return archived != nil && u.Archived != *archived })
		for _, limit := range []int{1, 2, 9, 10} {
			var got []atrium.Audience
			var after *atrium.Position
			for {
				part, next, err := e.Audiences(t.Context(), e.tenant, p.ID, archived, after, limit)
				if err != nil || len(part) > limit {
					t.Fatalf("%d of %d, %v", len(part), limit, err)
				}
				got = append(got, part...)
				if after = next; next == nil {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d a page: %v, want %v", limit, got, want)
			}
		}
	}
}

func audiencesCountedTogether(t *testing.T, e *env) {
	p := e.createPage(t)
	e.onTwoNodes(t, func(e *env, i int) {
		u := e.createAudience(t, p.ID, strconv.Itoa(i))
		e.archiveAudience(t, u, true)
		if i%3 == 0 {
			e.archiveAudience(t, u, false)
		}
	})
	if got, want := e.page(t, p.ID).AudiencesCount, int64((2*writers+2)/3); got != want {
		t.Errorf("the page counts %d audiences, want %d", got, want)
	}
}

func audiencesOfDeleted(t *testing.T, e *env) {
	p := e.createPage(t)
	u := e.createAudience(t, p.ID, "Visitors")
	if err := e.DeletePage(t.Context(), e.change(), p.ID, accept); err != nil {
		t.Fatal(err)
	}
	_, _, err := e.CreateAudience(t.Context(), e.change(), p.ID, "x")
	wantCode(t, err, atrium.CodeConflict)
	_, err = e.UpdateAudience(t.Context(), e.change(), p.ID, u.ID, pointer("x"), accept)
	wantCode(t, err, atrium.CodeConflict)
	_, err = e.ArchiveAudience(t.Context(), e.change(), p.ID, u.ID, true, accept)
	wantCode(t, err, atrium.CodeConflict)
	e.wantAudience(t, u)
	if list, _, err := e.Audiences(t.Context(), e.tenant, p.ID, nil, nil, 10); err != nil || len(list) != 1 {
		t.Errorf("the list is %v, %v", list, err)
	}
}

func audienceOfAnother(t *testing.T, e *env) {
	p, sibling := e.createPage(t), e.createPage(t)
	u := e.createAudience(t, p.ID, "Visitors")
	for _, from := range []struct {
		*env
		page atrium.PageID
	}{{e, sibling.ID}, {e, atrium.NewID[atrium.PageID]()}, {e.as(e.newTenant(t)), p.ID}} {
		_, err := from.Audience(t.Context(), from.tenant, from.page, u.ID)
		wantCode(t, err, atrium.CodeNotFound)
		_, err = from.UpdateAudience(t.Context(), from.change(), from.page, u.ID, pointer("x"), accept)
		wantCode(t, err, atrium.CodeNotFound)
		_, err = from.ArchiveAudience(t.Context(), from.change(), from.page, u.ID, true, accept)
		wantCode(t, err, atrium.CodeNotFound)
		if from.page == sibling.ID {
			continue
		}
		_, _, err = from.Audiences(t.Context(), from.tenant, from.page, nil, nil, 10)
		wantCode(t, err, atrium.CodeNotFound)
		_, _, err = from.CreateAudience(t.Context(), from.change(), from.page, "x")
		wantCode(t, err, atrium.CodeNotFound)
	}
	e.wantAudience(t, u)
}
