package storetest

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"atrium"
)

var summaryTemplates = []guarantee{
	{"summary templates are put, listed by source and type, and deleted, each time with a record", summariesChanged},
	{"the same template changes nothing, and a failed check neither", summariesUnchanged},
	{concurrent + "a tenant has a limited number of summary templates, also with concurrent changes", summariesBounded},
	{"summary templates of another tenant are not read, changed or deleted", summariesOfOthers},
}

// anyTemplates is a check that always passes.
func anyTemplates(atrium.SummaryTemplates) error { return nil }

func (e *env) putSummary(t tb, source, entryType, template string) atrium.SummaryTemplates {
	t.Helper()
	all, err := e.PutSummaryTemplate(t.Context(), e.change(), atrium.SummaryTemplate{Source: source, Type: entryType, Template: template}, anyTemplates)
	if err != nil {
		t.Fatalf("put a summary template: %v", err)
	}
	return all
}

func (e *env) wantSummaries(t tb, want ...atrium.SummaryTemplate) {
	t.Helper()
	got, err := e.SummaryTemplates(t.Context(), e.tenant)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the templates are %q, %v, want %q", got, err, want)
	}
}

func summariesChanged(t *testing.T, e *env) {
	e.wantSummaries(t)
	emoji := strings.Repeat("\U0001f600", atrium.MaxSource)
	long := strings.Repeat("\U0001f600", atrium.MaxSummaryTemplate)
	want := []atrium.SummaryTemplate{
		{Source: "Web", Template: "A {/a}"}, {Source: "web", Template: "{/b}"}, {Source: "web", Type: "Form", Template: "c"},
		{Source: "web", Type: "form", Template: "d"}, {Source: "web ", Template: "e"}, {Source: emoji, Type: emoji, Template: long},
	}
	for _, i := range []int{3, 5, 0, 2, 4, 1} {
		all := e.putSummary(t, want[i].Source, want[i].Type, want[i].Template)
		if !slices.Contains(all, want[i]) {
			t.Errorf("after it is put, the templates lack %q", want[i])
		}
	}
	e.wantSummaries(t, want...)
	want[1].Template = "changed"
	if got := e.putSummary(t, "web", "", "changed"); !slices.Equal(got, want) {
		t.Errorf("after a change: %q, want %q", got, want)
	}
	e.wantSummaries(t, want...)
	if err := e.DeleteSummaryTemplate(t.Context(), e.change(), "web", "", anyTemplates); err != nil {
		t.Fatal(err)
	}
	wantCode(t, e.DeleteSummaryTemplate(t.Context(), e.change(), "web", "", anyTemplates), atrium.CodeNotFound)
	wantCode(t, e.DeleteSummaryTemplate(t.Context(), e.change(), "web", "FORM", anyTemplates), atrium.CodeNotFound)
	e.wantSummaries(t, slices.Delete(want, 1, 2)...)
	e.wantAuditActions(t, string(e.tenant), slices.Concat(slices.Repeat([]string{"summary_template.create"}, 6), []string{"summary_template.update", "summary_template.delete"})...)
	e.wantSound(t, nil)
}

func summariesUnchanged(t *testing.T, e *env) {
	e.putSummary(t, "web", "form", "a")
	kept := atrium.SummaryTemplate{Source: "web", Type: "form", Template: "a"}
	e.putSummary(t, "web", "form", "a")
	refuse := func(all atrium.SummaryTemplates) error {
		if !slices.Equal(all, []atrium.SummaryTemplate{kept}) {
			t.Errorf("check was given %q", all)
		}
		return atrium.Errorf(atrium.CodePreconditionFailed, "no")
	}
	_, err := e.PutSummaryTemplate(t.Context(), e.change(), atrium.SummaryTemplate{Source: "web", Type: "form", Template: "b"}, refuse)
	wantCode(t, err, atrium.CodePreconditionFailed)
	wantCode(t, e.DeleteSummaryTemplate(t.Context(), e.change(), "web", "form", refuse), atrium.CodePreconditionFailed)
	e.wantSummaries(t, kept)
	e.wantAuditActions(t, string(e.tenant), "summary_template.create")
}

func summariesBounded(t *testing.T, e *env) {
	template := strings.Repeat("x", atrium.MaxSummaryTemplate) // together more than a small change
	for i := range atrium.MaxSummaryTemplates - 1 {
		e.putSummary(t, "web", strconv.Itoa(i), template)
	}
	failed := make([]error, 4)
	parallel(t, 4, func(i int) {
		_, failed[i] = e.PutSummaryTemplate(t.Context(), e.change(), atrium.SummaryTemplate{Source: "last", Type: strconv.Itoa(i), Template: template}, anyTemplates)
	})
	full := 0
	for _, err := range failed {
		if err != nil {
			wantCode(t, err, atrium.CodeConflict)
			full++
		}
	}
	if full != 3 {
		t.Errorf("%d of 4 templates were refused above the maximum, want 3", full)
	}
	if all := e.putSummary(t, "web", "0", "changed"); len(all) != atrium.MaxSummaryTemplates {
		t.Errorf("%d templates, want %d", len(all), atrium.MaxSummaryTemplates)
	}
	e.as(e.newTenant(t)).putSummary(t, "web", "new", template)
}

func summariesOfOthers(t *testing.T, e *env) {
	them := e.as(e.newTenant(t))
	e.putSummary(t, "web", "", "own")
	them.wantSummaries(t)
	wantCode(t, them.DeleteSummaryTemplate(t.Context(), them.change(), "web", "", anyTemplates), atrium.CodeNotFound)
	them.putSummary(t, "web", "", "theirs")
	if err := them.DeleteSummaryTemplate(t.Context(), them.change(), "web", "", anyTemplates); err != nil {
		t.Fatal(err)
	}
	e.wantSummaries(t, atrium.SummaryTemplate{Source: "web", Template: "own"})
}
