// Package console tests who may do what in the console, as a client that is no browser and obeys no rule
// of browsers. The package browser tests what people see.
package console

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/app/apptest"
	"atrium/internal/auth"
	"atrium/internal/canonical"
	"atrium/internal/config"
	"atrium/internal/console"
	"atrium/internal/store"
	"atrium/internal/store/engine/postgrestest"
	"atrium/internal/transfer"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

// A site is one or more servers on a database with two tenants, which have the same data.
type site struct {
	t        *testing.T
	store    *store.Store
	base     string
	database string
	tenants  [2]atrium.TenantID
	log      *bytes.Buffer
	client   *http.Client
}

// onEveryEngine calls f with a new site on each engine.
func onEveryEngine(t *testing.T, f func(t *testing.T, s *site)) {
	t.Helper()
	for engine, database := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "atrium.db") },
		"postgres": func(t *testing.T) string { return postgrestest.Shared(t).NewDatabase(t) },
	} {
		t.Run(engine, func(t *testing.T) {
			s := newSite(t, database(t))
			f(t, s)
		})
	}
}

const lines = `{"kind":"account","accountId":"account_00000000000000000000000001","domain":"acme.example","name":"Acme","createdAt":"2026-03-02T09:00:00.000Z","updatedAt":"2026-03-02T09:00:00.000Z"}
{"kind":"account","accountId":"account_00000000000000000000000002","domain":"beta.example","createdAt":"2026-03-02T09:00:00.000Z","updatedAt":"2026-03-02T09:00:00.000Z"}
{"kind":"prospect","prospectId":"prospect_00000000000000000000000001","name":"Kim","accountIds":["account_00000000000000000000000001"],"createdAt":"2026-03-02T09:00:00.000Z","updatedAt":"2026-03-02T09:00:00.000Z"}
{"kind":"brand","brandId":"brand_00000000000000000000000001","name":"Acme","createdAt":"2026-03-02T09:00:00.000Z","updatedAt":"2026-03-02T09:00:00.000Z"}
{"kind":"page","pageId":"page_00000000000000000000000001","brandId":"brand_00000000000000000000000001","name":"Spring","title":"Spring","pageContext":"","status":"draft","actions":[],"scripts":[],"footerLinks":[],"createdAt":"2026-03-02T09:00:00.000Z","updatedAt":"2026-03-02T09:00:00.000Z"}
{"kind":"audience","audienceId":"audience_00000000000000000000000001","pageId":"page_00000000000000000000000001","name":"Readers","archived":false,"createdAt":"2026-03-02T09:00:00.000Z","updatedAt":"2026-03-02T09:00:00.000Z"}
{"kind":"audienceVersion","id":"version_00000000000000000000000001","pageId":"page_00000000000000000000000001","audienceId":"audience_00000000000000000000000001","versionNumber":1,"archived":false,"content":{"a":1},"createdAt":"2026-03-02T09:00:00.000Z"}
{"kind":"accountLog","accountLogId":"prospectlog_00000000000000000000000001","accountId":"account_00000000000000000000000001","source":"crm","type":"deal","payload":{"a":1},"claimed":{"domain":"acme.example"},"createdAt":"2026-03-02T09:00:00.000Z"}
`

func newSite(t *testing.T, database string, change ...func(*app.Config)) *site {
	t.Helper()
	db, err := store.Open(t.Context(), database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := &site{t: t, store: db, database: database, log: &bytes.Buffer{}}
	s.serve(change...)
	for i := range s.tenants {
		made, _, err := db.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
		if err != nil {
			t.Fatal(err)
		}
		s.tenants[i] = made.ID
		own := strings.ReplaceAll(lines, "0000000000000000000000000", "000000000000000000000000"+string(rune('a'+i)))
		if _, err := transfer.Import(t.Context(), db, made.ID, strings.NewReader(own), transfer.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// serve starts a server, which later requests go to.
func (s *site) serve(change ...func(*app.Config)) {
	s.t.Helper()
	logged := func(c *app.Config) { c.Log = slog.New(slog.NewTextHandler(&lockedWriter{to: s.log}, nil)) }
	s.base = "http://" + apptest.Start(s.t, s.store, append(change, logged, func(c *app.Config) { c.Settings.AnonymousRate = config.Rate{} })...)
	s.client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

type lockedWriter struct {
	mu sync.Mutex
	to *bytes.Buffer
}

func (w *lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(b)
}

// user creates a user of a tenant, or an operator.
func (s *site) user(tenant atrium.TenantID, role atrium.Role) atrium.UserID {
	s.t.Helper()
	u, _, err := s.store.CreateUser(s.t.Context(), atrium.CommandLine(tenant), atrium.User{ID: atrium.NewID[atrium.UserID](), Name: "Robin", Role: role})
	if err != nil {
		s.t.Fatal(err)
	}
	return u.ID
}

// link returns the token of a login link of a user.
func (s *site) link(tenant atrium.TenantID, user atrium.UserID) string {
	s.t.Helper()
	id, token, hash := auth.NewLoginToken()
	if _, err := s.store.CreateLoginLink(s.t.Context(), atrium.CommandLine(tenant), atrium.LoginLink{ID: id, UserID: user}, hash, func(atrium.User) error { return nil }); err != nil {
		s.t.Fatal(err)
	}
	return token
}

// An answer is a response with its body.
type answer struct {
	*http.Response
	body string
}

// ask sends a request with headers of the form "Name: value".
func (s *site) ask(method, path string, form url.Values, headers ...string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return s.send(r, headers...)
}

// send sends a request with headers.
func (s *site) send(r *http.Request, headers ...string) answer {
	s.t.Helper()
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	response, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{response, string(body)}
}

// login uses a link and returns the header with the cookie of the session.
func (s *site) login(link string) (cookie string) {
	s.t.Helper()
	a := s.ask(http.MethodPost, "/console/login", url.Values{"token": {link}})
	if a.StatusCode != http.StatusSeeOther || len(a.Cookies()) != 1 {
		s.t.Fatalf("sign-in: %s %v %s", a.Status, a.Header, a.body)
	}
	return "Cookie: " + a.Cookies()[0].Name + "=" + a.Cookies()[0].Value
}

// signIn returns the cookie of a new user with a role.
func (s *site) signIn(role atrium.Role) string {
	s.t.Helper()
	tenant := s.tenants[0]
	if role == atrium.RoleOperator {
		tenant = atrium.OperatorChain
	}
	return s.login(s.link(tenant, s.user(tenant, role)))
}

// A place is a route, with the scope that a change needs, and its form. Pages need none.
type place struct {
	needs atrium.Scope
	form  url.Values // its field file is uploaded
}

// seen is what the forms of an account have about its state.
func seen(more ...string) url.Values {
	form := url.Values{"seenName": {"Acme"}, "seenDomain": {"acme.example"}}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return form
}

// places are the routes about a tenant. {tenant} stands for the tenant, {n} for its letter, and {user} for a
// user of it.
var places = map[string]place{
	"GET /console/{tenant}":                                                                                         {},
	"GET /console/{tenant}/accounts":                                                                                {},
	"GET /console/{tenant}/reads":                                                                                   {atrium.ScopeManageErase, nil},
	"GET /console/{tenant}/refused?code=not_found":                                                                  {},
	"GET /console/{tenant}/accounts/account_000000000000000000000000{n}1":                                           {},
	"GET /console/{tenant}/accounts/account_000000000000000000000000{n}1/merge":                                     {atrium.ScopeManageAccounts, nil},
	"GET /console/{tenant}/activity":                                                                                {},
	"GET /console/{tenant}/activity/prospectlog_000000000000000000000000{n}1":                                       {},
	"GET /console/{tenant}/pages":                                                                                   {},
	"GET /console/{tenant}/pages/page_000000000000000000000000{n}1":                                                 {},
	"GET /console/{tenant}/keys":                                                                                    {},
	"GET /console/{tenant}/people":                                                                                  {},
	"GET /console/{tenant}/people/{user}":                                                                           {},
	"GET /console/{tenant}/audit":                                                                                   {},
	"POST /console/{tenant}/accounts/account_000000000000000000000000{n}1":                                          {atrium.ScopeManageAccounts, seen("name", "New", "domain", "acme.example")},
	"POST /console/{tenant}/accounts/account_000000000000000000000000{n}1/merge":                                    {atrium.ScopeManageAccounts, seen("into", "account_000000000000000000000000{n}2")},
	"POST /console/{tenant}/accounts/account_000000000000000000000000{n}1/split":                                    {atrium.ScopeManageAccounts, seen("accountId", "account_000000000000000000000000{n}2")},
	"POST /console/{tenant}/activity/prospectlog_000000000000000000000000{n}1/move":                                 {atrium.ScopeManageAccounts, url.Values{"account": {"beta.example"}}},
	"POST /console/{tenant}/moves/move_00000000000000000000000000/undo":                                             {atrium.ScopeManageAccounts, nil},
	"POST /console/{tenant}/pages/page_000000000000000000000000{n}1/publish":                                        {atrium.ScopeManagePages, nil},
	"GET /console/{tenant}/accounts/account_000000000000000000000000{n}1/erase":                                     {atrium.ScopeManageAccounts, nil},
	"POST /console/{tenant}/accounts/account_000000000000000000000000{n}2/erase":                                    {atrium.ScopeManageAccounts, url.Values{"domain": {"wrong.example"}, "seenDomain": {"wrong.example"}}},
	"POST /console/{tenant}/accounts/account_000000000000000000000000{n}1/prospects":                                {atrium.ScopeManageAccounts, url.Values{"name": {"New"}}},
	"POST /console/{tenant}/accounts/account_000000000000000000000000{n}1/unlink":                                   {atrium.ScopeManageAccounts, url.Values{"prospectId": {"prospect_000000000000000000000000{n}1"}}},
	"GET /console/{tenant}/prospects/prospect_000000000000000000000000{n}1":                                         {},
	"POST /console/{tenant}/prospects/prospect_000000000000000000000000{n}1":                                        {atrium.ScopeManageAccounts, url.Values{"name": {"New"}, "tag": {"*"}}},
	"GET /console/{tenant}/pages/new":                                                                               {atrium.ScopeManagePages, nil},
	"POST /console/{tenant}/pages":                                                                                  {atrium.ScopeManagePages, url.Values{"brandName": {"New"}, "name": {"New"}}},
	"GET /console/{tenant}/pages/page_000000000000000000000000{n}1/edit":                                            {atrium.ScopeManagePages, nil},
	"POST /console/{tenant}/pages/page_000000000000000000000000{n}1/edit":                                           {atrium.ScopeManagePages, url.Values{"name": {"New"}, "tag": {"*"}}},
	"POST /console/{tenant}/pages/page_000000000000000000000000{n}1/schedule":                                       {atrium.ScopeManagePages, url.Values{"publishAt": {"2999-01-01T00:00"}}},
	"POST /console/{tenant}/pages/page_000000000000000000000000{n}1/audiences":                                      {atrium.ScopeManagePages, url.Values{"name": {"New"}}},
	"GET /console/{tenant}/pages/page_000000000000000000000000{n}1/audiences/audience_000000000000000000000000{n}1": {},
	"GET /console/{tenant}/audit/verify":                                                                            {},
	"GET /console/{tenant}/transfer":                                                                                {},
	"GET /console/{tenant}/export.ndjson":                                                                           {},
	"GET /console/{tenant}/audit.ndjson":                                                                            {},
	"POST /console/{tenant}/import/columns":                                                                         {atrium.ScopeManage, url.Values{"kind": {"accounts"}, "file": {"domain\nnew.example\n"}}},
	"POST /console/{tenant}/import":                                                                                 {atrium.ScopeManage, url.Values{"kind": {"accounts"}, "column:domain": {"0:domain"}, "skip": {"true"}, "file": {"domain\nnew.example\n"}}},
	"GET /console/{tenant}/prospects":                                                                               {},
	"GET /console/{tenant}/moves.csv":                                                                               {},
	"GET /console/{tenant}/refused.csv":                                                                             {},
	"GET /console/{tenant}/reads.csv":                                                                               {atrium.ScopeManageErase, nil},
	"GET /console/{tenant}/accounts.csv":                                                                            {},
	"GET /console/{tenant}/activity.csv":                                                                            {},
	"GET /console/{tenant}/prospects.csv":                                                                           {},
	"GET /console/{tenant}/pages.csv":                                                                               {},
	"GET /console/{tenant}/keys.csv":                                                                                {},
	"GET /console/{tenant}/people.csv":                                                                              {},
	"GET /console/{tenant}/audit.csv":                                                                               {},
	"GET /console/{tenant}/pages/page_000000000000000000000000{n}1/audiences/audience_000000000000000000000000{n}1/compare?from=1&to=1": {},
	"GET /console/{tenant}/pages/page_000000000000000000000000{n}1/audiences/audience_000000000000000000000000{n}1/versions/1":          {},
	"POST /console/{tenant}/pages/page_000000000000000000000000{n}1/audiences/audience_000000000000000000000000{n}1/versions":           {atrium.ScopeManagePages, url.Values{"content": {"{}"}}},
	"POST /console/{tenant}/pages/page_000000000000000000000000{n}1/audiences/audience_000000000000000000000000{n}1/versions/1/publish": {atrium.ScopeManagePages, nil},
	"POST /console/{tenant}/pages/page_000000000000000000000000{n}1/audiences/audience_000000000000000000000000{n}1/versions/1/preview": {atrium.ScopeManagePages, nil},
	"POST /console/{tenant}/keys":                                                 {atrium.ScopeManageKeys, url.Values{"name": {"New"}, "scopes": {"pages:read"}}},
	"POST /console/{tenant}/keys?for=site":                                        {atrium.ScopeManageKeys, url.Values{"name": {"New"}, "origins": {"https://www.example.com"}}},
	"POST /console/{tenant}/keys/key_00000000000000000000000000/revoke":           {atrium.ScopeManageKeys, nil},
	"POST /console/{tenant}/people":                                               {atrium.ScopeManageUsers, url.Values{"name": {"New"}, "role": {"viewer"}}},
	"GET /console/{tenant}/moves":                                                 {},
	"GET /console/{tenant}/moves/new?to=beta.example&claimedName=New":             {atrium.ScopeManageAccounts, nil},
	"POST /console/{tenant}/moves":                                                {atrium.ScopeManageAccounts, url.Values{"to": {"beta.example"}, "from": {"acme.example"}, "claimedDomain": {"acme.example"}}},
	"GET /console/{tenant}/privacy":                                               {},
	"GET /console/{tenant}/privacy/person":                                        {atrium.ScopeManageErase, nil},
	"POST /console/{tenant}/privacy/person":                                       {atrium.ScopeManageErase, url.Values{"text": {"nobody"}, "confirm": {"erase"}}},
	"GET /console/{tenant}/activity/summaries?source=web":                         {},
	"POST /console/{tenant}/activity/summaries":                                   {atrium.ScopeManageAccounts, url.Values{"source": {"web"}, "template": {"{/name}"}}},
	"POST /console/{tenant}/activity/summaries?preview":                           {atrium.ScopeManageAccounts, url.Values{"source": {"web"}, "template": {"{/name}"}, "preview": {"yes"}}},
	"GET /console/{tenant}/privacy/retention":                                     {atrium.ScopeManageErase, nil},
	"POST /console/{tenant}/privacy/retention":                                    {atrium.ScopeManageErase, url.Values{"tag": {"*"}, "days:0": {"3650"}, "confirm": {"yes"}}},
	"GET /console/{tenant}/brands":                                                {},
	"POST /console/{tenant}/brands":                                               {atrium.ScopeManagePages, url.Values{"name": {"New"}}},
	"POST /console/{tenant}/brands/brand_000000000000000000000000{n}1/rename":     {atrium.ScopeManagePages, url.Values{"name": {"New"}, "seenName": {"Acme"}}},
	"POST /console/{tenant}/accounts":                                             {atrium.ScopeManageAccounts, url.Values{"domain": {"new.example"}}},
	"POST /console/{tenant}/accounts/account_000000000000000000000000{n}1/link":   {atrium.ScopeManageAccounts, url.Values{"prospectId": {"prospect_000000000000000000000000{n}1"}}},
	"POST /console/{tenant}/prospects/prospect_00000000000000000000000000/delete": {atrium.ScopeManageAccounts, url.Values{"tag": {"*"}}},
	"POST /console/{tenant}/pages/page_000000000000000000000000{n}1/delete":       {atrium.ScopeManagePages, url.Values{"tag": {"*"}}},
	"POST /console/{tenant}/pages/page_000000000000000000000000{n}1/undelete":     {atrium.ScopeManagePages, url.Values{"tag": {"*"}}},
	"POST /console/{tenant}/pages/page_000000000000000000000000{n}1/audiences/audience_000000000000000000000000{n}1/rename":  {atrium.ScopeManagePages, url.Values{"name": {"New"}, "tag": {"*"}}},
	"POST /console/{tenant}/pages/page_000000000000000000000000{n}1/audiences/audience_000000000000000000000000{n}1/restore": {atrium.ScopeManagePages, url.Values{"tag": {"*"}}},
	"POST /console/{tenant}/pages/page_000000000000000000000000{n}1/previews/preview_00000000000000000000000000/end":         {atrium.ScopeManagePages, nil},
	"POST /console/{tenant}/keys/key_00000000000000000000000000/rotate":                                                      {atrium.ScopeManageKeys, nil},
	"POST /console/{tenant}/people/{user}/link":                                                                              {atrium.ScopeManageUsers, nil},
	"POST /console/{tenant}/people/groups":                                                                                   {atrium.ScopeManageUsers, url.Values{"group": {"staff"}, "role": {"viewer"}}},
	"POST /console/{tenant}/people/groups/mapping_00000000000000000000000000":                                                {atrium.ScopeManageUsers, nil},
}

// operatorPlaces are those of operators only.
var operatorPlaces = map[string]place{
	"GET /console/tenants":                 {},
	"GET /console/server":                  {},
	"GET /console/{tenant}/tenant":         {},
	"POST /console/{tenant}/tenant/rename": {atrium.ScopeManage, url.Values{"name": {"New"}, "tag": {"*"}}},
	"POST /console/tenants":                {atrium.ScopeManage, url.Values{"name": {"New"}}},
}

func (s *site) visit(place string, p place, tenant int, user atrium.UserID, headers ...string) answer {
	s.t.Helper()
	fill := strings.NewReplacer("{tenant}", string(s.tenants[tenant]), "{n}", string(rune('a'+tenant)), "{user}", string(user))
	method, path, _ := strings.Cut(fill.Replace(place), " ")
	form := url.Values{}
	for name, values := range p.form {
		form.Set(name, fill.Replace(values[0]))
	}
	if file := form.Get("file"); file != "" {
		form.Del("file")
		return s.upload(path, form, file, headers...)
	}
	return s.ask(method, path, form, headers...)
}

// upload sends a form with a file.
func (s *site) upload(path string, fields url.Values, file string, headers ...string) answer {
	s.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, values := range fields {
		for _, value := range values {
			_ = form.WriteField(name, value) // to a buffer
		}
	}
	part, err := form.CreateFormFile("file", "file.csv")
	if err == nil {
		_, err = io.WriteString(part, file)
	}
	if err = cmp.Or(err, form.Close()); err != nil {
		s.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.base+path, &body)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.send(r, append(headers, "Content-Type: "+form.FormDataContentType())...)
}

// changes returns the number of audit records.
func (s *site) changes() (n int64) {
	s.t.Helper()
	for _, chain := range []atrium.TenantID{s.tenants[0], s.tenants[1], atrium.OperatorChain} {
		head, err := s.store.AuditHead(s.t.Context(), chain)
		if err != nil {
			s.t.Fatal(err)
		}
		n += head.Number
	}
	return n
}

func TestEveryRouteIsInTheMatrix(t *testing.T) {
	mux := http.NewServeMux()
	known := map[string]bool{
		"GET /console": true, "GET /console/login": true, "POST /console/login": true, "POST /console/logout": true, "GET /console/{path...}": true,
		"GET /console/login/sso": true, "GET /console/login/callback": true, "GET /console/login/tenant": true, "POST /console/login/tenant": true, // sso_test.go
		"GET /console/console.js": true, "GET /console/live.js": true, "GET /console/style.css": true, "GET /console/icon.svg": true,
	}
	for pattern, handler := range (&console.Console{}).Handlers() {
		mux.Handle(pattern, handler)
	}
	for _, all := range []map[string]place{places, operatorPlaces} {
		for p := range all {
			method, path, _ := strings.Cut(strings.NewReplacer("{tenant}", "tenant_0", "{n}", "a", "{user}", "user_0").Replace(p), " ")
			r, err := http.NewRequestWithContext(t.Context(), method, path, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, pattern := mux.Handler(r)
			known[pattern] = true
		}
	}
	for pattern := range (&console.Console{}).Handlers() {
		if !known[pattern] {
			t.Errorf("%s is not in the matrix of roles", pattern)
		}
	}
}

// Each role may do what its scopes allow in its tenant, and nothing in another one.
func TestRolesAndTenants(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		s.withProvider(jane())
		users := [2]atrium.UserID{s.user(s.tenants[0], atrium.RoleViewer), s.user(s.tenants[1], atrium.RoleViewer)}
		for _, role := range append(atrium.TenantRoles(), atrium.RoleOperator, "nobody") {
			cookie := "X-None: x"
			if role != "nobody" {
				cookie = s.signIn(role)
			}
			for route, p := range places {
				for tenant := range s.tenants {
					before := s.changes()
					a := s.visit(route, p, tenant, users[tenant], cookie)
					changed := s.changes() != before
					want := "anything but 401, 403, 404 and 5xx"
					ok := a.StatusCode < 400 || a.StatusCode == http.StatusConflict || a.StatusCode == http.StatusPreconditionFailed ||
						a.StatusCode == http.StatusNotFound && (strings.Contains(route, "_00000000000000000000000000") || strings.HasSuffix(route, "/split")) // what is not there
					switch {
					case role == "nobody":
						want, ok = "a redirect to the sign-in", a.StatusCode == http.StatusSeeOther && a.Header.Get("Location") == "/console/login" && !changed
					case tenant == 1 && role != atrium.RoleOperator:
						want, ok = "404 and no change", a.StatusCode == http.StatusNotFound && !changed
					case p.needs != "" && !role.Scopes().Has(p.needs): // 412 if others have changed the account
						want, ok = "403 and no change", (a.StatusCode == http.StatusForbidden || a.StatusCode == http.StatusPreconditionFailed) && !changed
					}
					if !ok {
						t.Errorf("%s as %s in tenant %d: %s, changed %v, want %s", route, role, tenant, a.Status, changed, want)
					}
				}
			}
			for route, p := range operatorPlaces {
				before := s.changes()
				a := s.visit(route, p, 0, "", cookie)
				if role != atrium.RoleOperator && role != "nobody" && (a.StatusCode != http.StatusNotFound || s.changes() != before) {
					t.Errorf("%s as %s: %s", route, role, a.Status)
				}
				if role == atrium.RoleOperator && a.StatusCode >= 400 {
					t.Errorf("%s as %s: %s", route, role, a.Status)
				}
			}
		}
	})
}

func TestAnotherSiteCannotSendForms(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleAdmin)
		user := s.user(s.tenants[0], atrium.RoleViewer)
		link := s.link(s.tenants[0], user)
		before := s.changes()
		for _, header := range []string{"Origin: https://evil.example", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: null"} {
			for route, p := range places {
				if strings.HasPrefix(route, "POST") {
					if a := s.visit(route, p, 0, user, cookie, header); a.StatusCode != http.StatusForbidden {
						t.Errorf("%s with %s: %s", route, header, a.Status)
					}
				}
			}
			for path, form := range map[string]url.Values{"/console/login": {"token": {link}}, "/console/logout": nil} {
				if a := s.ask(http.MethodPost, path, form, cookie, header); a.StatusCode != http.StatusForbidden || len(a.Cookies()) > 0 {
					t.Errorf("%s with %s: %s %v", path, header, a.Status, a.Cookies())
				}
			}
		}
		if after := s.changes(); after != before {
			t.Errorf("%d changes by another site", after-before)
		}
		if a := s.ask(http.MethodGet, "/console", nil, cookie); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") == "/console/login" {
			t.Errorf("another site ended the session: %s", a.Status)
		}
	})
}

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

func TestATrailingSlashLeadsToTheConsole(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		if a := s.ask(http.MethodGet, "/console/", nil, s.signIn(atrium.RoleViewer)); a.StatusCode != http.StatusMovedPermanently || a.Header.Get("Location") != "/console" {
			t.Errorf("%s, to %q", a.Status, a.Header.Get("Location"))
		}
		if a := s.ask(http.MethodGet, "/console/", nil); a.Header.Get("Location") != "/console/login" {
			t.Errorf("without a session: %s, to %q", a.Status, a.Header.Get("Location"))
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

func TestEveryResponseForbidsWhatPagesDoNotNeed(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleViewer)
		for _, path := range []string{"/console/login", "/console", "/console/nothing", "/console/" + string(s.tenants[0]) + "/accounts", "/console/" + string(s.tenants[1]) + "/accounts"} {
			h := s.ask(http.MethodGet, path, nil, cookie).Header
			for name, want := range map[string]string{
				"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
				"Referrer-Policy":         "same-origin", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
				"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
			} {
				if h.Get(name) != want {
					t.Errorf("%s: %s is %q", path, name, h.Get(name))
				}
			}
		}
	})
}

// A person on a slow connection sees the overview soon: it is small, and nothing else is loaded.
func TestTheFirstViewIsSmall(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		var many strings.Builder
		now := time.Now().UTC()
		for i := range 480 { // each hour of the last day has entries of 20 sources, with long names
			fmt.Fprintf(&many, `{"kind":"accountLog","accountId":"account_000000000000000000000000a1","source":"%s%d","type":%q,"payload":{},"createdAt":%q}`+"\n",
				strings.Repeat("source", 15), i%20, strings.Repeat("<&>", 30), now.Add(-time.Duration(i/20)*time.Hour).Format("2006-01-02T15:04:05.000Z"))
		}
		if _, err := transfer.Import(t.Context(), s.store, s.tenants[0], strings.NewReader(many.String()), transfer.Options{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.store.SweepCounts(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		for more := true; more; {
			var err error
			if more, err = s.store.UpdateCounts(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		cookie := s.signIn(atrium.RoleViewer)
		size := 0
		for _, path := range []string{"/console/" + string(s.tenants[0]), "/console/style.css", "/console/console.js", "/console/icon.svg"} {
			a := s.ask(http.MethodGet, path, nil, cookie)
			if a.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s", path, a.Status)
			}
			if size += len(a.body); path == "/console/"+string(s.tenants[0]) && !strings.Contains(a.body, `<rect class="others"`) {
				t.Error("the overview has no bars")
			}
		}
		if size > 60_000 {
			t.Errorf("the first view has %d bytes", size)
		}
	})
}

// The overview has what needs attention in its tenant, and nothing of another one.
func TestTheOverviewLeadsToWhatNeedsAttention(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		in := func(d time.Duration) *atrium.Time { at := atrium.At(time.Now().Add(d)); return &at }
		for i, tenant := range s.tenants {
			name := []string{"own", "foreign"}[i]
			for suffix, ends := range map[string]*atrium.Time{" ending": in(10 * 24 * time.Hour), " lasting": in(40 * 24 * time.Hour), " endless": nil} {
				k := atrium.APIKey{ID: atrium.NewID[atrium.KeyID](), Name: name + suffix, Scopes: atrium.ExternalScopes(), ExpiresAt: ends}
				if _, _, err := s.store.CreateKey(t.Context(), atrium.CommandLine(tenant), k, make([]byte, 32)); err != nil {
					t.Fatal(err)
				}
			}
			page := atrium.PageID("page_000000000000000000000000" + string(rune('a'+i)) + "1")
			if _, err := s.store.SchedulePage(t.Context(), atrium.CommandLine(tenant), page, atrium.Schedule{PublishAt: in(time.Hour)}, func(atrium.ScheduledPage) error { return nil }); err != nil {
				t.Fatal(err)
			}
			for range 2 - i {
				d, err := canonical.Draft(tenant, atrium.Submission{Source: "crm", Type: "deal", Payload: []byte("{}"), Claim: atrium.Claim{Name: "Nobody"}})
				if err != nil {
					t.Fatal(err)
				}
				d.ID = atrium.NewID[atrium.EntryID]()
				if outcomes, err := s.store.Append(t.Context(), []*atrium.Draft{d}); err != nil || outcomes[0].Err != nil {
					t.Fatal(outcomes, err)
				}
			}
		}
		own := "/console/" + string(s.tenants[0])
		a := s.ask(http.MethodGet, own, nil, s.signIn(atrium.RoleViewer))
		for _, want := range []string{
			`href="` + own + `/activity?unattributed=true">2</a>`, `href="` + own + `/keys?state=active">own ending</a>`,
			`href="` + own + `/pages/page_000000000000000000000000a1">Spring</a>`, `href="` + own + `/accounts/account_000000000000000000000000a1">Acme</a>`,
			"The service is ready.", `href="` + own + `?range=7d">7 days</a>`,
		} {
			if !strings.Contains(a.body, want) {
				t.Errorf("the overview does not have %s:\n%s", want, a.body)
			}
		}
		for _, not := range []string{"lasting", "endless", "foreign", "000000000b1", string(s.tenants[1])} {
			if strings.Contains(a.body, not) {
				t.Errorf("the overview has %s", not)
			}
		}
	})
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
