package browser_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/app/apptest"
	"atrium/internal/store"
	"atrium/internal/store/engine/postgrestest"
)

const clientSecret = "a secret of the test"

// startProvider starts the identity provider of testdata/oidc, which npm installs, and returns its issuer.
func startProvider(t *testing.T, redirect, signedOut string) (issuer string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/oidc")); err != nil {
		t.Fatal(err)
	}
	install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	install.Dir, install.Stderr = dir, t.Output()
	if err := install.Run(); err != nil {
		t.Fatalf("install the identity provider: %v", err)
	}
	provider := exec.Command("node", "server.mjs", redirect, signedOut)
	provider.Dir, provider.Stderr, provider.Env = dir, t.Output(), append(os.Environ(), "CLIENT_SECRET="+clientSecret)
	out, err := provider.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := provider.Start(); err != nil {
		t.Fatalf("start the identity provider: %v", err)
	}
	t.Cleanup(func() {
		_ = provider.Process.Kill()
		_ = provider.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the identity provider did not start: %v", err)
	}
	return strings.TrimSpace(line)
}

// freeAddress returns an address of this machine that nothing listens on, and that no client is given.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := postgrestest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// A lobby is a server whose people sign in through the identity provider.
type lobby struct {
	base, issuer string
	tenants      map[string]atrium.TenantID
}

func newLobby(t *testing.T, database string) *lobby {
	t.Helper()
	s, err := store.Open(t.Context(), database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	addr := freeAddress(t)
	l := &lobby{base: "http://" + addr, tenants: map[string]atrium.TenantID{}}
	l.issuer = startProvider(t, l.base+"/console/login/callback", l.base+"/console/login?done=signedout")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(clientSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	apptest.Start(t, s, func(c *app.Config) {
		c.Settings.Addr, c.Settings.PublicURL = addr, l.base
		c.Settings.OIDCIssuer, c.Settings.OIDCClientID, c.Settings.OIDCClientSecretFile, c.Settings.OIDCLabel = l.issuer, "atrium", secret, "Example ID"
	})
	for name, groups := range map[string]map[string]atrium.Role{"Example Corp": {"editors": atrium.RoleEditor}, "Northwind": {"sales": atrium.RoleViewer}} {
		made, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), name)
		if err != nil {
			t.Fatal(err)
		}
		l.tenants[name] = made.ID
		for group, role := range groups {
			m := atrium.GroupMapping{ID: atrium.NewID[atrium.GroupMappingID](), Issuer: l.issuer, Group: group, Role: role}
			if _, _, err := s.CreateGroupMapping(t.Context(), atrium.CommandLine(made.ID), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	return l
}

// enterAs signs a person in at the provider.
func (b *tab) enterAs(name string) {
	b.t.Helper()
	b.open("/console")
	b.heading("Sign in to Atrium")
	b.screenshot("console-sso-login")
	b.checkLook("the sign-in")
	b.click(`a[href$="/console/login/sso"]`)
	b.until(`document.title === "Provider"`)
	b.enter("input[name=login]", name)
	b.click("button")
	b.until(`location.pathname.startsWith("/console") && document.readyState === "complete"`)
}

func TestPeopleSignInThroughACertifiedProvider(t *testing.T) {
	browser := newBrowser(t)
	for engine, database := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "atrium.db") },
		"postgres": func(t *testing.T) string { return postgrestest.Shared(t).NewDatabase(t) },
	} {
		t.Run(engine, func(t *testing.T) {
			l := newLobby(t, database(t))
			for _, v := range views() {
				for _, scripts := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s, scripts %v", v.name, scripts), func(t *testing.T) {
						tab := func() *tab {
							b := newTab(t, browser, l.base, v)
							b.also = l.issuer
							if !scripts {
								b.withoutScripts()
							}
							return b
						}
						b := tab()
						b.enterAs("jane")
						b.heading("Overview")
						if path := get[string](b, "location.pathname"); !strings.HasPrefix(path, "/console/"+string(l.tenants["Example Corp"])) {
							t.Errorf("the sign-in ends at %s", path)
						}
						b.open("/console/" + string(l.tenants["Example Corp"]) + "/people")
						b.heading("Users")
						if page := b.seen("main"); !strings.Contains(page, "Jane Doe") || !strings.Contains(page, "Example ID") || !strings.Contains(page, "editors") {
							t.Errorf("the page of people shows %s", page)
						}
						b.screenshot("console-sso-people")
						b.checkLook("people and groups")
						b.click(`form[action="/console/logout"] button:not([type])`)
						b.until(`document.querySelector("button[name=logout]") !== null && document.readyState === "complete"`) // of the provider
						b.click(`button[name=logout][value=yes]`)
						b.until(`location.pathname === "/console/login" && document.readyState === "complete"`)
						if page := b.seen("main"); !strings.Contains(b.seen("body"), "You are signed out.") {
							t.Errorf("after the sign-out, the page shows %s", page)
						}
						b.enterAs("jane") // the provider has forgotten the person
						b.heading("Overview")

						b = tab()
						b.enterAs("kim")
						b.heading("Choose a tenant")
						b.screenshot("console-sso-choose")
						b.checkLook("the choice of a tenant")
						if scripts {
							b.checkAccess("the choice of a tenant")
						}
						b.submit(`form[action="/console/login/tenant"] button:nth-of-type(2)`)
						b.heading("Overview")

						b = tab()
						b.expected = "403"
						b.enterAs("sam")
						if problem := b.seen("p.problem"); !strings.Contains(problem, "None of your groups") {
							t.Errorf("a person without a role sees %q", problem)
						}
						b.screenshot("console-sso-refused")
						b.checkLook("the refusal")
					})
				}
			}
		})
	}
}
