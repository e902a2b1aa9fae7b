package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

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

// The download has what the search has found, and is recorded like an export over the API.
func TestTheDataOfAPersonIsDownloaded(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		if _, err := transfer.Import(t.Context(), s.store, s.tenants[0], strings.NewReader(somebody), transfer.Options{}); err != nil {
			t.Fatal(err)
		}
		user := s.user(s.tenants[0], atrium.RoleAdmin)
		cookie, of := s.login(s.link(s.tenants[0], user)), "/console/"+string(s.tenants[0])
		path := of + "/privacy/person.ndjson"
		const entry, prospect = `"accountLogId":"prospectlog_000000000000000000000000a7"`, `"prospectId":"prospect_000000000000000000000000a7"`
		for name, c := range map[string]struct {
			form       url.Values
			has, lacks []string
		}{
			"an address":        {url.Values{"text": {" ROBIN@people.example "}}, []string{entry, prospect}, nil},
			"an account":        {url.Values{"text": {"robin@people.example"}, "account": {"acme.example"}}, []string{entry}, []string{prospect}}, // not linked to it
			"another account":   {url.Values{"text": {"robin@people.example"}, "account": {"beta.example"}}, nil, []string{entry, prospect}},
			"a field":           {url.Values{"pointer": {"/email"}, "equals": {"robin@people.example"}}, []string{entry}, []string{prospect}},
			"an unknown person": {url.Values{"text": {"kim@people.example"}}, nil, []string{"{"}},
		} {
			a := s.ask(http.MethodPost, path, c.form, cookie)
			h := a.Header
			if a.StatusCode != http.StatusOK || h.Get("Content-Disposition") != `attachment; filename="person.ndjson"` || h.Get("Content-Type") != "application/x-ndjson" ||
				h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %s %v", name, a.Status, h)
			}
			for _, want := range c.has {
				if !strings.Contains(a.body, want) {
					t.Errorf("%s: the file lacks %s: %s", name, want, a.body)
				}
			}
			for _, other := range c.lacks {
				if strings.Contains(a.body, other) {
					t.Errorf("%s: the file has %s", name, other)
				}
			}
		}
		for _, form := range []url.Values{nil, {"equals": {"fair"}}, {"text": {"robin@people.example"}, "account": {"nobody.example"}}} {
			if a := s.ask(http.MethodPost, path, form, cookie); a.StatusCode < 400 || a.StatusCode >= 500 || a.Header.Get("Content-Disposition") != "" {
				t.Errorf("%v: %s %v", form, a.Status, a.Header)
			}
		}
		for _, action := range []string{"person.export", "person.export.complete"} {
			records, _, err := s.store.AuditRows(t.Context(), s.tenants[0], atrium.AuditFilter{Action: action, Actor: string(user)}, 1<<32, 100)
			if err != nil || len(records) != 5 {
				t.Errorf("%d records of %s by the user, want 5: %v", len(records), action, err)
			}
		}
		recorded := false // a job stores reads within seconds
		for began := time.Now(); !recorded && time.Since(began) < 30*time.Second; time.Sleep(20 * time.Millisecond) {
			reads, _, err := s.store.Reads(t.Context(), s.tenants[0], atrium.ReadFilter{Actor: string(user)}, nil, 100)
			if err != nil {
				t.Fatal(err)
			}
			recorded = slices.ContainsFunc(reads, func(r atrium.Read) bool {
				return r.Kind == atrium.ReadExport && r.Route == "/manage/v0/persons/export"
			})
		}
		if !recorded {
			t.Error("the read is not recorded")
		}
	})
}

// The email address of a prospect is carried over in a form: addresses of pages are in histories and logs.
func TestAProspectLeadsToWhatIsStoredAboutThePerson(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		if _, err := transfer.Import(t.Context(), s.store, s.tenants[0], strings.NewReader(somebody), transfer.Options{}); err != nil {
			t.Fatal(err)
		}
		of := "/console/" + string(s.tenants[0])
		const form = `/privacy/person"><input type="hidden" name="text" value="Robin@people.example">`
		for role, offered := range map[atrium.Role]bool{atrium.RoleAdmin: true, atrium.RoleOperator: true, atrium.RoleSupport: false, atrium.RoleEditor: false, atrium.RoleViewer: false} {
			a := s.ask(http.MethodGet, of+"/prospects/prospect_000000000000000000000000a7", nil, s.signIn(role))
			if a.StatusCode != http.StatusOK || strings.Contains(a.body, form) != offered || strings.Contains(a.body, "/privacy/person") != offered {
				t.Errorf("as %s, want the form %v: %s %s", role, offered, a.Status, a.body)
			}
		}
		cookie := s.signIn(atrium.RoleAdmin)
		if a := s.ask(http.MethodGet, of+"/prospects/prospect_000000000000000000000000a1", nil, cookie); !strings.Contains(a.body, `<a href="`+of+`/privacy/person">`) {
			t.Errorf("a prospect without an address has no link to the search: %s", a.body)
		}
		found := s.ask(http.MethodPost, of+"/privacy/person", url.Values{"text": {"Robin@people.example"}}, cookie)
		for _, want := range []string{"Found: 1 entry and 1 prospect", "Download data</button>", "Erase data…</button>", `name="text" value="Robin@people.example"`} {
			if !strings.Contains(found.body, want) {
				t.Errorf("what was found lacks %s: %s", want, found.body)
			}
		}
		if strings.Contains(found.body, `name="confirm"`) {
			t.Error("the search asks to confirm an erasure")
		}
		before := s.changes()
		erase := s.ask(http.MethodPost, of+"/privacy/person", url.Values{"text": {"Robin@people.example"}, "erase": {"yes"}}, cookie)
		if erase.StatusCode != http.StatusOK || !strings.Contains(erase.body, `name="confirm"`) || !strings.Contains(erase.body, "Found: 1 entry and 1 prospect") || s.changes() != before {
			t.Errorf("the confirmation: %s %s", erase.Status, erase.body)
		}
	})
}
