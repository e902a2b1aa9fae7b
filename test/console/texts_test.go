package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/transfer"
)

// The console says what to do in the words of its forms.
func TestTheConsoleSpeaksToPeople(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		if _, err := transfer.Import(t.Context(), s.store, s.tenants[0], strings.NewReader(activityLines()), transfer.Options{}); err != nil {
			t.Fatal(err)
		}
		d, err := canonical.Draft(s.tenants[0], atrium.Submission{Source: "forms", Type: "signup", Payload: []byte(`{"form":"fair"}`), Claim: atrium.Claim{Name: "Nobody"}})
		if err != nil {
			t.Fatal(err)
		}
		d.ID = atrium.NewID[atrium.EntryID]()
		if outcomes, err := s.store.Append(t.Context(), []*atrium.Draft{d}); err != nil || outcomes[0].Err != nil {
			t.Fatal(err, outcomes)
		}
		cookie, of := s.signIn(atrium.RoleAdmin), "/console/"+string(s.tenants[0])
		want := func(what string, a answer, texts ...string) {
			t.Helper()
			for _, text := range append([]string{"</html>"}, texts...) {
				if !strings.Contains(a.body, text) {
					t.Errorf("%s: %s lacks %q: %s", what, a.Status, text, a.body)
				}
			}
			for _, text := range []string{"/rule/", "unattributed account", "this key cannot"} {
				if strings.Contains(a.body, text) {
					t.Errorf("%s: the page has %q", what, text)
				}
			}
		}
		const pointer = "Field of the payload must begin with /, such as /form"
		want("a field without a slash", s.ask(http.MethodPost, of+"/privacy/person", url.Values{"pointer": {"form"}, "equals": {"fair"}}, cookie), pointer)
		want("no field", s.ask(http.MethodPost, of+"/privacy/person", url.Values{"equals": {"fair"}}, cookie), pointer)
		move := url.Values{"to": {"beta.example"}, "pointer": {"form"}, "equals": {"fair"}}
		want("a move by a field without a slash", s.ask(http.MethodGet, of+"/moves/new?"+move.Encode(), nil, cookie), pointer)
		move.Set("pointer", "/form~2")
		want("a move by a wrong pointer", s.ask(http.MethodGet, of+"/moves/new?"+move.Encode(), nil, cookie), "Field of the payload must be a JSON Pointer")
		move.Set("pointer", "/form")
		want("a check", s.ask(http.MethodGet, of+"/moves/new?"+move.Encode(), nil, cookie), "<b>1</b> entry without an account matches.")
		want("the entry", s.ask(http.MethodGet, of+"/activity/"+string(d.ID), nil, cookie), "Entries without an account")
		move.Set("source", "forms")
		if a := s.ask(http.MethodPost, of+"/moves", move, cookie); a.StatusCode != http.StatusSeeOther {
			t.Fatalf("the move: %s %s", a.Status, a.body)
		}
		want("the moves", s.ask(http.MethodGet, of+"/moves", nil, cookie), "source forms, /form is &#34;fair&#34;", "Entries without an account")

		created := s.ask(http.MethodPost, of+"/people", url.Values{"name": {"Kim <b>"}, "role": {"viewer"}}, cookie)
		if created.StatusCode != http.StatusSeeOther {
			t.Fatalf("a new person: %s %s", created.Status, created.body)
		}
		const cannot = "User Kim &lt;b&gt; created, who cannot sign in yet: create a login link, which works once, for ten minutes."
		person := s.ask(http.MethodGet, created.Header.Get("Location"), nil, cookie)
		want("the new person", person, cannot, `<option value="support">support</option>`, "moves entries")
		path, _, _ := strings.Cut(created.Header.Get("Location"), "?")
		if linked := s.ask(http.MethodPost, path+"/link", nil, cookie); strings.Contains(linked.body, cannot) || !strings.Contains(linked.body, "?token=") {
			t.Errorf("the page with the link: %s", linked.body)
		}
	})
}
