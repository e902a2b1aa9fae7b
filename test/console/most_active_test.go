package console

import (
	"encoding/csv"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/canonical"
)

var countedRow = regexp.MustCompile(`class="number" data-label="Entries"><a href="([^"]*)">(\d+)</a>`)

// Each number leads to as many entries, also with hostile names and filters, and the file has the same accounts.
func TestTheMostActiveAccountsLeadToTheirEntries(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		const hostile = `"'><script>alert(1)</script>&amp;{{.}}+%41`
		record := func(n int, source string, claim atrium.Claim) {
			for range n {
				d, err := canonical.Draft(s.tenants[0], atrium.Submission{Source: source, Type: "=1+1", Payload: []byte(`{}`), Claim: claim})
				if err != nil {
					t.Fatal(err)
				}
				d.ID = atrium.NewID[atrium.EntryID]()
				if outcomes, err := s.store.Append(t.Context(), []*atrium.Draft{d}); err != nil || outcomes[0].Err != nil {
					t.Fatal(err, outcomes)
				}
			}
		}
		record(3, hostile, atrium.Claim{Domain: "not a host " + hostile, Name: hostile})
		record(2, hostile, atrium.Claim{Domain: "b.example", Name: "=HYPERLINK(1)"})
		record(2, "crm", atrium.Claim{Domain: "b.example"})
		record(9, hostile, atrium.Claim{})
		cookie, of := s.signIn(atrium.RoleViewer), "/console/"+string(s.tenants[0])
		ofHostile := "source=" + url.QueryEscape(hostile) + "&type=" + url.QueryEscape("=1+1")
		for query, want := range map[string][]string{
			"": {"4", "3"}, "range=30d&source=crm": {"2"}, "range=24h&" + ofHostile: {"3", "2"}, "range=7d&type=none": nil, "range=nonsense": {"4", "3"},
		} {
			page := s.ask(http.MethodGet, of+"/accounts/active?"+query, nil, cookie)
			if page.StatusCode != http.StatusOK || !strings.Contains(page.body, "</html>") || strings.Contains(page.body, "<script>alert") || strings.Contains(page.body, "Counted:") {
				t.Errorf("%q: %s %s", query, page.Status, page.body)
			}
			var counts []string
			for _, row := range countedRow.FindAllStringSubmatch(page.body, -1) {
				counts = append(counts, row[2])
				entries := s.ask(http.MethodGet, html.UnescapeString(row[1]), nil, cookie)
				if n := strings.Count(entries.body, `<tr data-id="`); strconv.Itoa(n) != row[2] {
					t.Errorf("%q: %s leads to %d entries, want %s", query, row[1], n, row[2])
				}
			}
			if strings.Join(counts, " ") != strings.Join(want, " ") {
				t.Errorf("%q: the accounts have %q entries, want %q", query, counts, want)
			}
			link := downloads.FindStringSubmatch(page.body)
			if link == nil {
				t.Fatalf("%q: no download: %s", query, page.body)
			}
			file := s.ask(http.MethodGet, html.UnescapeString(link[1]), nil, cookie)
			rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(file.body, "\uFEFF"))).ReadAll()
			if err != nil || len(rows) != 1+len(want) || strings.Join(rows[0], ",") != "accountId,domain,name,entries" {
				t.Fatalf("%q: the file has %q: %v", query, file.body, err)
			}
			for i, row := range rows[1:] {
				if row[3] != want[i] || strings.HasPrefix(row[2], "=") {
					t.Errorf("%q: row %d is %q, want %s entries", query, i, row, want[i])
				}
			}
		}
		page := s.ask(http.MethodGet, of+"/accounts/active?"+ofHostile, nil, cookie)
		unattributed := regexp.MustCompile(`<a href="([^"]*)">Entries without an account</a>`).FindStringSubmatch(page.body)
		if unattributed == nil || strings.Count(s.ask(http.MethodGet, html.UnescapeString(unattributed[1]), nil, cookie).body, `<tr data-id="`) != 9 {
			t.Errorf("the page does not lead to the 9 entries without an account: %s", page.body)
		}
		for _, from := range []string{of, of + "/accounts"} {
			if a := s.ask(http.MethodGet, from, nil, cookie); !strings.Contains(a.body, `href="`+of+`/accounts/active"`) {
				t.Errorf("%s does not lead to the page", from)
			}
		}
	})
}
