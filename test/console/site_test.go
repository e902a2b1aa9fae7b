package console

import (
	"bytes"
	"cmp"
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

	"atrium"
	"atrium/internal/app"
	"atrium/internal/app/apptest"
	"atrium/internal/auth"
	"atrium/internal/config"
	"atrium/internal/store"
	"atrium/internal/store/engine/postgrestest"
	"atrium/internal/store/storetest"
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
func onEveryEngine(t *testing.T, f func(t *testing.T, s *site), change ...func(*app.Config)) {
	t.Helper()
	for engine, database := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "atrium.db") },
		"postgres": func(t *testing.T) string { return storetest.NewMigrated(t) },
	} {
		t.Run(engine, func(t *testing.T) {
			s := newSite(t, database(t), change...)
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
	unlimited := func(c *app.Config) { c.Settings.AnonymousRate = config.Rate{} }
	s.base = "http://" + apptest.Start(s.t, s.store, append([]func(*app.Config){logged, unlimited}, change...)...)
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

// changes returns the number of audit records, without those of erasures that are complete: a job writes them
// at any time.
func (s *site) changes() (n int64) {
	s.t.Helper()
	for _, chain := range []atrium.TenantID{s.tenants[0], s.tenants[1], atrium.OperatorChain} {
		head, err := s.store.AuditHead(s.t.Context(), chain)
		if err != nil {
			s.t.Fatal(err)
		}
		complete, more, err := s.store.AuditRows(s.t.Context(), chain, atrium.AuditFilter{Action: "erasure.complete"}, head.Number+1, 1000)
		if err != nil || more != 0 {
			s.t.Fatal(err, more)
		}
		n += head.Number - int64(len(complete))
	}
	return n
}
