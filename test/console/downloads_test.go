package console

import (
	"encoding/csv"
	"net/http"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/transfer"
)

// A list as CSV has what its filters select, over all pages, and a spreadsheet evaluates none of it.
func TestListsAsCSVHaveWhatTheFiltersSelect(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		var more strings.Builder
		for range 250 {
			more.WriteString(`{"kind":"prospect","name":"=HYPERLINK(\"https://evil.example\")","email":"many@example.com"}` + "\n")
		}
		if _, err := transfer.Import(t.Context(), s.store, s.tenants[0], strings.NewReader(more.String()), transfer.Options{}); err != nil {
			t.Fatal(err)
		}
		cookie := s.signIn(atrium.RoleViewer)
		of := "/console/" + string(s.tenants[0])
		for path, want := range map[string]struct {
			rows int
			has  string
		}{
			"/accounts.csv": {2, "acme.example"}, "/accounts.csv?q=acme": {1, "acme.example"}, "/accounts.csv?q=nothing": {0, ""},
			"/activity.csv": {1, "deal"}, "/activity.csv?source=product": {0, ""},
			"/prospects.csv": {251, "Kim"}, "/prospects.csv?q=many": {250, "'=HYPERLINK"},
			"/prospects.csv?accountId=account_000000000000000000000000a1": {1, "Kim"},
			"/pages.csv": {1, "Spring"}, "/pages.csv?status=published": {0, ""},
			"/keys.csv": {0, ""}, "/people.csv": {1, "Robin"}, "/audit.csv?action=user.create": {1, "user.create"},
		} {
			a := s.ask(http.MethodGet, of+path, nil, cookie)
			h := a.Header
			if a.StatusCode != http.StatusOK || h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment; ") ||
				!strings.HasPrefix(h.Get("Content-Type"), "text/csv; charset=utf-8") || h.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %s %v", path, a.Status, h)
				continue
			}
			rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(a.body, "\uFEFF"))).ReadAll()
			if err != nil || len(rows) != 1+want.rows || !strings.Contains(a.body, want.has) {
				t.Errorf("%s: %d rows, want %d: %v", path, len(rows)-1, want.rows, err)
			}
			for _, row := range rows {
				for _, cell := range row {
					if strings.IndexAny(cell, "=+-@\t\r") == 0 {
						t.Errorf("%s: %q is evaluated", path, cell)
					}
				}
			}
		}
		page := s.ask(http.MethodGet, of+"/accounts?q=acme&order=name&cursor=&done=renamed", nil, cookie)
		if !strings.Contains(page.body, `href="`+of+`/accounts.csv?order=name&amp;q=acme"`) {
			t.Errorf("the page does not link the list with its filters: %s", page.body)
		}
		if a := s.ask(http.MethodGet, of+"/accounts.csv?order=nonsense", nil, cookie); a.StatusCode != http.StatusBadRequest || a.Header.Get("Content-Disposition") != "" {
			t.Errorf("a wrong filter: %s %v", a.Status, a.Header)
		}
	})
}
