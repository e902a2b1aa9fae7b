package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/store"
)

var pageSizesBounded = []guarantee{
	{"a change that reads or writes much is admitted as a large change", largeChanges},
	{"a page can grow up to its maximum size, and a larger one can only shrink", pageSizes},
}

func largeChanges(t *testing.T, e *env) {
	var admitted admissions
	c := admitted.of(e.change())
	want := func(what string, large bool, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		admitted.want(t, what, large)
	}
	unchecked := func(atrium.ScheduledPage) error { return nil }
	draft := e.pageDraft(t)
	small, _, err := e.CreatePage(t.Context(), c, draft)
	want("make a small page", false, err)
	_, err = e.TakePage(t.Context(), c, small.ID, atrium.PagePublish, unchecked)
	want("publish a small page", false, err)

	draft.Context = strings.Repeat("x", 20<<10)
	made := c
	made.IdempotencyKey, made.Fingerprint = "large", []byte("same")
	large, _, err := e.CreatePage(t.Context(), made, draft)
	want("make a large page", true, err)
	e.wantPage(t, large)
	_, replayed, err := e.CreatePage(t.Context(), made, draft)
	want("replay that", true, err)
	if !replayed {
		t.Error("the same request made another page")
	}
	_, err = e.TakePage(t.Context(), c, large.ID, atrium.PagePublish, unchecked)
	want("publish a large page", true, err)
	_, err = e.UpdatePage(t.Context(), c, small.ID, atrium.PageEdit{Context: &draft.Context}, unchecked)
	want("make a small page large", true, err)
	u, _, err := e.CreateAudience(t.Context(), c, large.ID, "all")
	want("make an audience of a large page", true, err)
	_, err = e.UpdatePage(t.Context(), c, large.ID, atrium.PageEdit{Context: new(string)}, unchecked)
	want("make a large page small", true, err)

	v, _, err := e.CreateVersion(t.Context(), c, large.ID, u.ID, []byte(`"`+draft.Context+`"`), "")
	want("make a large version", true, err)
	_, err = e.ArchiveVersion(t.Context(), c, large.ID, u.ID, v.Number, true, func(atrium.PublishedVersion) error { return nil })
	want("archive a large version", true, err)

	none := errors.New("not admitted")
	c.Admit = func(context.Context, bool) (func(), error) { return nil, none }
	if err := e.DeletePage(t.Context(), c, large.ID, unchecked); !errors.Is(err, none) {
		t.Errorf("a change that is not admitted: %v", err)
	}
	if p, err := e.ScheduledPage(t.Context(), e.tenant, large.ID); err != nil || p.DeletedAt != nil {
		t.Errorf("it was made: %v", err)
	}
	// A change that waits to be admitted as large holds nothing.
	if _, err := e.UpdatePage(t.Context(), e.change(), large.ID, atrium.PageEdit{Context: &draft.Context}, unchecked); err != nil {
		t.Fatal(err)
	}
	c.Admit = func(_ context.Context, large bool) (func(), error) {
		if large {
			return nil, none
		}
		return func() {}, nil
	}
	if p, err := e.TakePage(t.Context(), c, large.ID, atrium.PageUnpublish, unchecked); !errors.Is(err, none) || p.ID != "" {
		t.Errorf("a change that is not admitted as large returns %.100v, %v", p, err)
	}
}

func pageSizes(t *testing.T, e *env) {
	wantTooLarge := func(what string, err error) {
		t.Helper()
		if atrium.CodeOf(err) != atrium.CodeInvalidRequest {
			t.Errorf("%s: %v", what, err)
		}
	}
	update := func(p *atrium.ScheduledPage, context string) error {
		changed, err := e.UpdatePage(t.Context(), e.change(), p.ID, atrium.PageEdit{Context: &context}, func(atrium.ScheduledPage) error { return nil })
		if err == nil {
			*p = changed
		}
		return err
	}
	draft := e.pageDraft(t)
	room := atrium.MaxPageSize - draft.Size()
	draft.Context = strings.Repeat("x", room+1)
	_, _, err := e.CreatePage(t.Context(), e.change(), draft)
	wantTooLarge("make a page above the maximum", err)

	p := e.createPage(t)
	if err := update(&p, strings.Repeat("x", room)); err != nil {
		t.Errorf("grow to the maximum: %v", err)
	}
	wantTooLarge("grow above it", update(&p, strings.Repeat("x", room+1)))
	wantTooLarge("grow above it by what JSON escapes", update(&p, strings.Repeat("\x01", room/6+1)))
	e.wantPage(t, p)

	large := p.Page
	large.ID, large.Context = atrium.NewID[atrium.PageID](), strings.Repeat("x", room+100)
	if _, err := e.Import(t.Context(), e.change(), []store.Import{{Record: &large}}); err != nil {
		t.Fatal(err)
	}
	p, err = e.ScheduledPage(t.Context(), e.tenant, large.ID)
	if err != nil || p.Size() <= atrium.MaxPageSize {
		t.Fatalf("read the imported page: %v", err)
	}
	wantTooLarge("grow from above", update(&p, large.Context+"x"))
	if err := update(&p, large.Context[1:]); err != nil {
		t.Errorf("shrink: %v", err)
	}
	e.wantPage(t, p)
}
