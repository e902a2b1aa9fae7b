package console

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"atrium"
)

// hostile is a text that would end an attribute or an element, or begin one.
const hostile = `"'><script>alert(1)</script>&amp;{{.}}`

var tags = regexp.MustCompile(`<[^>]*>`)

// Rows that are not made by templates must escape texts as these do.
func TestHostileTextStaysTextInRows(t *testing.T) {
	e := entry{AccountLogID: hostile, AccountID: hostile, CreatedAt: hostile, Source: hostile, Type: hostile, Summary: hostile, MoveID: "move_1"}
	e.Claimed.Domain = hostile
	name := hostile
	f := frame{request: &request{tenant: "tenant_1"}}
	days := chart{Bars: []bar{{Day: hostile, Count: 1}}, Rows: []count{{hostile, hostile, hostile, 1}}}
	bars := stackedChart{Bars: []stackedBar{{Title: hostile, Total: 1, Counts: []int64{1}, Parts: []barPart{{Class: hostile}}}}, Activity: hostile}
	for name, shown := range map[string]string{
		"timeline": string(f.TimelineRows([]entry{e})),
		"activity": string(f.ActivityRows(activityPage{Entries: list[entry]{Items: []entry{e}}, Names: names{hostile: hostile}})),
		"accounts": string(f.NewestAccounts([]account{{AccountID: hostile, Name: &name, CreatedAt: hostile}})),
		"drawing":  string(days.Drawing()), "table": string(days.TableRows()),
		"stacked drawing": string(bars.Drawing()), "stacked table": string(bars.TableRows()),
	} {
		if !strings.Contains(shown, html.EscapeString(hostile)[:10]) || strings.Contains(shown, "<script") || strings.Contains(shown, `"'`) {
			t.Errorf("%s: %s", name, shown)
		}
		for _, tag := range tags.FindAllString(shown, -1) {
			if strings.Count(tag, `"`)%2 == 1 || strings.Contains(tag, "'") {
				t.Errorf("%s: an attribute is not closed: %s", name, tag)
			}
		}
	}
}

// The chart of an account whose entries are all in the timeline is made of these, and must be that of the API.
func TestAChartOfEntriesIsThatOfTheirCounts(t *testing.T) {
	now := time.Now()
	day := func(ago int) string { return now.UTC().AddDate(0, 0, -ago).Format(time.DateOnly) }
	var entries []entry
	for _, e := range []struct {
		ago          int
		source, kind string
	}{{0, "web", "b"}, {0, "crm", "a"}, {0, "web", "b"}, {2, "web", "b"}, {chartDays - 1, "crm", "a"}, {chartDays, "crm", "a"}} {
		entries = append(entries, entry{CreatedAt: day(e.ago) + "T00:00:00.000Z", Source: e.source, Type: e.kind})
	}
	// The API may split the counts of a day between two pages.
	counts := []count{{day(0), "crm", "a", 1}, {day(0), "web", "b", 1}, {day(0), "web", "b", 1}, {day(2), "web", "b", 1}, {day(chartDays - 1), "crm", "a", 1}}
	since := chartStart(now)
	got, want := chartOf(since, entries), newChart(since, counts)
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if len(got.Rows) != 4 || got.Total != 5 || got.Top != minTop || got.Rows[1] != (count{day(0), "web", "b", 2}) || got.Bars[chartDays-1].Count != 3 || got.Bars[0].Count != 1 {
		t.Errorf("%+v", got)
	}
}

// The links of the navigation are those of the tenant, and the current one is marked.
func TestTheNavigationMarksTheCurrentSection(t *testing.T) {
	as := func(role atrium.Role) frame {
		return frame{Section: "keys", request: &request{tenant: "tenant_1", user: atrium.User{Role: role}}, Tenant: tenant{TenantID: atrium.TenantID("tenant_1")}}
	}
	f := as(atrium.RoleAdmin)
	shown := string(f.Sections())
	for _, want := range []string{
		`<a href="/console/tenant_1" data-shortcut="o">Overview</a>`, `<a href="/console/tenant_1/keys" data-shortcut="k" aria-current="page">Keys</a>`,
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%s lacks %s", shown, want)
		}
	}
	if strings.Count(shown, "aria-current") != 1 || strings.Count(shown, "<li") != len(sections) || strings.Count(shown, `class="apart"`) != 2 || strings.Count(string(f.Shortcuts()), "<div>") != len(sections) {
		t.Error(shown)
	}
	f = as(atrium.RoleViewer)
	for _, shown := range []string{string(f.Sections()), string(f.Shortcuts())} {
		if strings.Contains(shown, "Receivers") || strings.Contains(shown, "Webhooks") {
			t.Errorf("a viewer sees %s", shown)
		}
	}
	if shown := string(f.Sections()); !strings.Contains(shown, `<li class="apart"><a href="/console/tenant_1/keys"`) || strings.Count(shown, `class="apart"`) != 2 {
		t.Errorf("the groups of a viewer: %s", shown)
	}
}
