package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/config"
)

// One visitor must not lock out the users behind the same address.
func TestUsersAreServedAlthoughTheirAddressHasSentTooManyRequests(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		s.serve(func(c *app.Config) { c.Settings.AnonymousRate = config.Rate{Count: 5, Window: time.Hour} })
		cookie, page := s.signIn(atrium.RoleViewer), "/console/"+string(s.tenants[0])+"/accounts"
		for range 5 {
			if a := s.ask(http.MethodGet, "/console/login", nil); a.StatusCode != http.StatusOK {
				t.Fatalf("a visitor: %s", a.Status)
			}
		}
		name, _, _ := strings.Cut(cookie, "=")
		for _, other := range []string{"X-None: x", name + "=ats_00000000000000000000000000_" + strings.Repeat("a", 43), name + "=x", "Cookie: other=" + cookie} {
			a := s.ask(http.MethodGet, page, nil, other)
			if a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" || a.Header.Get("Content-Type") != "text/html; charset=utf-8" ||
				!strings.Contains(a.body, "Try again in 12 minutes.") || !strings.Contains(a.Header.Get("Content-Security-Policy"), "style-src 'self'") {
				t.Errorf("with %q: %s %v\n%s", other, a.Status, a.Header, a.body)
			}
		}
		for range 100 { // of the page with the refusal; it does not make others wait longer
			if a := s.ask(http.MethodGet, "/console/style.css", nil); a.StatusCode != http.StatusOK {
				t.Errorf("style.css: %s", a.Status)
			}
		}
		if a := s.ask(http.MethodGet, "/console/login", nil); !strings.Contains(a.body, "Try again in 12 minutes.") {
			t.Errorf("after many requests for a file: %s\n%s", a.Status, a.body)
		}
		for range 10 {
			if a := s.ask(http.MethodGet, page, nil, cookie); a.StatusCode != http.StatusOK {
				t.Errorf("a user: %s", a.Status)
			}
		}
		if a := s.ask(http.MethodPost, "/console/logout", nil, cookie); a.StatusCode != http.StatusSeeOther {
			t.Errorf("to sign out: %s", a.Status)
		}
		if a := s.ask(http.MethodGet, page, nil, cookie); a.StatusCode != http.StatusSeeOther { // the server learns that the session has ended
			t.Errorf("with a session that has ended: %s", a.Status)
		}
		if a := s.ask(http.MethodGet, page, nil, cookie); a.StatusCode != http.StatusTooManyRequests {
			t.Errorf("once more: %s", a.Status)
		}
	})
}

func TestRefusedFormsSayWhatWasChangedNevertheless(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie, own := s.signIn(atrium.RoleAdmin), "/console/"+string(s.tenants[0])
		before := s.changes()
		a := s.ask(http.MethodPost, own+"/accounts/account_00000000000000000000000000/prospects", url.Values{"firstName": {"Jane"}}, cookie)
		if a.StatusCode != http.StatusNotFound || s.changes() != before {
			t.Errorf("a prospect of an account that does not exist: %s, %d changes\n%s", a.Status, s.changes()-before, a.body)
		}
		a = s.ask(http.MethodPost, own+"/pages", url.Values{"brandName": {"First"}, "name": {strings.Repeat("a", 300)}, "title": {"Title"}}, cookie)
		if a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, "The brand was created, the page was not.") || strings.Contains(a.body, "Nothing was changed") ||
			!strings.Contains(a.body, ">First</option>") || strings.Contains(a.body, "brandName") {
			t.Errorf("a page with a name that is too long, of a new brand: %s\n%s", a.Status, a.body)
		}
		a = s.ask(http.MethodPost, own+"/pages", url.Values{"name": {"Name"}, "title": {"Title"}}, cookie)
		if a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, "Nothing was changed") {
			t.Errorf("a page without a brand: %s\n%s", a.Status, a.body)
		}
	})
}

func TestChangesOfNothingSaySo(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie, before := s.signIn(atrium.RoleAdmin), s.changes()
		for route, form := range map[string]string{
			"accounts/account_000000000000000000000000a1":    "seen:name=Acme&name=Acme&seen:domain=acme.example&domain=acme.example",
			"brands/brand_000000000000000000000000a1/rename": "seen:name=Acme&name=Acme",
			"prospects/prospect_000000000000000000000000a1":  "seen:name=Kim&name=Kim&tag=*",
		} {
			values, err := url.ParseQuery(form)
			if err != nil {
				t.Fatal(err)
			}
			a := s.ask(http.MethodPost, "/console/"+string(s.tenants[0])+"/"+route, values, cookie)
			if a.StatusCode != http.StatusSeeOther || !strings.HasSuffix(a.Header.Get("Location"), "?done=unchanged") {
				t.Errorf("%s: %s to %s", route, a.Status, a.Header.Get("Location"))
			}
		}
		if changed := s.changes() - before; changed != 0 {
			t.Errorf("%d changes", changed)
		}
	})
}

// Nothing else shows an operator how far the deletion is.
func TestATenantThatIsBeingDeletedHasAPage(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie, page := s.signIn(atrium.RoleOperator), "/console/"+string(s.tenants[0])+"/tenant"
		a := s.ask(http.MethodPost, page+"/delete", url.Values{"confirmName": {"Tenant"}, "tag": {"*"}}, cookie)
		if a.StatusCode != http.StatusSeeOther {
			t.Fatalf("the deletion: %s\n%s", a.Status, a.body)
		}
		if a := s.ask(http.MethodGet, page, nil, cookie); a.StatusCode != http.StatusOK || !strings.Contains(a.body, "being deleted") {
			t.Errorf("the page: %s\n%s", a.Status, a.body)
		}
	})
}
