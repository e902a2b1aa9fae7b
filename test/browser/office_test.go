package browser_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/app/apptest"
	"atrium/internal/auth"
	"atrium/internal/canonical"
	"atrium/internal/store"
	"atrium/internal/store/engine/postgrestest"
	"atrium/internal/transfer"
)

// hostile is text that would be seen if a page did not escape it for its context.
const hostile = `<script>violation("script")</script>"'><img src=x onerror=violation("image")>{{.}}` + "`${1}` javascript:violation(1) \u202e\u0007"

// An office is a server with a tenant that has hostile data.
type office struct {
	store  *store.Store
	base   string
	tenant atrium.TenantID
}

// engines calls f with a new database of each engine.
func engines(t *testing.T, f func(t *testing.T, database string)) {
	t.Run("sqlite", func(t *testing.T) { f(t, "sqlite:"+filepath.Join(t.TempDir(), "atrium.db")) })
	t.Run("postgres", func(t *testing.T) { f(t, postgrestest.Shared(t).NewDatabase(t)) })
}

// scripting calls f with a tab that runs scripts and with one that does not.
func scripting(t *testing.T, o *office, f func(t *testing.T, b *tab)) {
	browser := newBrowser(t)
	for name, off := range map[string]bool{"with scripts": false, "without scripts": true} {
		t.Run(name, func(t *testing.T) {
			b := newTab(t, browser, o.base, views()[0])
			if off {
				b.withoutScripts()
			}
			f(t, b)
		})
	}
}

// newOffice starts a server on a database, with the demo data and a hostile account. change changes its settings.
func newOffice(t *testing.T, database string, change ...func(*app.Config)) *office {
	t.Helper()
	s, err := store.Open(t.Context(), database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	o := &office{store: s, base: "http://" + apptest.Start(t, s, change...)}
	made, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant "+hostile[:40])
	if err != nil {
		t.Fatal(err)
	}
	o.tenant = made.ID
	demo, err := os.Open("../../internal/cli/demo.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = demo.Close() }()
	if _, err := transfer.Import(t.Context(), s, o.tenant, demo, transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(map[string]any{hostile: hostile, "list": []any{1, map[string]any{"deep": []any{true, nil}}}})
	if err != nil {
		t.Fatal(err)
	}
	o.record(t, atrium.Submission{Source: "crm", Type: hostile, Payload: payload, Claim: atrium.Claim{Domain: "hostile.example", Name: hostile}})
	o.refuse(t)
	return o
}

func (o *office) record(t *testing.T, entry atrium.Submission) {
	t.Helper()
	d, err := canonical.Draft(o.tenant, entry)
	if err != nil {
		t.Fatal(err)
	}
	d.ID = atrium.NewID[atrium.EntryID]()
	if outcomes, err := o.store.Append(t.Context(), []*atrium.Draft{d}); err != nil || outcomes[0].Err != nil {
		t.Fatal(err, outcomes)
	}
}

// refuse stores refused requests: some of a key, and a hostile one.
func (o *office) refuse(t *testing.T) {
	t.Helper()
	key, _, err := o.store.CreateKey(t.Context(), atrium.CommandLine(o.tenant), atrium.APIKey{ID: atrium.NewID[atrium.KeyID](), Name: "CRM", Scopes: atrium.ExternalScopes()}, make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	var all []atrium.RefusedRequest
	add := func(f atrium.RefusedRequest) {
		f.ID, f.TenantID, f.Method, f.KeyID = atrium.NewID[atrium.RefusedRequestID](), o.tenant, "POST", key.ID
		f.At = atrium.At(time.Now().Add(-time.Duration(len(all)) * 7 * time.Minute))
		all = append(all, f)
	}
	add(atrium.RefusedRequest{
		Count: 3, RequestID: "req_01kjpx722pf4xsjrspgpayc2qn", Route: "/v0/account_logs", Status: 400, Code: atrium.CodeInvalidRequest, UserAgent: "python-requests/2.32.3",
		Detail: "The request is not valid; see errors for each fault.", Faults: []atrium.Fault{
			{In: atrium.InBody, Where: "/source", Detail: "is required"}, {In: atrium.InBody, Where: "/payload", Detail: "must be an object"},
		},
	})
	add(atrium.RefusedRequest{
		Count: 1, RequestID: "req_01kjpx722pf4xsjrspgpayc2qm", Route: "/v0/account_logs", Status: 422, Code: atrium.CodeIdempotencyKeyReused, UserAgent: "python-requests/2.32.3",
		Detail: "The idempotency key was used for another request.",
	})
	add(atrium.RefusedRequest{
		Count: 40, RequestID: "hostile", Route: "/manage/v0/pages/{page_id}/audiences/{audience_id}/versions/{version_number}", Status: 403, Code: atrium.CodeForbidden,
		Detail: "The key needs the scope manage:pages.", UserAgent: hostile, Faults: []atrium.Fault{
			{In: atrium.InBody, Where: "/" + hostile[:100], Detail: "is unknown"}, {In: atrium.InQuery, Where: hostile[:100], Detail: "is unknown"}, {In: atrium.InHeader, Where: "If-Match", Detail: "is malformed"},
		},
	})
	if err := o.store.StoreRefusedRequests(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

// loginLink returns the path that signs in a new user.
func (o *office) loginLink(t *testing.T, role atrium.Role, name string) string {
	t.Helper()
	chain := o.tenant
	if role == atrium.RoleOperator {
		chain = atrium.OperatorChain
	}
	u, _, err := o.store.CreateUser(t.Context(), atrium.CommandLine(chain), atrium.User{ID: atrium.NewID[atrium.UserID](), Name: name, Role: role})
	if err != nil {
		t.Fatal(err)
	}
	id, token, hash := auth.NewLoginToken()
	if _, err := o.store.CreateLoginLink(t.Context(), atrium.CommandLine(chain), atrium.LoginLink{ID: id, UserID: u.ID}, hash, func(atrium.User) error { return nil }); err != nil {
		t.Fatal(err)
	}
	return "/console/login?token=" + url.QueryEscape(token)
}

// signIn opens a login link and follows its button.
func (b *tab) signIn(o *office, role atrium.Role) {
	b.t.Helper()
	b.open(o.loginLink(b.t, role, "Robin "+hostile[:8]))
	b.screenshot("console-login")
	b.checkLook("the sign-in")
	b.submit(`form[action="/console/login"] button`)
}

// submit clicks a button of a form and waits for the page that follows.
func (b *tab) submit(selector string) {
	b.t.Helper()
	get[int](b, `(window.before = 1)`)
	b.click(selector)
	b.until(`window.before !== 1 && document.readyState === "complete"`)
}

// confirm clicks a button of a form with a question, and answers yes: in the page or, without scripts, on the next one.
func (b *tab) confirm(selector string) {
	b.t.Helper()
	get[int](b, `(window.confirm = () => true, 0)`)
	b.submit(selector)
	if b.scriptsOff {
		b.submit(`button[name="confirmed"]`)
	}
}

// fill replaces the text of an input field.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	get[int](b, fmt.Sprintf(`(document.querySelector(%q).value = "", 0)`, selector))
	b.enter(selector, text)
}

// unfold opens everything that is folded.
func (b *tab) unfold() {
	b.t.Helper()
	get[int](b, `(document.querySelectorAll("details").forEach(d => d.open = true), 0)`)
}

// heading fails the test unless the page has the heading.
func (b *tab) heading(want string) {
	b.t.Helper()
	if got := b.seen("h1"); !strings.HasPrefix(got, want) {
		b.screenshot("failed")
		b.t.Fatalf("the page has the heading %q, want %q", got, want)
	}
}

// withoutScripts makes the tab ignore scripts of pages.
func (b *tab) withoutScripts() {
	b.t.Helper()
	b.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	b.scriptsOff = true
}

// changePage changes a page as somebody else.
func (o *office) changePage(t *testing.T, id atrium.PageID, title, pageContext string) {
	t.Helper()
	if _, err := o.store.UpdatePage(t.Context(), atrium.CommandLine(o.tenant), id, atrium.PageEdit{Title: &title, Context: &pageContext},
		func(atrium.ScheduledPage) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// ignoring says that the next page has an error status, which browsers log.
func (b *tab) ignoring(status string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = status
}
