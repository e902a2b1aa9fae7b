package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/transfer"
)

// People know a prospect by its address and an account by its domain or name.
func TestAProspectIsLinkedByItsAddress(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		twin := func(id string) string {
			return strings.NewReplacer("00a7", id, "Robin", "Twin", "robin", "twin").Replace(somebody)
		}
		if _, err := transfer.Import(t.Context(), s.store, s.tenants[0], strings.NewReader(somebody+twin("00a8")+twin("00a9")), transfer.Options{}); err != nil {
			t.Fatal(err)
		}
		cookie, of := s.signIn(atrium.RoleSupport), "/console/"+string(s.tenants[0])
		const account, prospect = "/accounts/account_000000000000000000000000a1", "/prospects/prospect_000000000000000000000000a7"
		const unknown = "No prospect has this email address or ID."
		for entered, want := range map[string]string{
			"nobody@people.example": unknown, "robin": unknown, "obin@people.example": unknown, "prospect_00000000000000000000000000": unknown, "": unknown,
			"prospect_000000000000000000000000b1": unknown, "Twin@people.example": "Several prospects have this email address",
		} {
			a := s.ask(http.MethodPost, of+account+"/link", url.Values{"prospect": {entered}}, cookie)
			if a.StatusCode < 400 || !strings.Contains(a.body, want) || !strings.Contains(a.body, ` value="`+entered+`"`) || strings.Contains(a.body, "this key") {
				t.Errorf("%q: %s %s", entered, a.Status, a.body)
			}
		}
		if a := s.ask(http.MethodPost, of+account+"/link", url.Values{"prospect": {" ROBIN@people.example"}}, cookie); a.StatusCode != http.StatusSeeOther {
			t.Fatalf("by address: %s %s", a.Status, a.body)
		}
		if a := s.ask(http.MethodGet, of+account, nil, cookie); !strings.Contains(a.body, "Robin &lt;Reyes&gt;") {
			t.Error("the account does not show the prospect")
		}
		for entered, want := range map[string]string{"nobody.example": "No account has the domain or name nobody.example.", "account_00000000000000000000000000": "No account has this ID."} {
			if a := s.ask(http.MethodPost, of+prospect+"/link", url.Values{"account": {entered}}, cookie); a.StatusCode != http.StatusNotFound || !strings.Contains(a.body, want) || !strings.Contains(a.body, ` value="`+entered+`"`) {
				t.Errorf("%q: %s %s", entered, a.Status, a.body)
			}
		}
		if a := s.ask(http.MethodPost, of+prospect+"/link", url.Values{"account": {"beta.example"}}, cookie); a.StatusCode != http.StatusSeeOther {
			t.Fatalf("to a domain: %s %s", a.Status, a.body)
		}
		if a := s.ask(http.MethodGet, of+prospect, nil, cookie); !strings.Contains(a.body, ">Acme</a>") || !strings.Contains(a.body, ">beta.example</a>") {
			t.Errorf("the prospect: %s", a.body)
		}
		if a := s.ask(http.MethodGet, of+prospect, nil, s.signIn(atrium.RoleViewer)); strings.Contains(a.body, `name="account"`) {
			t.Error("a viewer has the form")
		}
	})
}
