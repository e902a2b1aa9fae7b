package console

import (
	"encoding/csv"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/transfer"
)

// More entries than a page has, of two days and two accounts.
func activityLines() string {
	var b strings.Builder
	for i := range 60 {
		day := "2026-03-0" + string(rune('3'+i%2))
		b.WriteString(`{"kind":"accountLog","accountId":"account_000000000000000000000000a` + string(rune('1'+i%2)) + `","source":"crm","type":"deal","payload":{"stage":"<won>"},"createdAt":"` + day + `T10:00:00.000Z"}` + "\n")
	}
	return b.String()
}

var (
	nextPage  = regexp.MustCompile(`<a href="([^"]*)" rel="next">`)
	downloads = regexp.MustCompile(`<a href="([^"]*)" download>`)
)

// The form has every filter of the address, also those that only links set, and other pages and the download keep them.
func TestTheFormOfActivityHasEveryFilter(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		if _, err := transfer.Import(t.Context(), s.store, s.tenants[0], strings.NewReader(activityLines()+strings.ReplaceAll(activityLines(), "T10:", "T11:")), transfer.Options{}); err != nil {
			t.Fatal(err)
		}
		cookie, of := s.signIn(atrium.RoleViewer), "/console/"+string(s.tenants[0])
		show := func(address string) answer {
			t.Helper()
			a := s.ask(http.MethodGet, address, nil, cookie)
			if a.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s %s", address, a.Status, a.body)
			}
			return a
		}
		rows := func(a answer) int { return strings.Count(a.body, `<tr data-id=`) }
		filters := url.Values{"account": {"Acme"}, "since": {"2026-03-03T00:00:00Z"}, "until": {"2026-03-04T00:00"}, "source": {"crm"}}
		first := show(of + "/activity?" + filters.Encode())
		for _, want := range []string{`name="account" value="Acme"`, `name="since" data-utc value="2026-03-03T00:00"`, `name="until" data-utc value="2026-03-04T00:00"`, `name="source" value="crm"`} {
			if !strings.Contains(first.body, want) {
				t.Errorf("the form lacks %s", want)
			}
		}
		link := nextPage.FindStringSubmatch(first.body)
		if rows(first) != 50 || link == nil {
			t.Fatalf("%d rows, next %q", rows(first), link)
		}
		if second := show(html.UnescapeString(link[1])); rows(second) != 10 || !strings.Contains(second.body, `name="account" value="Acme"`) || !strings.Contains(second.body, `value="2026-03-04T00:00"`) {
			t.Errorf("the second page has %d rows", rows(second))
		}
		download := downloads.FindStringSubmatch(first.body)
		if download == nil {
			t.Fatal("no download")
		}
		file, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(show(html.UnescapeString(download[1])).body, "\uFEFF"))).ReadAll()
		if err != nil || len(file) != 61 {
			t.Fatalf("the file has %d rows, %v", len(file), err)
		}
		name, domain := slices.Index(file[0], "accountName"), slices.Index(file[0], "accountDomain")
		summary := slices.Index(file[0], "summary")
		if summary < 0 || file[1][summary] == "" || !strings.Contains(first.body, `<small class="quiet">`+html.EscapeString(file[1][summary])+`</small>`) {
			t.Errorf("the file lacks the summaries of the list: %q", file[:2])
		}
		if name < 0 || domain < 0 || file[1][name] != "Acme" || file[1][domain] != "acme.example" {
			t.Errorf("the file begins with %q", file[:2])
		}
		// An account without a name, and links by identifier.
		byID := show(of + "/activity?accountId=account_000000000000000000000000a2&until=2026-03-04T10:30:00Z")
		if rows(byID) != 30 || !strings.Contains(byID.body, `name="account" value="beta.example"`) {
			t.Errorf("by identifier: %d rows", rows(byID))
		}
		if a := show(of + "/activity?account=nobody.example"); rows(a) != 0 || !strings.Contains(a.body, "No account has the domain or name nobody.example.") || !strings.Contains(a.body, `value="nobody.example"`) {
			t.Errorf("an unknown account: %s", a.body)
		}
		if a := s.ask(http.MethodGet, of+"/activity.csv?account=nobody.example", nil, cookie); a.StatusCode != http.StatusNotFound {
			t.Errorf("a download of an unknown account: %s", a.Status)
		}
	})
}
