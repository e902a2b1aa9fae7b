package console

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/app/apptest"
)

func TestALoginLinkWorksOnceHoweverManyUseIt(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		link := s.link(s.tenants[0], s.user(s.tenants[0], atrium.RoleAdmin))
		for range 3 { // a program that follows links does not use it
			if a := s.ask(http.MethodGet, "/console/login?token="+link, nil); a.StatusCode != http.StatusOK || len(a.Cookies()) > 0 {
				t.Fatalf("GET: %s", a.Status)
			}
		}
		var signedIn, refused sync.Map
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				if a := s.ask(http.MethodPost, "/console/login", url.Values{"token": {link}}); a.StatusCode == http.StatusSeeOther {
					signedIn.Store(i, true)
				} else if a.StatusCode == http.StatusUnauthorized {
					refused.Store(i, true)
				}
			})
		}
		all.Wait()
		count := func(m *sync.Map) (n int) {
			m.Range(func(any, any) bool { n++; return true })
			return n
		}
		if count(&signedIn) != 1 || count(&refused) != 15 {
			t.Errorf("%d signed in, %d were refused", count(&signedIn), count(&refused))
		}
		if strings.Contains(s.log.String(), link) {
			t.Error("the log has the link")
		}
	})
}

func TestASessionEndsOnEveryNode(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		first := s.base
		s.serve()
		second := s.base
		works := func(cookie string) bool {
			t.Helper()
			a := s.ask(http.MethodGet, "/console/"+string(s.tenants[0])+"/accounts", nil, cookie)
			if a.StatusCode != http.StatusOK && a.Header.Get("Location") != "/console/login?done=expired" {
				t.Fatalf("%s %v", a.Status, a.Header)
			}
			return a.StatusCode == http.StatusOK
		}
		admin := s.user(s.tenants[0], atrium.RoleAdmin)
		as := atrium.CommandLine(s.tenants[0])
		for name, end := range map[string]func(cookie string) error{
			"sign-out": func(cookie string) error {
				s.ask(http.MethodPost, "/console/logout", nil, cookie)
				return nil
			},
			"end of all sessions": func(string) error {
				_, err := s.store.EndSessions(t.Context(), as, admin, func(atrium.User) error { return nil })
				return err
			},
			"another role": func(string) error {
				for _, role := range []atrium.Role{atrium.RoleEditor, atrium.RoleAdmin} {
					if _, err := s.store.UpdateUser(t.Context(), as, admin, nil, &role, func(atrium.User) error { return nil }); err != nil {
						return err
					}
				}
				return nil
			},
		} {
			s.base = first
			cookie := s.login(s.link(s.tenants[0], admin))
			s.base = second
			if !works(cookie) {
				t.Fatalf("%s: the session does not work on the other node", name)
			}
			s.base = first
			if err := end(cookie); err != nil {
				t.Fatal(err)
			}
			s.base = second
			if works(cookie) {
				t.Errorf("%s: the session still works on the other node", name)
			}
		}
	})
}

func TestASignInBeginsANewSession(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		attacker, victim := s.signIn(atrium.RoleViewer), s.link(s.tenants[0], s.user(s.tenants[0], atrium.RoleAdmin))
		if page := "/console/login?token=" + victim; !strings.Contains(s.ask(http.MethodGet, page, nil, attacker).body, "The link ends that session") ||
			strings.Contains(s.ask(http.MethodGet, page, nil).body, "session") || strings.Contains(s.ask(http.MethodGet, "/console/login", nil, attacker).body, "session") {
			t.Error("the page of a link does not say that somebody is signed in, or says so without reason")
		}
		a := s.ask(http.MethodPost, "/console/login", url.Values{"token": {victim}}, attacker)
		if a.StatusCode != http.StatusSeeOther || "Cookie: "+a.Cookies()[0].Name+"="+a.Cookies()[0].Value == attacker {
			t.Errorf("the sign-in kept the session of the browser: %s %v", a.Status, a.Cookies())
		}
		if a := s.ask(http.MethodGet, "/console", nil, attacker); a.Header.Get("Location") != "/console/login?done=expired" {
			t.Errorf("the former session still works: %s", a.Header.Get("Location"))
		}
	})
}

// The log line and the audit record of a sign-in have the same request.
func TestASignInIsRecordedWithItsRequest(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		a := s.ask(http.MethodPost, "/console/login", url.Values{"token": {s.link(s.tenants[0], s.user(s.tenants[0], atrium.RoleViewer))}}, "X-Request-Id: signing.in")
		if a.StatusCode != http.StatusSeeOther {
			t.Fatalf("sign-in: %s %s", a.Status, a.body)
		}
		records, _, err := s.store.AuditRows(t.Context(), s.tenants[0], atrium.AuditFilter{Action: "session.create"}, 0, 1)
		if err != nil || len(records) != 1 || records[0].RequestID != "signing.in" {
			t.Errorf("records of sign-ins: %+v, %v", records, err)
		}
	})
}

func TestTheManagementAPIAcceptsNoSession(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleAdmin)
		_, token, _ := strings.Cut(cookie, "=")
		for _, header := range []string{cookie, "X-Api-Key: " + token} {
			if a := s.ask(http.MethodGet, "/manage/v0/accounts", nil, header); a.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s: %s", header, a.Status)
			}
		}
		key, _ := apptest.Key(t, s.store, s.tenants[0], atrium.ScopeManage)
		if a := s.ask(http.MethodGet, "/console", nil, "Cookie: atrium="+key, "X-Api-Key: "+key); a.Header.Get("Location") != "/console/login?done=expired" {
			t.Errorf("the console accepts a key: %s %s", a.Status, a.Header.Get("Location"))
		}
	})
}

// With TLS, the cookie has a name that only this host can set, and no other cookie signs in.
func TestCookiesOverTLSAreBoundToTheHost(t *testing.T) {
	pair := apptest.NewPair(t, time.Now().Add(time.Hour))
	for name, c := range map[string]struct {
		change  func(*app.Config)
		headers []string
		secure  bool
	}{
		"TLS":                     {func(c *app.Config) { c.Settings.TLSCert, c.Settings.TLSKey = pair.Write(t, t.TempDir()) }, nil, true},
		"TLS to a trusted proxy":  {func(c *app.Config) { c.Settings.TrustedProxies = "127.0.0.1/32" }, []string{"X-Forwarded-Proto: https"}, true},
		"a proxy without TLS":     {func(c *app.Config) { c.Settings.TrustedProxies = "127.0.0.1/32" }, nil, false},
		"a header of some client": {func(*app.Config) {}, []string{"X-Forwarded-Proto: https"}, false},
		"neither a proxy nor TLS": {func(*app.Config) {}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), c.change)
			if name == "TLS" {
				s.base = strings.Replace(s.base, "http:", "https:", 1)
				s.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pair.Trust}}
			}
			link := s.link(s.tenants[0], s.user(s.tenants[0], atrium.RoleViewer))
			a := s.ask(http.MethodPost, "/console/login", url.Values{"token": {link}}, c.headers...)
			if len(a.Cookies()) != 1 {
				t.Fatalf("%s %v %s", a.Status, a.Header, a.body)
			}
			cookie := a.Cookies()[0]
			want := map[bool]string{true: "__Host-atrium", false: "atrium"}[c.secure]
			if cookie.Name != want || cookie.Secure != c.secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" || cookie.Domain != "" {
				t.Errorf("the cookie is %v", cookie)
			}
			for _, sent := range []string{"__Host-atrium", "atrium"} {
				a := s.ask(http.MethodGet, "/console", nil, append(c.headers, "Cookie: "+sent+"="+cookie.Value)...)
				if works := a.Header.Get("Location") != "/console/login"; works != (sent == want) {
					t.Errorf("a cookie %s signs in: %v", sent, works)
				}
			}
		})
	}
}

// Ending a session signs its user out: it takes the permissions that the user has, as signing out does.
func TestOnlySomebodyWithTheirPermissionsEndsASession(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		admin := s.user(s.tenants[0], atrium.RoleAdmin)
		s.login(s.link(s.tenants[0], admin))
		found, err := s.store.Sessions(t.Context(), s.tenants[0], admin)
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		path := "/manage/v0/users/" + string(admin) + "/sessions/" + string(found[0].ID)
		weak, _ := apptest.Key(t, s.store, s.tenants[0], atrium.ScopeManageUsers)
		strong, _ := apptest.Key(t, s.store, s.tenants[0], atrium.ScopeManage)
		if a := s.ask(http.MethodDelete, path, nil, "X-Api-Key: "+weak); a.StatusCode != http.StatusForbidden {
			t.Errorf("with manage:users only: %s", a.Status)
		}
		if a := s.ask(http.MethodDelete, path, nil, "X-Api-Key: "+strong); a.StatusCode != http.StatusNoContent {
			t.Errorf("with manage: %s", a.Status)
		}
	})
}

func TestAddressesThatAreNotUTF8AreRefused(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleAdmin)
		of := "/console/" + string(s.tenants[0])
		for _, path := range []string{"/moves/new?to=acme.example&pointer=%ff", "/accounts?q=%ff", "/audit?%ff=1"} {
			if a := s.ask(http.MethodGet, of+path, nil, cookie); a.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %s", path, a.Status)
			}
		}
	})
}
