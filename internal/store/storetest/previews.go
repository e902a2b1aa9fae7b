package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium"
)

var previews = []guarantee{
	{"a preview shows its version until it is revoked or expires", previewShown},
	{"a preview can only be created for a version that can be published", previewRefused},
	{"a page has a bounded number of previews, and expired ones are deleted", previewsBounded},
	{"previews are listed newest first, at any page size", previewsListed},
	{"a repeated request with an idempotency key creates one preview", previewMadeOnce},
	{"a preview of another page or tenant is NotFound", previewOfAnother},
}

func (e *env) newPreview(t tb, u atrium.Audience, number int64, life time.Duration) (atrium.Preview, error) {
	t.Helper()
	p := atrium.Preview{ID: atrium.NewID[atrium.PreviewID](), PageID: u.PageID, AudienceID: u.ID, Number: number, ExpiresAt: *e.in(life)}
	made, replayed, err := e.CreatePreview(t.Context(), e.change(), p, []byte("hash"))
	p.TenantID, p.CreatedAt = e.tenant, e.clock.instant()
	if err == nil && (replayed || made != p) {
		t.Errorf("made %+v, want %+v", made, p)
	}
	return made, err
}

func (e *env) createPreview(t tb, u atrium.Audience, number int64, life time.Duration) atrium.Preview {
	t.Helper()
	p, err := e.newPreview(t, u, number, life)
	if err != nil {
		t.Fatalf("create a preview: %v", err)
	}
	return p
}

// previewed returns the content that a preview shows, or the code of the error.
func (e *env) previewed(t tb, p atrium.Preview) string {
	t.Helper()
	found, hash, err := e.Preview(t.Context(), e.tenant, p.PageID, p.ID)
	if err != nil {
		return string(atrium.CodeOf(err))
	}
	if found != p || string(hash) != "hash" {
		t.Errorf("the preview is %+v with %q, want %+v", found, hash, p)
	}
	c, err := e.PreviewedContent(t.Context(), found)
	if err != nil {
		return string(atrium.CodeOf(err))
	}
	if len(c.Audiences) != 1 || c.PageID != p.PageID || c.Public || c.Audiences[0].AudienceID != p.AudienceID || c.Audiences[0].Number != p.Number {
		t.Errorf("the preview shows %+v", c)
	}
	return string(c.Audiences[0].Content)
}

func previewShown(t *testing.T, e *env) {
	draft := e.createPage(t)
	u := e.createAudience(t, draft.ID, "Visitors")
	e.createVersion(t, u, `1`)
	e.createVersion(t, u, `2`)
	e.publish(t, u, 1)
	first, second := e.createPreview(t, u, 1, time.Hour), e.createPreview(t, u, 2, 2*time.Hour)
	want := func(one, two string) {
		t.Helper()
		if gotOne, gotTwo := e.previewed(t, first), e.previewed(t, second); gotOne != one || gotTwo != two {
			t.Errorf("the previews show %s and %s, want %s and %s", gotOne, gotTwo, one, two)
		}
	}
	want("1", "2")
	e.transition(t, draft.ID, atrium.PagePublish)
	want("1", "2")
	e.transition(t, draft.ID, atrium.PageArchive)
	want("not_found", "not_found")
	e.transition(t, draft.ID, atrium.PageRestore)
	e.archiveAudience(t, u, true)
	want("not_found", "not_found")
	e.archiveAudience(t, u, false)
	if _, err := e.ArchiveVersion(t.Context(), e.change(), u.PageID, u.ID, 2, true, accept); err != nil {
		t.Fatal(err)
	}
	want("1", "not_found")
	if _, err := e.ArchiveVersion(t.Context(), e.change(), u.PageID, u.ID, 2, false, accept); err != nil {
		t.Fatal(err)
	}
	e.clock.step(time.Hour)
	want("not_found", "2")
	wantCode(t, e.RevokePreview(t.Context(), e.change(), first.PageID, first.ID, accept), atrium.CodeNotFound)
	refused := atrium.Errorf(atrium.CodePreconditionFailed, "no")
	wantCode(t, e.RevokePreview(t.Context(), e.change(), second.PageID, second.ID, func(p atrium.Preview) error {
		if p != second {
			t.Errorf("check was given %+v, want %+v", p, second)
		}
		return refused
	}), atrium.CodePreconditionFailed)
	want("not_found", "2")
	if err := e.RevokePreview(t.Context(), e.change(), second.PageID, second.ID, accept); err != nil {
		t.Error(err)
	}
	want("not_found", "not_found")
	e.wantAuditActions(t, string(second.ID), "preview.create", "preview.revoke")
	if detail := fmt.Sprint(e.auditRecords(t, string(second.ID))); strings.Contains(detail, "hash") || !strings.Contains(detail, "versionNumber:2") {
		t.Errorf("recorded %s", detail)
	}
}

func previewRefused(t *testing.T, e *env) {
	p := e.createPage(t)
	u := e.createAudience(t, p.ID, "Visitors")
	e.createVersion(t, u, `1`)
	wantConflict := func() {
		t.Helper()
		_, err := e.newPreview(t, u, 1, time.Hour)
		wantCode(t, err, atrium.CodeConflict)
	}
	_, err := e.newPreview(t, u, 2, time.Hour)
	wantCode(t, err, atrium.CodeNotFound)
	e.archiveAudience(t, u, true)
	wantConflict()
	e.archiveAudience(t, u, false)
	if _, err := e.ArchiveVersion(t.Context(), e.change(), u.PageID, u.ID, 1, true, accept); err != nil {
		t.Fatal(err)
	}
	wantConflict()
	if _, err := e.ArchiveVersion(t.Context(), e.change(), u.PageID, u.ID, 1, false, accept); err != nil {
		t.Fatal(err)
	}
	e.transition(t, p.ID, atrium.PageArchive)
	wantConflict()
	e.transition(t, p.ID, atrium.PageRestore)
	if err := e.DeletePage(t.Context(), e.change(), p.ID, accept); err != nil {
		t.Fatal(err)
	}
	wantConflict()
}

func (e *env) previews(t tb, page atrium.PageID, limit int) (ids []atrium.PreviewID) {
	t.Helper()
	var after *atrium.Position
	for {
		part, more, err := e.Previews(t.Context(), e.tenant, page, after, limit)
		if err != nil || len(part) > limit {
			t.Fatalf("%d of %d previews, %v", len(part), limit, err)
		}
		for _, p := range part {
			ids = append(ids, p.ID)
		}
		if !more {
			return ids
		}
		after = atrium.PositionAt(0, ids[len(ids)-1])
	}
}

func previewsBounded(t *testing.T, e *env) {
	p, u := e.publishedPage(t)
	for range atrium.MaxPreviews {
		e.createPreview(t, u, 1, time.Hour)
	}
	_, err := e.newPreview(t, u, 1, time.Hour)
	wantCode(t, err, atrium.CodeConflict)
	_, other := e.publishedPage(t)
	e.createPreview(t, other, 1, time.Hour)
	e.clock.step(time.Hour)
	e.createPreview(t, u, 1, time.Hour)
	e.clock.step(-time.Hour)
	if got := e.previews(t, p.ID, 100); len(got) != 1 {
		t.Errorf("%d previews are stored, want 1", len(got))
	}
}

func previewsListed(t *testing.T, e *env) {
	p, u := e.publishedPage(t)
	var want []atrium.PreviewID
	for n := range 5 {
		life := time.Hour
		if n == 2 {
			life = time.Minute
		}
		made := e.createPreview(t, u, 1, life)
		if n != 2 {
			want = slices.Insert(want, 0, made.ID)
		}
	}
	e.clock.step(time.Minute)
	for _, limit := range []int{1, 2, 100} {
		if got := e.previews(t, p.ID, limit); !slices.Equal(got, want) {
			t.Errorf("%d at a time: %v, want %v", limit, got, want)
		}
	}
	_, _, err := e.Previews(t.Context(), e.tenant, atrium.NewID[atrium.PageID](), nil, 10)
	wantCode(t, err, atrium.CodeNotFound)
}

func previewMadeOnce(t *testing.T, e *env) {
	p, u := e.publishedPage(t)
	var first atrium.Preview
	for n := range 2 {
		asked := atrium.Preview{ID: atrium.NewID[atrium.PreviewID](), PageID: p.ID, AudienceID: u.ID, Number: 1, ExpiresAt: *e.in(time.Hour)}
		made, replayed, err := e.CreatePreview(t.Context(), e.keyed("preview", "same"), asked, []byte("hash"))
		if n == 0 {
			first = made
		}
		if err != nil || replayed != (n == 1) || made != first {
			t.Errorf("request %d made %+v, replayed: %v, %v", n, made, replayed, err)
		}
	}
	if got := e.previews(t, p.ID, 10); len(got) != 1 {
		t.Errorf("%d previews were made", len(got))
	}
}

func previewOfAnother(t *testing.T, e *env) {
	_, u := e.publishedPage(t)
	mine, foreign := e.createPreview(t, u, 1, time.Hour), e.as(e.newTenant(t))
	otherPage, _ := e.publishedPage(t)
	for _, c := range []struct {
		env  *env
		page atrium.PageID
	}{{foreign, u.PageID}, {e, otherPage.ID}} {
		_, _, err := c.env.Preview(t.Context(), c.env.tenant, c.page, mine.ID)
		wantCode(t, err, atrium.CodeNotFound)
		wantCode(t, c.env.RevokePreview(t.Context(), c.env.change(), c.page, mine.ID, accept), atrium.CodeNotFound)
	}
	_, err := foreign.newPreview(t, u, 1, time.Hour)
	wantCode(t, err, atrium.CodeNotFound)
	if got := e.previewed(t, mine); got != `{"n":1}` {
		t.Errorf("the preview shows %s", got)
	}
}
