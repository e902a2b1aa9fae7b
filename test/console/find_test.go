package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/canonical"
)

// People paste identifiers from logs, tickets and mails.
func TestAnIdentifierLeadsToItsPage(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie, own := s.signIn(atrium.RoleAdmin), "/console/"+string(s.tenants[0])
		const suffix = "000000000000000000000000a1"
		for kind, want := range map[string]string{
			"account": "/accounts/", "prospect": "/prospects/", "prospectlog": "/activity/", "page": "/pages/", "user": "/people/", "webhook": "/webhooks/",
			"receiver": "/receivers/", "key": "/audit?subject=", "audience": "/audit?subject=", "req": "/refused?requestId=",
		} {
			id := kind + "_" + suffix
			if a := s.ask(http.MethodGet, own+"/search?q=+"+id+"+", nil, cookie); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != own+want+id {
				t.Errorf("%s: %s %s", id, a.Status, a.Header.Get("Location"))
			}
		}
	})
}

func TestTheSearchFindsAccountsProspectsAndPages(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie, own := s.signIn(atrium.RoleViewer), "/console/"+string(s.tenants[0])
		const account, prospect, page = "/accounts/account_000000000000000000000000a1", "/prospects/prospect_000000000000000000000000a1", "/pages/page_000000000000000000000000a1"
		for words, want := range map[string]string{
			"acme": account, "https://www.acme.example/contact": account, "somebody@acme.example": account, "kim": prospect, "spring": page,
			"SPR": page, "nobody": "matches <b>nobody</b>", "account_1": "No account, prospect or page", "-": "must have a letter or a digit", "": "Enter a name",
			"event_000000000000000000000000a1": "An event has a page",
		} {
			a := s.ask(http.MethodGet, own+"/search?q="+words, nil, cookie)
			if a.StatusCode != http.StatusOK || !strings.Contains(a.body, want) || strings.Contains(a.body, "00000000b1") || strings.Contains(a.body, string(s.tenants[1])) {
				t.Errorf("%q: %s, want %s:\n%s", words, a.Status, want, a.body)
			}
			if found := strings.Contains(a.body, account) || strings.Contains(a.body, prospect) || strings.Contains(a.body, page); found != strings.HasPrefix(want, "/") {
				t.Errorf("%q finds something: %v", words, found)
			}
		}
	})
}

// The link to all accounts that match an email address leads to those that the search has found, and more.
func TestTheSearchLeadsToAllAccountsThatMatch(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie, own := s.signIn(atrium.RoleViewer), "/console/"+string(s.tenants[0])
		for i := range 11 {
			d, err := canonical.Draft(s.tenants[0], atrium.Submission{Source: "crm", Payload: []byte("{}"), Claim: atrium.Claim{Domain: fmt.Sprintf("many%d.example", i)}})
			if err != nil {
				t.Fatal(err)
			}
			d.ID = atrium.NewID[atrium.EntryID]()
			if outcomes, err := s.store.Append(t.Context(), []*atrium.Draft{d}); err != nil || outcomes[0].Err != nil {
				t.Fatal(outcomes, err)
			}
		}
		a := s.ask(http.MethodGet, own+"/search?q=someone@many", nil, cookie)
		link := own + "/accounts?q=many"
		if !strings.Contains(a.body, `<a href="`+link+`">All accounts that match</a>`) {
			t.Fatalf("no link to %s:\n%s", link, a.body)
		}
		a = s.ask(http.MethodGet, link, nil, cookie)
		for i := range 11 {
			if want := fmt.Sprintf(">many%d.example<", i); !strings.Contains(a.body, want) {
				t.Errorf("%s: %s without %s:\n%s", link, a.Status, want, a.body)
			}
		}
	})
}
