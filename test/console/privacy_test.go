package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/transfer"
)

// somebody is known by an entry and as a prospect.
const somebody = `{"kind":"prospect","prospectId":"prospect_000000000000000000000000a7","name":"Robin <Reyes>","email":"Robin@people.example","createdAt":"2026-03-02T09:00:00.000Z","updatedAt":"2026-03-02T09:00:00.000Z"}
{"kind":"accountLog","accountLogId":"prospectlog_000000000000000000000000a7","accountId":"account_000000000000000000000000a1","source":"forms","type":"signup","payload":{"email":"robin@people.example"},"createdAt":"2026-03-02T09:00:00.000Z"}
`

// One field finds everything with an address. Prospects are shown by what people know of them.
func TestAnAddressFindsEntriesAndProspects(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		if _, err := transfer.Import(t.Context(), s.store, s.tenants[0], strings.NewReader(somebody), transfer.Options{}); err != nil {
			t.Fatal(err)
		}
		cookie := s.signIn(atrium.RoleAdmin)
		path := "/console/" + string(s.tenants[0]) + "/privacy/person"
		search := func(form url.Values) string {
			t.Helper()
			a := s.ask(http.MethodPost, path, form, cookie)
			if a.StatusCode != http.StatusOK {
				t.Fatalf("%v: %s %s", form, a.Status, a.body)
			}
			return a.body
		}
		const entry, prospect, unknown = "/activity/prospectlog_000000000000000000000000a7", "/prospects/prospect_000000000000000000000000a7", "No entry and no prospect matches."
		for name, c := range map[string]struct {
			form       url.Values
			has, lacks []string
		}{
			"an address":           {url.Values{"text": {" ROBIN@people.example "}}, []string{"Found: 1 entry and 1 prospect", entry, prospect, "Robin &lt;Reyes&gt;", "Robin@people.example"}, nil},
			"a prospect's address": {url.Values{"prospectEmail": {"robin@people.example"}}, []string{"Found: 0 entries and 1 prospect", prospect}, []string{entry}},
			"another prospect's":   {url.Values{"text": {"robin@people.example"}, "prospectEmail": {"kim@people.example"}}, []string{"Found: 1 entry and 0 prospects", entry}, []string{prospect}},
			"no address":           {url.Values{"text": {"robin"}}, []string{unknown}, nil},
			"an unknown address":   {url.Values{"text": {"kim@people.example"}}, []string{unknown}, nil},
		} {
			body := search(c.form)
			for _, want := range c.has {
				if !strings.Contains(body, want) {
					t.Errorf("%s: the page lacks %q: %s", name, want, body)
				}
			}
			for _, other := range c.lacks {
				if strings.Contains(body, other) {
					t.Errorf("%s: the page has %q", name, other)
				}
			}
		}
		// What was shown is what is erased.
		if a := s.ask(http.MethodPost, path, url.Values{"text": {"robin@people.example"}, "confirm": {"erase"}}, cookie); a.StatusCode != http.StatusSeeOther {
			t.Fatalf("the erasure: %s %s", a.Status, a.body)
		}
		for range 100 {
			if _, err := s.store.RunErasures(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if body := search(url.Values{"text": {"robin@people.example"}}); !strings.Contains(body, unknown) {
			t.Errorf("after the erasure: %s", body)
		}
		a := s.ask(http.MethodGet, "/console/"+string(s.tenants[0])+entry, nil, cookie)
		if a.StatusCode != http.StatusNotFound || !strings.Contains(a.body, "The entry was deleted.") || !strings.Contains(a.body, "forms") || strings.Contains(strings.ToLower(a.body), "robin@people") {
			t.Errorf("the page of the erased entry: %s %s", a.Status, a.body)
		}
	})
}
