package console

import (
	"html"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/config"
	"atrium/internal/sso/ssotest"
)

// A desk is a browser of a person who signs in through a provider.
type desk struct {
	*site
	provider *ssotest.Provider
	browser  *http.Client
}

// withProvider serves a site whose people sign in through a fake provider.
func (s *site) withProvider(b ssotest.Behavior, change ...func(*app.Config)) *desk {
	s.t.Helper()
	d := &desk{site: s, provider: ssotest.New(s.t, b)}
	secret := ssotest.SecretFile(s.t)
	s.serve(append(change, func(c *app.Config) {
		c.Settings.OIDCIssuer, c.Settings.OIDCClientID, c.Settings.OIDCClientSecretFile = d.provider.Issuer, ssotest.ClientID, secret
		c.Settings.PublicURL = "http://localhost:1" // the redirects are followed by hand
	})...)
	d.restart()
	return d
}

// restart gives the person a new browser.
func (d *desk) restart() {
	d.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		d.t.Fatal(err)
	}
	d.browser = &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// visit sends a request of the browser.
func (d *desk) visit(method, address string, form url.Values) answer {
	d.t.Helper()
	if strings.HasPrefix(address, "/") {
		address = d.base + address
	}
	former, base := d.client, d.base
	defer func() { d.client, d.base = former, base }()
	d.client, d.base = d.browser, ""
	return d.ask(method, address, form)
}

// callback returns the path and query with which the provider sends the browser back.
func (d *desk) callback() string {
	d.t.Helper()
	a := d.visit(http.MethodGet, "/console/login/sso", nil)
	if a.StatusCode != http.StatusSeeOther || !strings.HasPrefix(a.Header.Get("Location"), d.provider.Issuer+"/authorize?") {
		d.t.Fatalf("the sign-in begins with %s %s", a.Status, a.Header.Get("Location"))
	}
	a = d.visit(http.MethodGet, a.Header.Get("Location"), nil)
	path, ok := strings.CutPrefix(a.Header.Get("Location"), "http://localhost:1")
	if !ok {
		d.t.Fatalf("the provider sends the browser to %s", a.Header.Get("Location"))
	}
	return path
}

// signIn signs the person in, and returns the last response.
func (d *desk) signIn() answer {
	d.t.Helper()
	return d.visit(http.MethodGet, d.callback(), nil)
}

// signedIn reports whether the browser has a session.
func (d *desk) signedIn() bool {
	d.t.Helper()
	return !strings.HasPrefix(d.visit(http.MethodGet, "/console", nil).Header.Get("Location"), "/console/login")
}

// mapGroup maps a group to a role in a tenant, or of operators.
func (d *desk) mapGroup(tenant atrium.TenantID, group string, role atrium.Role) atrium.GroupMapping {
	d.t.Helper()
	m, _, err := d.store.CreateGroupMapping(d.t.Context(), atrium.CommandLine(tenant), atrium.GroupMapping{ID: atrium.NewID[atrium.GroupMappingID](), Issuer: d.provider.Issuer, Group: group, Role: role})
	if err != nil {
		d.t.Fatal(err)
	}
	return m
}

// users returns the users of the person.
func (d *desk) users() []atrium.User {
	d.t.Helper()
	users, err := d.store.UsersOf(d.t.Context(), d.provider.Issuer, "1")
	if err != nil {
		d.t.Fatal(err)
	}
	return users
}

func jane(groups ...string) ssotest.Behavior {
	return ssotest.Behavior{Subject: "1", Name: "Jane", Groups: groups}
}

func TestTheFirstSignInCreatesAUserWithTheRoleOfTheGroups(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		d := s.withProvider(jane("staff", "editors", "unknown"))
		d.mapGroup(s.tenants[0], "staff", atrium.RoleViewer)
		d.mapGroup(s.tenants[0], "editors", atrium.RoleEditor)
		d.mapGroup(s.tenants[1], "Staff", atrium.RoleAdmin)
		a := d.signIn()
		if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/console" || !d.signedIn() {
			t.Fatalf("the sign-in ends with %s %s: %s", a.Status, a.Header.Get("Location"), a.body)
		}
		users := d.users()
		if len(users) != 1 || users[0].Role != atrium.RoleEditor || users[0].Name != "Jane" || users[0].TenantID != s.tenants[0] {
			t.Fatalf("the users are %+v", users)
		}
		page := d.visit(http.MethodGet, "/console/"+string(s.tenants[0])+"/people/"+string(users[0].ID), nil)
		if !strings.Contains(page.body, d.provider.Issuer) || strings.Contains(page.body, "login link") {
			t.Error("the page of the user does not show the provider, or offers a login link")
		}
		d.provider.Set(func(b *ssotest.Behavior) { b.Name = "Jane K." })
		d.signIn()
		if again := d.users(); len(again) != 1 || again[0].ID != users[0].ID || again[0].Name != "Jane K." {
			t.Errorf("after the second sign-in, the users are %+v", again)
		}
	})
}

func TestAPersonWithoutAMappedGroupIsNoUser(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		d := s.withProvider(jane("staff"))
		before := s.changes()
		a := d.signIn()
		if a.StatusCode != http.StatusForbidden || !strings.Contains(a.body, "None of your groups") || d.signedIn() || len(d.users()) > 0 || s.changes() != before {
			t.Errorf("without a mapping: %s %s, users %v", a.Status, a.body, d.users())
		}
		requestID := a.Header.Get("X-Request-Id")
		if requestID == "" || !strings.Contains(a.body, requestID) || !strings.Contains(s.log.String(), "requestId="+requestID) {
			t.Errorf("the page or the log lacks the request ID %q", requestID)
		}
	})
}

func TestAPersonWhoLosesTheGroupLosesTheSessions(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		d := s.withProvider(jane("staff", "editors"))
		d.mapGroup(s.tenants[0], "staff", atrium.RoleViewer)
		d.mapGroup(s.tenants[0], "editors", atrium.RoleEditor)
		d.signIn()
		first := d.browser
		d.provider.Set(func(b *ssotest.Behavior) { b.Groups = []string{"staff"} })
		d.restart()
		d.signIn()
		second := d.browser
		if !d.signedIn() || d.users()[0].Role != atrium.RoleViewer {
			t.Errorf("with fewer groups: signed in %v, users %+v", d.signedIn(), d.users())
		}
		if d.browser = first; d.signedIn() {
			t.Error("the session with the former role still works")
		}
		d.provider.Set(func(b *ssotest.Behavior) { b.Groups = nil })
		d.restart()
		if a := d.signIn(); a.StatusCode != http.StatusForbidden || d.signedIn() {
			t.Errorf("without groups: %s", a.Status)
		}
		if d.browser = second; d.signedIn() {
			t.Error("a session of a person without groups still works")
		}
		before := s.changes()
		d.restart()
		if d.signIn(); s.changes() != before {
			t.Error("a refused sign-in that ends nothing is recorded")
		}
	})
}

func TestAPersonOfSeveralTenantsChooses(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		d := s.withProvider(jane("staff", "root"))
		own, other, root := d.mapGroup(s.tenants[0], "staff", atrium.RoleViewer), d.mapGroup(s.tenants[1], "staff", atrium.RoleAdmin), d.mapGroup(atrium.OperatorChain, "root", atrium.RoleOperator)
		a := d.signIn()
		if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/console/login/tenant" || d.signedIn() || len(d.users()) > 0 {
			t.Fatalf("the sign-in continues with %s %s", a.Status, a.Header.Get("Location"))
		}
		page := d.visit(http.MethodGet, "/console/login/tenant", nil)
		for _, m := range []atrium.GroupMapping{own, other, root} {
			if !strings.Contains(page.body, string(m.ID)) {
				t.Errorf("the page does not offer %+v: %s", m, page.body)
			}
		}
		foreign := d.mapGroup(s.tenants[1], "foreign", atrium.RoleAdmin)
		for _, as := range []string{string(foreign.ID), "", "mapping_00000000000000000000000000"} {
			if a := d.visit(http.MethodPost, "/console/login/tenant", url.Values{"as": {as}}); a.StatusCode != http.StatusBadRequest || d.signedIn() {
				t.Errorf("a choice %q that was not offered: %s", as, a.Status)
			}
		}
		if err := s.store.DeleteGroupMapping(t.Context(), atrium.CommandLine(s.tenants[0]), own.ID, func(atrium.GroupMapping) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if a := d.visit(http.MethodPost, "/console/login/tenant", url.Values{"as": {string(own.ID)}}); a.StatusCode != http.StatusBadRequest || d.signedIn() {
			t.Errorf("a mapping that was deleted during the choice: %s", a.Status)
		}
		at, err := url.Parse(d.base + "/console/login/tenant")
		if err != nil {
			t.Fatal(err)
		}
		kept := d.browser.Jar.Cookies(at) // by a browser that does not forget the choice
		d.visit(http.MethodPost, "/console/login/tenant", url.Values{"as": {string(other.ID)}})
		if users := d.users(); !d.signedIn() || len(users) != 1 || users[0].TenantID != s.tenants[1] || users[0].Role != atrium.RoleAdmin {
			t.Errorf("signed in %v as %+v", d.signedIn(), users)
		}
		if a := d.visit(http.MethodPost, "/console/login/tenant", url.Values{"as": {string(root.ID)}}); a.StatusCode != http.StatusBadRequest {
			t.Errorf("the browser keeps the choice: %s", a.Status)
		}
		for _, as := range []atrium.GroupMapping{root, other} {
			d.restart()
			d.browser.Jar.SetCookies(at, kept)
			if a := d.visit(http.MethodPost, "/console/login/tenant", url.Values{"as": {string(as.ID)}}); a.StatusCode != http.StatusBadRequest || d.signedIn() {
				t.Errorf("the choice was used again: %s", a.Status)
			}
		}
		d.restart()
		d.signIn()
		d.visit(http.MethodPost, "/console/login/tenant", url.Values{"as": {string(root.ID)}})
		if a := d.visit(http.MethodGet, "/console/tenants", nil); a.StatusCode != http.StatusOK || len(d.users()) != 2 {
			t.Errorf("as an operator: %s, users %+v", a.Status, d.users())
		}
	})
}

func TestASignInWorksInItsBrowserOnce(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		d := s.withProvider(jane("staff"))
		d.mapGroup(s.tenants[0], "staff", atrium.RoleViewer)
		callback := d.callback()
		browser := d.browser
		d.restart() // a victim who follows the attacker's address
		if a := d.visit(http.MethodGet, callback, nil); a.StatusCode != http.StatusBadRequest || d.signedIn() || !strings.Contains(a.body, "began in another browser") {
			t.Errorf("in another browser: %s", a.Status)
		}
		d.browser = browser
		for _, foreign := range []string{"?state=x&code=x", "?code=x", "?error=access_denied"} { // another site leads the browser there
			if a := d.visit(http.MethodGet, "/console/login/callback"+foreign, nil); a.StatusCode != http.StatusBadRequest {
				t.Errorf("a foreign %s: %s", foreign, a.Status)
			}
		}
		first := d.visit(http.MethodGet, callback, nil)
		if first.StatusCode != http.StatusSeeOther || !d.signedIn() {
			t.Fatalf("in its browser: %s", first.Status)
		}
		if a := d.visit(http.MethodGet, callback, nil); a.StatusCode != http.StatusBadRequest {
			t.Errorf("again: %s", a.Status)
		}
		for _, cookie := range first.Cookies() {
			if !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" || cookie.Domain != "" {
				t.Errorf("the cookie is %v", cookie)
			}
		}
		code, _, _ := strings.Cut(strings.SplitN(callback, "code=", 2)[1], "&")
		if strings.Contains(s.log.String(), code) || strings.Contains(s.log.String(), ssotest.Secret) {
			t.Error("the log has the code or the secret")
		}
	})
}

func TestASignInNeverLeavesTheServer(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		d := s.withProvider(jane("staff"))
		d.mapGroup(s.tenants[0], "staff", atrium.RoleViewer)
		const evil = "?next=https://evil.example&return_to=//evil.example&redirect_uri=https://evil.example"
		a := d.visit(http.MethodGet, "/console/login/sso"+evil, nil)
		to, err := url.Parse(a.Header.Get("Location"))
		if err != nil || to.Query().Get("redirect_uri") != "http://localhost:1/console/login/callback" || strings.Contains(to.String(), "evil") {
			t.Errorf("the sign-in begins at %s", a.Header.Get("Location"))
		}
		callback := d.callback()
		a = d.visit(http.MethodGet, callback+strings.Replace(evil, "?", "&", 1), nil)
		if a.Header.Get("Location") != "/console" {
			t.Errorf("the sign-in ends at %s", a.Header.Get("Location"))
		}
	})
}

func TestFailedSignInsAreLimitedAndUnavailableOnesAreNot(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		d := s.withProvider(jane("staff"), func(c *app.Config) { c.Settings.AuthFailures = config.Rate{Count: 3, Window: 60_000_000_000} })
		d.mapGroup(s.tenants[0], "staff", atrium.RoleViewer)
		d.provider.Set(func(b *ssotest.Behavior) {
			b.Token = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
		})
		for range 5 {
			if a := d.signIn(); a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(a.body, "does not respond") {
				t.Fatalf("a provider that is away: %s", a.Status)
			}
		}
		d.provider.Set(func(b *ssotest.Behavior) { b.Token = nil })
		for range 5 { // another site can make the browser do this
			if a := d.visit(http.MethodGet, "/console/login/callback?state=x&code=y", nil); a.StatusCode != http.StatusBadRequest {
				t.Fatalf("a callback without a sign-in: %s", a.Status)
			}
		}
		callback := d.callback()
		for range 5 {
			if a := d.ask(http.MethodGet, "/console/login/callback?state=x&code=y", nil, "Sec-Fetch-Mode: no-cors"); a.StatusCode != http.StatusBadRequest {
				t.Fatalf("a callback of an image: %s", a.Status)
			}
		}
		if a := d.visit(http.MethodGet, callback, nil); a.StatusCode != http.StatusSeeOther {
			t.Fatalf("a sign-in after callbacks of others: %s", a.Status)
		}
		for _, forged := range []string{"code=y", "error=server_error", "error=temporarily_unavailable"} { // a client that has begun them
			to, query, _ := strings.Cut(d.callback(), "?")
			state := url.Values{}
			if values, err := url.ParseQuery(query); err == nil {
				state["state"] = values["state"]
			}
			if a := d.visit(http.MethodGet, to+"?"+forged+"&iss="+url.QueryEscape(d.provider.Issuer)+"&"+state.Encode(), nil); a.StatusCode < 400 {
				t.Fatalf("an invalid callback: %s", a.Status)
			}
		}
		if a := d.signIn(); a.StatusCode != http.StatusTooManyRequests {
			t.Errorf("after too many failures: %s", a.Status)
		}
	})
}

func TestAServerStartsWithoutItsProvider(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		d := s.withProvider(ssotest.Behavior{Away: true})
		if a := d.visit(http.MethodGet, "/console/login", nil); a.StatusCode != http.StatusOK || !strings.Contains(a.body, "http://localhost:1/console/login/sso") {
			t.Errorf("the sign-in page: %s %s", a.Status, a.body)
		}
		if a := d.visit(http.MethodGet, "/console/login/sso", nil); a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(a.body, "does not respond") {
			t.Errorf("the sign-in: %s", a.Status)
		}
		if cookie := s.signIn(atrium.RoleViewer); cookie == "" {
			t.Error("a login link does not work")
		}
	})
}

func TestWithoutAProviderThereIsNoSingleSignOn(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		for _, place := range []string{"GET /console/login/sso", "GET /console/login/callback?state=a&code=b", "GET /console/login/tenant", "POST /console/login/tenant"} {
			method, path, _ := strings.Cut(place, " ")
			if a := s.ask(method, path, nil); a.StatusCode != http.StatusNotFound {
				t.Errorf("%s: %s", place, a.Status)
			}
		}
		if a := s.ask(http.MethodGet, "/console/login", nil); strings.Contains(a.body, "login/sso") {
			t.Error("the sign-in page offers it")
		}
	})
}

func TestUsersOfAProviderHaveNoLoginLinksAndKeepTheirRole(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		d := s.withProvider(jane("staff"))
		d.mapGroup(s.tenants[0], "staff", atrium.RoleViewer)
		d.signIn()
		u := d.users()[0]
		admin := s.signIn(atrium.RoleAdmin)
		of := "/console/" + string(s.tenants[0]) + "/people/" + string(u.ID)
		for action, form := range map[string]url.Values{"/link": nil, "/role": {"role": {"admin"}, "tag": {"*"}}} {
			if a := s.ask(http.MethodPost, of+action, form, admin); a.StatusCode != http.StatusConflict {
				t.Errorf("%s: %s", action, a.Status)
			}
		}
		if a := s.ask(http.MethodPost, of+"/remove", url.Values{"tag": {"*"}}, admin); a.StatusCode != http.StatusSeeOther || d.signedIn() {
			t.Errorf("remove: %s", a.Status)
		}
		if !slices.Equal(d.users(), nil) {
			t.Errorf("the users are %v", d.users())
		}
	})
}

func TestAnAdminMapsGroupsInTheConsole(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		d := s.withProvider(jane("staff"))
		admin := s.signIn(atrium.RoleAdmin)
		of := "/console/" + string(s.tenants[0]) + "/people"
		if a := s.ask(http.MethodPost, of+"/groups", url.Values{"group": {"staff"}, "role": {"editor"}}, admin); a.Header.Get("Location") != of+"?done=mapped" {
			t.Fatalf("map: %s %s", a.Status, a.body)
		}
		if a := s.ask(http.MethodPost, of+"/groups", url.Values{"group": {"staff"}, "role": {"viewer"}}, admin); a.StatusCode != http.StatusConflict || !strings.Contains(a.body, "There is a mapping of this group") {
			t.Errorf("map again: %s", a.Status)
		}
		if d.signIn(); !d.signedIn() || d.users()[0].Role != atrium.RoleEditor {
			t.Errorf("the group has no effect: %+v", d.users())
		}
		mappings, _, err := s.store.GroupMappings(t.Context(), s.tenants[0], nil, 10)
		if err != nil || len(mappings) != 1 {
			t.Fatal(mappings, err)
		}
		if a := s.ask(http.MethodPost, of+"/groups/"+string(mappings[0].ID), nil, admin); a.Header.Get("Location") != of+"?done=unmapped" {
			t.Errorf("delete: %s %s", a.Status, a.body)
		}
		d.restart()
		if a := d.signIn(); a.StatusCode != http.StatusForbidden {
			t.Errorf("the group still has a role: %s", a.Status)
		}
	})
}

// signOut signs the person out in Atrium, and returns the response to the page that follows.
func (d *desk) signOut() answer {
	d.t.Helper()
	a := d.visit(http.MethodPost, "/console/logout", nil)
	if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/console/logout" || d.signedIn() {
		d.t.Fatalf("the sign-out continues with %s %s, signed in %v", a.Status, a.Header.Get("Location"), d.signedIn())
	}
	return d.visit(http.MethodGet, "/console/logout", nil)
}

func TestASignOutContinuesAtTheProvider(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		d := s.withProvider(jane("staff"))
		d.mapGroup(s.tenants[0], "staff", atrium.RoleViewer)
		d.signIn()
		a := d.signOut()
		to, ok := strings.CutPrefix(a.Header.Get("Refresh"), "0; url=")
		if !ok || a.StatusCode != http.StatusOK || !strings.HasPrefix(to, d.provider.Issuer+"/logout?") || !strings.Contains(a.body, `href="`+html.EscapeString(to)+`"`) {
			t.Fatalf("the sign-out: %s, Refresh %q: %s", a.Status, a.Header.Get("Refresh"), a.body)
		}
		a = d.visit(http.MethodGet, to, nil)
		if back := a.Header.Get("Location"); d.provider.Requests("/logout") != 1 || back != "http://localhost:1/console/login?done=signedout" {
			t.Fatalf("the provider sends the browser to %s %q", a.Status, back)
		}
		if a := d.visit(http.MethodGet, "/console/login?done=signedout", nil); a.StatusCode != http.StatusOK || !strings.Contains(a.body, "You are signed out.") {
			t.Errorf("the end of the sign-out: %s %s", a.Status, a.body)
		}
	})
}

func TestASignOutStaysHereIfTheProviderHasNoPartInIt(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		for name, spoil := range map[string]func(*ssotest.Behavior){
			"no address": func(b *ssotest.Behavior) { b.Discovery = func(m map[string]any) { delete(m, "end_session_endpoint") } },
			"a script as an address": func(b *ssotest.Behavior) {
				b.Discovery = func(m map[string]any) { m["end_session_endpoint"] = "javascript:alert(1)" }
			},
		} {
			b := jane("staff")
			spoil(&b)
			d := s.withProvider(b)
			d.mapGroup(s.tenants[0], "staff", atrium.RoleViewer)
			d.signIn()
			if a := d.signOut(); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/console/login?done=signedout" || a.Header.Get("Refresh") != "" {
				t.Errorf("%s: %s to %q, Refresh %q", name, a.Status, a.Header.Get("Location"), a.Header.Get("Refresh"))
			}
		}
		d := s.withProvider(ssotest.Behavior{Away: true})
		if a := d.visit(http.MethodGet, "/console/logout", nil); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/console/login?done=signedout" {
			t.Errorf("with a provider that is away: %s to %q", a.Status, a.Header.Get("Location"))
		}
		cookie := s.signIn(atrium.RoleViewer) // with a login link
		if a := s.ask(http.MethodPost, "/console/logout", nil, cookie); a.Header.Get("Location") != "/console/login?done=signedout" {
			t.Errorf("a sign-out of a session that a login link began leads to %q", a.Header.Get("Location"))
		}
		s.serve()
		if a := s.ask(http.MethodGet, "/console/logout", nil); a.Header.Get("Location") != "/console/login?done=signedout" {
			t.Errorf("without a provider: %s to %q", a.Status, a.Header.Get("Location"))
		}
	})
}
