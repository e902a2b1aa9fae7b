package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/store"
)

var pageChanges = []guarantee{
	{"a page is stored and changed byte for byte as requested", pageAsMade},
	{"a failed precondition leaves a page unchanged", pageRefused},
	{"a page can only have a brand of its tenant", pageUnderBrand},
	{concurrent + "a brand cannot be deleted while a page is created with it", brandStaysForPage},
	{"a page allows exactly the transitions of its state", pageTransitions},
	{"a deleted page can only be undeleted", deletedPage},
	{"pages are filtered by status, brand and deletion, each once, at any page size", pagesFiltered},
	{"a filter without an index reads a bounded number of rows per page of the list", pagesSifted},
	{"a page of another tenant is NotFound", pageOfAnother},
	{"every change of a page has an audit row", pageAudited},
}

// pageDraft returns the content of a page with a new brand.
func (e *env) pageDraft(t tb) atrium.Page {
	t.Helper()
	return atrium.Page{
		BrandID: string(e.brand(t, "Hearth").ID), Name: "Spring", Context: "", Title: "A faster way",
		Actions: []byte(`[{"actionIndex":1.0}]`), Scripts: []byte("[]"), FooterLinks: []byte(`["\u003c"]`),
	}
}

func (e *env) createPage(t tb) atrium.ScheduledPage {
	t.Helper()
	p, _, err := e.CreatePage(t.Context(), e.change(), e.pageDraft(t))
	if err != nil {
		t.Fatalf("create a page: %v", err)
	}
	return p
}

func (e *env) wantPage(t tb, want atrium.ScheduledPage) {
	t.Helper()
	got, err := e.ScheduledPage(t.Context(), e.tenant, want.ID)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the page is %+v, %v, want %+v", got, err, want)
	}
}

// An auditRecord is a row of the audit log.
type auditRecord struct {
	actor, action string
	detail        map[string]any
}

// auditRecords returns the audit rows of a subject, the oldest first.
func (e *env) auditRecords(t tb, subject string) (acts []auditRecord) {
	t.Helper()
	for _, r := range slices.Backward(e.auditRows(t, atrium.AuditFilter{Subject: subject}, 100)) {
		a := auditRecord{actor: r.Actor, action: r.Action}
		if err := json.Unmarshal(r.Detail, &a.detail); err != nil {
			t.Errorf("the detail %s: %v", r.Detail, err)
		}
		acts = append(acts, a)
	}
	return acts
}

// wantAuditActions fails the test unless exactly these actions on a subject were recorded.
func (e *env) wantAuditActions(t tb, subject string, want ...string) {
	t.Helper()
	var got []string
	for _, a := range e.auditRecords(t, subject) {
		got = append(got, a.action)
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded %v, want %v", got, want)
	}
}

func pageAsMade(t *testing.T, e *env) {
	draft := e.pageDraft(t)
	draft.HeaderActionID = pointer("action_1")
	made, replayed, err := e.CreatePage(t.Context(), e.keyed("page", "same"), draft)
	want := atrium.ScheduledPage{Page: draft}
	want.ID, want.TenantID, want.Status = made.ID, e.tenant, atrium.PageDraft
	want.CreatedAt, want.UpdatedAt = e.clock.instant(), e.clock.instant()
	if err != nil || replayed || !reflect.DeepEqual(made, want) {
		t.Fatalf("made %+v, %v, want %+v", made, err, want)
	}
	e.wantPage(t, want)
	if again, replayed, err := e.CreatePage(t.Context(), e.keyed("page", "same"), draft); err != nil || !replayed || !reflect.DeepEqual(again, made) {
		t.Errorf("the same request made %+v, %v, %v", again, replayed, err)
	}

	e.clock.step(1e9)
	other := e.brand(t, "Other")
	changed, err := e.UpdatePage(t.Context(), e.change(), made.ID, atrium.PageEdit{
		BrandID: &other.ID, Name: pointer("n"), Context: pointer("c"), Title: pointer(""), Actions: []byte(`[{"actionIndex":1}]`),
		Scripts: []byte(`[1]`), FooterLinks: []byte(`["<"]`), HeaderActionID: pointer("action_2"), Metadata: []byte(`{"b":1e2,"a":false}`),
	}, accept)
	want.BrandID, want.Name, want.Context, want.Title, want.UpdatedAt = string(other.ID), "n", "c", "", e.clock.instant()
	want.Actions, want.Scripts, want.FooterLinks = []byte(`[{"actionIndex":1}]`), []byte(`[1]`), []byte(`["<"]`)
	want.HeaderActionID, want.Metadata = pointer("action_2"), []byte(`{"b":1e2,"a":false}`)
	if err != nil || !reflect.DeepEqual(changed, want) {
		t.Fatalf("changed to %+v, %v, want %+v", changed, err, want)
	}
	e.wantPage(t, want)

	e.clock.step(1e9)
	for _, same := range []atrium.PageEdit{{}, {Name: pointer("n"), Actions: want.Actions, Metadata: want.Metadata, HeaderActionID: pointer("action_2")}} {
		if got, err := e.UpdatePage(t.Context(), e.change(), made.ID, same, accept); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the same values changed it to %+v, %v", got, err)
		}
	}
	unset, err := e.UpdatePage(t.Context(), e.change(), made.ID, atrium.PageEdit{HeaderActionID: pointer(""), Metadata: []byte("null")}, accept)
	want.HeaderActionID, want.Metadata, want.UpdatedAt = nil, nil, e.clock.instant()
	if err != nil || !reflect.DeepEqual(unset, want) {
		t.Errorf("without them it is %+v, %v, want %+v", unset, err, want)
	}
	e.wantPage(t, want)
}

func pageRefused(t *testing.T, e *env) {
	made := e.createPage(t)
	no := atrium.Errorf(atrium.CodePreconditionFailed, "no")
	refuse := func(p atrium.ScheduledPage) error {
		if !reflect.DeepEqual(p, made) {
			t.Errorf("asked about %+v", p)
		}
		return no
	}
	for what, err := range e.everyChange(t, made.ID, refuse) {
		if !errors.Is(err, no) {
			t.Errorf("%s: %v", what, err)
		}
	}
	e.wantPage(t, made)
}

// everyChange calls every method that changes a page and returns the errors.
func (e *env) everyChange(t tb, id atrium.PageID, check func(atrium.ScheduledPage) error) map[string]error {
	t.Helper()
	ctx, c := t.Context(), e.change()
	errs := map[string]error{}
	_, errs["update"] = e.UpdatePage(ctx, c, id, atrium.PageEdit{Name: pointer("x")}, check)
	_, errs["schedule"] = e.SchedulePage(ctx, c, id, atrium.Schedule{PublishAt: pointer(e.clock.instant() + 1000)}, check)
	errs["unschedule"] = e.UnschedulePage(ctx, c, id, check)
	for _, transition := range []atrium.PageTransition{atrium.PagePublish, atrium.PageUnpublish, atrium.PageArchive, atrium.PageRestore} {
		_, errs[string(transition)] = e.TakePage(ctx, c, id, transition, check)
	}
	errs["delete"] = e.DeletePage(ctx, c, id, check)
	_, errs["undelete"] = e.UndeletePage(ctx, c, id, check)
	return errs
}

func pageUnderBrand(t *testing.T, e *env) {
	made, other := e.createPage(t), e.as(e.newTenant(t))
	for _, brand := range []atrium.BrandID{atrium.NewID[atrium.BrandID](), other.brand(t, "Theirs").ID} {
		draft := e.pageDraft(t)
		draft.BrandID = string(brand)
		_, _, err := e.CreatePage(t.Context(), e.change(), draft)
		wantFaultAt(t, err, "/brandId")
		_, err = e.UpdatePage(t.Context(), e.change(), made.ID, atrium.PageEdit{BrandID: &brand}, accept)
		wantFaultAt(t, err, "/brandId")
	}
	e.wantPage(t, made)
}

func wantFaultAt(t tb, err error, where ...string) {
	t.Helper()
	var got []string
	if refused, ok := err.(*atrium.Error); ok { //nolint:errorlint // returned without a wrapper
		for _, f := range refused.Faults {
			got = append(got, f.Where)
		}
	}
	if !slices.Equal(got, where) {
		t.Errorf("error %v, want faults at %v", err, where)
	}
}

func brandStaysForPage(t *testing.T, e *env) {
	other := e.node()
	for range 6 {
		draft := e.pageDraft(t)
		var made, deleted error
		parallel(t, 2, func(i int) {
			if i == 0 {
				_, _, made = e.CreatePage(t.Context(), e.change(), draft)
			} else {
				deleted = other.DeleteBrand(t.Context(), other.change(), atrium.BrandID(draft.BrandID), accept)
			}
		})
		if (made == nil) == (deleted == nil) {
			t.Fatalf("the page: %v, the deletion: %v", made, deleted)
		}
	}
}

func pageTransitions(t *testing.T, e *env) {
	all := []atrium.PageTransition{atrium.PagePublish, atrium.PageUnpublish, atrium.PageArchive, atrium.PageRestore}
	for from, steps := range map[atrium.PageStatus]map[atrium.PageTransition]atrium.PageStatus{
		atrium.PageDraft:     {atrium.PagePublish: atrium.PagePublished, atrium.PageArchive: atrium.PageArchived},
		atrium.PagePublished: {atrium.PageUnpublish: atrium.PageDraft, atrium.PageArchive: atrium.PageArchived},
		atrium.PageArchived:  {atrium.PageRestore: atrium.PageDraft},
	} {
		for _, step := range all {
			p := e.newPage(from)
			e.put(t, p)
			e.clock.step(1e9)
			want := atrium.ScheduledPage{Page: e.page(t, p.ID)}
			got, err := e.TakePage(t.Context(), e.change(), p.ID, step, accept)
			if to, ok := steps[step]; ok {
				want.Status, want.UpdatedAt = to, e.clock.instant()
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s of one in state %s: %+v, %v", step, from, got, err)
				}
			} else {
				wantCode(t, err, atrium.CodeConflict)
				for allowed := range steps {
					if err == nil || !strings.Contains(err.Error(), string(allowed)) {
						t.Errorf("%s of one in state %s does not name %s: %v", step, from, allowed, err)
					}
				}
			}
			e.wantPage(t, want)
		}
	}
}

func deletedPage(t *testing.T, e *env) {
	made := e.createPage(t)
	_, err := e.UndeletePage(t.Context(), e.change(), made.ID, accept)
	wantCode(t, err, atrium.CodeConflict)
	e.clock.step(1e9)
	if err := e.DeletePage(t.Context(), e.change(), made.ID, accept); err != nil {
		t.Fatal(err)
	}
	deleted := made
	deleted.DeletedAt, deleted.UpdatedAt = pointer(e.clock.instant()), e.clock.instant()
	e.wantPage(t, deleted)

	e.clock.step(1e9)
	for what, err := range e.everyChange(t, made.ID, func(p atrium.ScheduledPage) error {
		if p.DeletedAt == nil {
			return atrium.NotFound() // the page must stay deleted
		}
		return nil
	}) {
		switch what {
		case "delete", "unschedule", "undelete":
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		default:
			wantCode(t, err, atrium.CodeConflict)
		}
	}
	back := made
	back.UpdatedAt = e.clock.instant()
	e.wantPage(t, back)
	e.wantAuditActions(t, string(made.ID), "page.create", "page.delete", "page.undelete")
}

// filtered reads a filtered list to its end.
func (e *env) filtered(t tb, filter atrium.PageFilter, limit int) (ids []atrium.PageID, parts int) {
	t.Helper()
	var after *atrium.Position
	for {
		part, next, err := e.FilteredPages(t.Context(), e.tenant, filter, after, limit)
		if err != nil || len(part) > limit {
			t.Fatalf("%d of %d, %v", len(part), limit, err)
		}
		parts++
		for _, p := range part {
			if p.TenantID != e.tenant || p.Name == "" {
				t.Errorf("the list has %+v", p)
			}
			ids = append(ids, p.ID)
		}
		if next == nil {
			return ids, parts
		}
		after = next
	}
}

func pagesFiltered(t *testing.T, e *env) {
	brands := []atrium.BrandID{e.brand(t, "a").ID, e.brand(t, "b").ID}
	var all []*atrium.Page
	for i := range 36 {
		p := e.newPage(atrium.PageStatuses()[i%3])
		p.CreatedAt += atrium.Time(i/5) * 1000
		if i%4 < 2 {
			p.BrandID = string(brands[i%4])
		}
		if i%7 < 3 {
			p.DeletedAt = pointer(p.CreatedAt)
		}
		all = append(all, p)
		e.put(t, p)
	}
	slices.SortFunc(all, newestFirst)
	for _, status := range append(atrium.PageStatuses(), "") {
		for _, brand := range append(brands, "", atrium.NewID[atrium.BrandID]()) {
			for _, deleted := range []bool{false, true} {
				filter := atrium.PageFilter{Status: status, BrandID: brand, Deleted: deleted}
				var want []atrium.PageID
				for _, p := range all {
					if (status == "" || p.Status == status) && (brand == "" || p.BrandID == string(brand)) && (p.DeletedAt != nil) == deleted {
						want = append(want, p.ID)
					}
				}
				for _, limit := range []int{1, 3, 100} {
					if got, _ := e.filtered(t, filter, limit); !slices.Equal(got, want) {
						t.Errorf("%+v by %d: %v, want %v", filter, limit, got, want)
					}
				}
			}
		}
	}
}

func pagesSifted(t *testing.T, e *env) {
	const many = 2100
	brand := e.brand(t, "a").ID
	var records []store.Record
	for i := range many {
		p := e.newPage(atrium.PageDraft)
		p.BrandID, p.CreatedAt = string(brand), p.CreatedAt+atrium.Time(i)*1000
		if i == 0 {
			p.Status = atrium.PagePublished
		}
		records = append(records, p)
	}
	e.put(t, records...)
	filter := atrium.PageFilter{Status: atrium.PagePublished, BrandID: brand}
	if got, parts := e.filtered(t, filter, 20); len(got) != 1 || parts != 3 {
		t.Errorf("found %v in %d parts, want the oldest in the third", got, parts)
	}
}

func pageOfAnother(t *testing.T, e *env) {
	made, other := e.createPage(t), e.as(e.newTenant(t))
	for what, err := range other.everyChange(t, made.ID, accept) {
		if atrium.CodeOf(err) != atrium.CodeNotFound {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := other.ScheduledPage(t.Context(), other.tenant, made.ID); atrium.CodeOf(err) != atrium.CodeNotFound {
		t.Errorf("read: %v", err)
	}
	for _, filter := range []atrium.PageFilter{{}, {BrandID: atrium.BrandID(made.BrandID)}, {Deleted: true}} {
		if got, _ := other.filtered(t, filter, 10); len(got) > 0 {
			t.Errorf("%+v: %v", filter, got)
		}
	}
	e.wantPage(t, made)
}

func pageAudited(t *testing.T, e *env) {
	made := e.createPage(t)
	if _, err := e.UpdatePage(t.Context(), e.change(), made.ID, atrium.PageEdit{
		Title: pointer("New"), Actions: []byte(`["` + strings.Repeat("x", 5000) + `"]`),
	}, accept); err != nil {
		t.Fatal(err)
	}
	if _, err := e.TakePage(t.Context(), e.change(), made.ID, atrium.PagePublish, accept); err != nil {
		t.Fatal(err)
	}
	acts := e.auditRecords(t, string(made.ID))
	e.wantAuditActions(t, string(made.ID), "page.create", "page.update", "page.publish")
	after := acts[1].detail["after"].(map[string]any)
	if before := acts[1].detail["before"].(map[string]any); len(before) != 2 || before["title"] != "A faster way" || after["title"] != "New" {
		t.Errorf("the update is recorded as %v", acts[1].detail)
	}
	if long := fmt.Sprint(after["actions"]); !strings.Contains(long, "sha256") || len(long) > 200 {
		t.Errorf("a long member is recorded as %.300s", long)
	}
	if fmt.Sprint(acts[2].detail) != "map[after:map[status:published] before:map[status:draft]]" || acts[2].actor != "key_test" {
		t.Errorf("the transition is recorded as %+v", acts[2])
	}
}
