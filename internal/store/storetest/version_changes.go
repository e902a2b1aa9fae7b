package storetest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/store"
)

var versionChanges = []guarantee{
	{"a version is stored byte for byte and immutable", versionAsMade},
	{concurrent + "versions have consecutive numbers without duplicates", versionNumbersTogether},
	{"an audience has one published version, which can be an earlier one", versionPublished},
	{"an archived version cannot be published, and a published one cannot be archived", versionArchived},
	{concurrent + "of a concurrent publication and archival of a version, one is refused", versionRaced},
	{"deleted pages and archived audiences and versions can be read and get no new versions", versionsOfArchived},
	{"only the newest versions and the published one are kept", versionsKept},
	{"the number of a deleted version is not reused", numberNeverAgain},
	{"the audit log has the hash of a content but not the content", versionAudited},
	{"a version of another audience is NotFound", versionOfAnother},
}

func (e *env) createVersion(t tb, u atrium.Audience, content string) atrium.PublishedVersion {
	t.Helper()
	v, _, err := e.CreateVersion(t.Context(), e.change(), u.PageID, u.ID, []byte(content), "")
	if err != nil {
		t.Fatalf("create a version: %v", err)
	}
	return v
}

func (e *env) publish(t tb, u atrium.Audience, number int64) {
	t.Helper()
	if v, err := e.PublishVersion(t.Context(), e.change(), u.PageID, u.ID, number, accept); err != nil || !v.Published || v.Number != number {
		t.Fatalf("publish %d: %+v, %v", number, v, err)
	}
}

// history returns the numbers of the versions of an audience in the order of the list, read limit
// at a time, and the number of the published one.
func (e *env) history(t tb, u atrium.Audience, limit int) (numbers []int64, published int64) {
	t.Helper()
	before := int64(0)
	for {
		part, more, err := e.VersionHistory(t.Context(), e.tenant, u.PageID, u.ID, before, limit)
		if err != nil || len(part) > limit || more && len(part) < limit {
			t.Fatalf("%d of %d, %v", len(part), limit, err)
		}
		for _, v := range part {
			if v.Content != nil || v.AudienceID != u.ID {
				t.Errorf("the list has %+v", v)
			}
			if v.Published {
				published = v.Number
			}
			numbers = append(numbers, v.Number)
			before = v.Number
		}
		if !more {
			return numbers, published
		}
	}
}

func (e *env) wantHistory(t tb, u atrium.Audience, published int64, want ...int64) {
	t.Helper()
	for _, limit := range []int{2, 100} {
		if got, is := e.history(t, u, limit); !slices.Equal(got, want) || is != published {
			t.Errorf("versions %v with %d published, want %v with %d", got, is, want, published)
		}
	}
	now, err := e.Audience(t.Context(), e.tenant, u.PageID, u.ID)
	if err != nil || now.PublishedNumber != published || now.VersionsCount != int64(len(want)) {
		t.Errorf("the audience is %+v, %v", now, err)
	}
	e.wantNumbers(t, &u, want...) // in the list of the external API
}

func versionAsMade(t *testing.T, e *env) {
	u := e.createAudience(t, e.createPage(t).ID, "Visitors")
	const content = `{"b":[1.0,9007199254740993],"a":"\u00e9"}`
	made, _, err := e.CreateVersion(t.Context(), e.keyed("version", "same"), u.PageID, u.ID, []byte(content), "First")
	want := atrium.PublishedVersion{Version: atrium.Version{
		ID: made.ID, TenantID: e.tenant, AudienceID: u.ID, Number: 1, Note: "First", CreatedAt: e.clock.instant(),
	}}
	if err != nil || fmt.Sprint(made) != fmt.Sprint(want) {
		t.Fatalf("made %+v, %v, want %+v", made, err, want)
	}
	if again, replayed, err := e.CreateVersion(t.Context(), e.keyed("version", "same"), u.PageID, u.ID, []byte(content), "First"); err != nil || !replayed || fmt.Sprint(again) != fmt.Sprint(want) {
		t.Errorf("the same request made %+v, %v, %v", again, replayed, err)
	}
	e.createVersion(t, u, `null`)
	want.Content = []byte(content)
	got, err := e.Version(t.Context(), e.tenant, u.PageID, u.ID, 1)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("read %+v, %v, want %+v", got, err, want)
	}
	if got, err := e.Version(t.Context(), e.tenant, u.PageID, u.ID, 2); err != nil || string(got.Content) != "null" || got.Note != "" {
		t.Errorf("read %+v, %v", got, err)
	}
	_, err = e.Version(t.Context(), e.tenant, u.PageID, u.ID, 3)
	wantCode(t, err, atrium.CodeNotFound)
	e.wantHistory(t, u, 0, 2, 1)
	u.VersionsCount = 2
	e.wantAudience(t, u) // not updated
}

func versionNumbersTogether(t *testing.T, e *env) {
	u := e.createAudience(t, e.createPage(t).ID, "Visitors")
	e.onTwoNodes(t, func(e *env, i int) {
		for range 3 {
			e.createVersion(t, u, strconv.Itoa(i))
		}
	})
	var want []int64
	for n := int64(6 * writers); n > 0; n-- {
		want = append(want, n)
	}
	e.wantHistory(t, u, 0, want...)
}

func versionPublished(t *testing.T, e *env) {
	u := e.createAudience(t, e.createPage(t).ID, "Visitors")
	first := e.createVersion(t, u, `1`)
	e.createVersion(t, u, `2`)
	for _, number := range []int64{1, 2, 1, 1} {
		e.clock.step(1e9)
		e.publish(t, u, number)
		e.wantHistory(t, u, number, 2, 1)
	}
	u.UpdatedAt, u.PublishedNumber, u.VersionsCount = e.clock.instant()-1e6, 1, 2 // the last call changed nothing
	e.wantAudience(t, u)
	e.wantAuditActions(t, string(first.ID), "version.create", "version.publish", "version.publish")
}

func versionArchived(t *testing.T, e *env) {
	u := e.createAudience(t, e.createPage(t).ID, "Visitors")
	v := e.createVersion(t, u, `1`)
	e.createVersion(t, u, `2`)
	archive := func(archived bool) error {
		got, err := e.ArchiveVersion(t.Context(), e.change(), u.PageID, u.ID, 1, archived, accept)
		if err == nil && got.Archived != archived {
			t.Errorf("it is %+v", got)
		}
		return err
	}
	wantCode(t, archive(false), atrium.CodeConflict)
	if err := archive(true); err != nil {
		t.Fatal(err)
	}
	wantCode(t, archive(true), atrium.CodeConflict)
	_, err := e.PublishVersion(t.Context(), e.change(), u.PageID, u.ID, 1, accept)
	wantCode(t, err, atrium.CodeConflict)
	if got, err := e.Version(t.Context(), e.tenant, u.PageID, u.ID, 1); err != nil || !got.Archived || string(got.Content) != "1" {
		t.Errorf("it is %+v, %v", got, err)
	}
	if err := archive(false); err != nil {
		t.Fatal(err)
	}
	e.publish(t, u, 1)
	wantCode(t, archive(true), atrium.CodeConflict)
	e.wantHistory(t, u, 1, 2, 1)
	e.wantAuditActions(t, string(v.ID), "version.create", "version.archive", "version.restore", "version.publish")

	no := atrium.Errorf(atrium.CodePreconditionFailed, "no")
	refuse := func(atrium.PublishedVersion) error { return no }
	if _, err := e.PublishVersion(t.Context(), e.change(), u.PageID, u.ID, 2, refuse); !errors.Is(err, no) {
		t.Errorf("publish: %v", err)
	}
	if _, err := e.ArchiveVersion(t.Context(), e.change(), u.PageID, u.ID, 2, true, refuse); !errors.Is(err, no) {
		t.Errorf("archive: %v", err)
	}
	e.wantHistory(t, u, 1, 2, 1)
}

func versionRaced(t *testing.T, e *env) {
	u, other := e.createAudience(t, e.createPage(t).ID, "Visitors"), e.node()
	for range 6 {
		v := e.createVersion(t, u, `1`)
		var published, archived error
		parallel(t, 2, func(i int) {
			if i == 0 {
				_, published = e.PublishVersion(t.Context(), e.change(), u.PageID, u.ID, v.Number, accept)
			} else {
				_, archived = other.ArchiveVersion(t.Context(), other.change(), u.PageID, u.ID, v.Number, true, accept)
			}
		})
		if (published == nil) == (archived == nil) {
			t.Fatalf("publish: %v, archive: %v", published, archived)
		}
		if got, err := e.Version(t.Context(), e.tenant, u.PageID, u.ID, v.Number); err != nil || got.Published == got.Archived {
			t.Errorf("it is %+v, %v", got, err)
		}
	}
}

func versionsOfArchived(t *testing.T, e *env) {
	p := e.createPage(t)
	u := e.createAudience(t, p.ID, "Visitors")
	e.createVersion(t, u, `1`)
	refused := func() {
		t.Helper()
		_, _, err := e.CreateVersion(t.Context(), e.change(), p.ID, u.ID, []byte(`2`), "")
		wantCode(t, err, atrium.CodeConflict)
		_, err = e.PublishVersion(t.Context(), e.change(), p.ID, u.ID, 1, accept)
		wantCode(t, err, atrium.CodeConflict)
		if got, err := e.Version(t.Context(), e.tenant, p.ID, u.ID, 1); err != nil || string(got.Content) != "1" {
			t.Errorf("read %+v, %v", got, err)
		}
		e.wantHistory(t, u, 0, 1)
	}
	e.archiveAudience(t, u, true)
	refused()
	e.archiveAudience(t, u, false)
	if err := e.DeletePage(t.Context(), e.change(), p.ID, accept); err != nil {
		t.Fatal(err)
	}
	refused()
	_, err := e.ArchiveVersion(t.Context(), e.change(), p.ID, u.ID, 1, true, accept)
	wantCode(t, err, atrium.CodeConflict)
}

// keeping returns the env with a store that keeps n versions.
func (e *env) keeping(n int) *env {
	other := *e
	other.Store = store.New(e.db, e.clock.now)
	other.KeepVersions = n
	return &other
}

func versionsKept(t *testing.T, e *env) {
	u := e.createAudience(t, e.createPage(t).ID, "Visitors")
	for i := range 4 {
		e.createVersion(t, u, strconv.Itoa(i))
	}
	e.publish(t, u, 2)
	e = e.keeping(2)
	e.createVersion(t, u, `5`)
	e.wantHistory(t, u, 2, 5, 4, 2)
	e.createVersion(t, u, `6`)
	e.wantHistory(t, u, 2, 6, 5, 2)
	e.publish(t, u, 6)
	e.createVersion(t, u, `7`)
	e.wantHistory(t, u, 6, 7, 6)
	e = e.keeping(1)
	e.createVersion(t, u, `8`)
	e.wantHistory(t, u, 6, 8, 6)
	var retired []any
	for _, a := range e.auditRecords(t, string(u.ID)) {
		if a.action == "version.retire" {
			retired = append(retired, a.detail["versionNumbers"])
		}
	}
	if got := fmt.Sprint(retired); got != "[[1 3] [4] [2 5] [7]]" {
		t.Errorf("recorded %s", got)
	}

	var records []store.Record
	for range 250 {
		records = append(records, e.newVersion(&u, 0))
	}
	e.put(t, records...)
	for _, left := range []int64{154, 56, 2, 2} { // each call deletes at most 100
		e.createVersion(t, u, `x`)
		if now, err := e.Audience(t.Context(), e.tenant, u.PageID, u.ID); err != nil || now.VersionsCount != left {
			t.Errorf("%d versions are left, %v, want %d", now.VersionsCount, err, left)
		}
	}
	e.wantHistory(t, u, 6, 262, 6)
}

func numberNeverAgain(t *testing.T, e *env) {
	e = e.keeping(1)
	u := e.createAudience(t, e.createPage(t).ID, "Visitors")
	for want := int64(1); want < 5; want++ {
		if v := e.createVersion(t, u, `1`); v.Number != want {
			t.Errorf("made number %d, want %d", v.Number, want)
		}
	}
	e.put(t, e.newVersion(&u, atrium.MaxVersionNumber))
	_, _, err := e.CreateVersion(t.Context(), e.change(), u.PageID, u.ID, []byte(`1`), "")
	wantCode(t, err, atrium.CodeConflict)
}

func versionAudited(t *testing.T, e *env) {
	u := e.createAudience(t, e.createPage(t).ID, "Visitors")
	const content = `{"secret":"of the launch"}`
	v := e.createVersion(t, u, content)
	e.publish(t, u, 1)
	sum := sha256.Sum256([]byte(content))
	acts := e.auditRecords(t, string(v.ID))
	e.wantAuditActions(t, string(v.ID), "version.create", "version.publish")
	for _, a := range acts {
		after := a.detail["after"].(map[string]any)
		if after["versionNumber"] != 1.0 || after["sha256"] != hex.EncodeToString(sum[:]) || after["audienceId"] != string(u.ID) {
			t.Errorf("%s is recorded as %v", a.action, a.detail)
		}
		if strings.Contains(fmt.Sprint(a.detail), "launch") {
			t.Errorf("%s is recorded with the content", a.action)
		}
	}
}

func versionOfAnother(t *testing.T, e *env) {
	p := e.createPage(t)
	u, sibling := e.createAudience(t, p.ID, "a"), e.createAudience(t, p.ID, "b")
	e.createVersion(t, u, `1`)
	for _, from := range []struct {
		*env
		page     atrium.PageID
		audience atrium.AudienceID
	}{
		{e, p.ID, sibling.ID}, {e, e.createPage(t).ID, u.ID}, {e, p.ID, atrium.NewID[atrium.AudienceID]()}, {e.as(e.newTenant(t)), p.ID, u.ID},
	} {
		_, err := from.Version(t.Context(), from.tenant, from.page, from.audience, 1)
		wantCode(t, err, atrium.CodeNotFound)
		_, err = from.PublishVersion(t.Context(), from.change(), from.page, from.audience, 1, accept)
		wantCode(t, err, atrium.CodeNotFound)
		_, err = from.ArchiveVersion(t.Context(), from.change(), from.page, from.audience, 1, true, accept)
		wantCode(t, err, atrium.CodeNotFound)
		if from.audience == sibling.ID {
			continue
		}
		_, _, err = from.VersionHistory(t.Context(), from.tenant, from.page, from.audience, 0, 10)
		wantCode(t, err, atrium.CodeNotFound)
		_, _, err = from.CreateVersion(t.Context(), from.change(), from.page, from.audience, []byte(`1`), "")
		wantCode(t, err, atrium.CodeNotFound)
	}
	e.wantHistory(t, u, 0, 1)
}
