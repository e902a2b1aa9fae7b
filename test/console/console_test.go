// Package console tests who may do what in the console, as a client that is no browser and obeys no rule
// of browsers. The package browser tests what people see.
package console

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/console"
	"atrium/internal/transfer"
)

// A place is a route, with the scope that a change needs, and its form. Pages need none.
type place struct {
	needs atrium.Scope
	form  url.Values // its field file is uploaded
}

// seen is what the forms of an account have about its state.
func seen(more ...string) url.Values {
	form := url.Values{"seen:name": {"Acme"}, "seen:domain": {"acme.example"}}
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
	"POST /console/{tenant}/accounts/account_000000000000000000000000{n}2/erase":                                    {atrium.ScopeManageAccounts, url.Values{"domain": {"wrong.example"}, "seen:domain": {"wrong.example"}}},
	"POST /console/{tenant}/accounts/account_000000000000000000000000{n}1/prospects":                                {atrium.ScopeManageAccounts, url.Values{"name": {"New"}}},
	"POST /console/{tenant}/accounts/account_000000000000000000000000{n}1/unlink":                                   {atrium.ScopeManageAccounts, url.Values{"prospectId": {"prospect_000000000000000000000000{n}1"}}},
	"GET /console/{tenant}/prospects/prospect_000000000000000000000000{n}1":                                         {},
	"POST /console/{tenant}/prospects/prospect_000000000000000000000000{n}1":                                        {atrium.ScopeManageAccounts, url.Values{"name": {"New"}, "tag": {"*"}}},
	"POST /console/{tenant}/prospects/prospect_000000000000000000000000{n}1/link":                                   {atrium.ScopeManageAccounts, url.Values{"account": {"beta.example"}}},
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
	"GET /console/{tenant}/accounts/active":                                                                         {},
	"GET /console/{tenant}/search":                                                                                  {},
	"GET /console/{tenant}/accounts/active.csv":                                                                     {},
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
	"POST /console/{tenant}/privacy/person.ndjson":                                {atrium.ScopeManageErase, url.Values{"text": {"nobody"}}},
	"GET /console/{tenant}/activity/summaries?source=web":                         {},
	"POST /console/{tenant}/activity/summaries":                                   {atrium.ScopeManageAccounts, url.Values{"source": {"web"}, "template": {"{/name}"}}},
	"POST /console/{tenant}/activity/summaries?preview":                           {atrium.ScopeManageAccounts, url.Values{"source": {"web"}, "template": {"{/name}"}, "preview": {"yes"}}},
	"GET /console/{tenant}/privacy/retention":                                     {atrium.ScopeManageErase, nil},
	"POST /console/{tenant}/privacy/retention":                                    {atrium.ScopeManageErase, url.Values{"tag": {"*"}, "days:0": {"3650"}, "confirm": {"yes"}}},
	"GET /console/{tenant}/brands":                                                {},
	"POST /console/{tenant}/brands":                                               {atrium.ScopeManagePages, url.Values{"name": {"New"}}},
	"POST /console/{tenant}/brands/brand_000000000000000000000000{n}1/rename":     {atrium.ScopeManagePages, url.Values{"name": {"New"}, "seen:name": {"Acme"}}},
	"POST /console/{tenant}/accounts":                                             {atrium.ScopeManageAccounts, url.Values{"domain": {"new.example"}}},
	"POST /console/{tenant}/accounts/account_000000000000000000000000{n}1/link":   {atrium.ScopeManageAccounts, url.Values{"prospect": {"prospect_000000000000000000000000{n}1"}}},
	"POST /console/{tenant}/prospects/prospect_00000000000000000000000000/delete": {atrium.ScopeManageAccounts, url.Values{"tag": {"*"}}},
	"POST /console/{tenant}/pages/page_000000000000000000000000{n}1/delete":       {atrium.ScopeManagePages, url.Values{"tag": {"*"}}},
	"POST /console/{tenant}/pages/page_000000000000000000000000{n}1/undelete":     {atrium.ScopeManagePages, url.Values{"tag": {"*"}}},
	"POST /console/{tenant}/pages/page_000000000000000000000000{n}1/audiences/audience_000000000000000000000000{n}1/rename":      {atrium.ScopeManagePages, url.Values{"name": {"New"}, "tag": {"*"}}},
	"POST /console/{tenant}/pages/page_000000000000000000000000{n}1/audiences/audience_000000000000000000000000{n}1/restore":     {atrium.ScopeManagePages, url.Values{"tag": {"*"}}},
	"POST /console/{tenant}/pages/page_000000000000000000000000{n}1/previews/preview_00000000000000000000000000/end":             {atrium.ScopeManagePages, nil},
	"POST /console/{tenant}/keys/key_00000000000000000000000000/rotate":                                                          {atrium.ScopeManageKeys, nil},
	"POST /console/{tenant}/people/{user}/link":                                                                                  {atrium.ScopeManageUsers, nil},
	"POST /console/{tenant}/people/groups":                                                                                       {atrium.ScopeManageUsers, url.Values{"group": {"staff"}, "role": {"viewer"}}},
	"POST /console/{tenant}/people/groups/mapping_00000000000000000000000000":                                                    {atrium.ScopeManageUsers, nil},
	"GET /console/{tenant}/webhooks.csv":                                                                                         {atrium.ScopeManageEvents, nil},
	"GET /console/{tenant}/webhooks/webhook_00000000000000000000000000/deliveries.csv":                                           {atrium.ScopeManageEvents, nil},
	"GET /console/{tenant}/receivers":                                                                                            {atrium.ScopeManageReceivers, nil},
	"POST /console/{tenant}/receivers":                                                                                           {atrium.ScopeManageReceivers, url.Values{"name": {"New"}, "provider": {"github"}}},
	"GET /console/{tenant}/receivers/receiver_00000000000000000000000000":                                                        {atrium.ScopeManageReceivers, nil},
	"GET /console/{tenant}/receivers/receiver_00000000000000000000000000/edit":                                                   {atrium.ScopeManageReceivers, nil},
	"POST /console/{tenant}/receivers/receiver_00000000000000000000000000/edit":                                                  {atrium.ScopeManageReceivers, url.Values{"name": {"New"}, "source": {"new"}, "tag": {"*"}}},
	"POST /console/{tenant}/receivers/receiver_00000000000000000000000000/try":                                                   {atrium.ScopeManageReceivers, url.Values{"body": {"{}"}}},
	"POST /console/{tenant}/receivers/receiver_00000000000000000000000000/disable":                                               {atrium.ScopeManageReceivers, url.Values{"tag": {"*"}}},
	"POST /console/{tenant}/receivers/receiver_00000000000000000000000000/map":                                                   {atrium.ScopeManageReceivers, nil},
	"GET /console/{tenant}/receivers/receiver_00000000000000000000000000/quarantine/quarantined_00000000000000000000000000":      {atrium.ScopeManageReceivers, nil},
	"POST /console/{tenant}/receivers/receiver_00000000000000000000000000/quarantine/quarantined_00000000000000000000000000/map": {atrium.ScopeManageReceivers, nil},
	"GET /console/{tenant}/webhooks":                                                                                             {atrium.ScopeManageEvents, nil},
	"POST /console/{tenant}/webhooks":                                                                                            {atrium.ScopeManageEvents, url.Values{"url": {"https://hooks.example.com/atrium"}}},
	"POST /console/{tenant}/webhooks/events":                                                                                     {atrium.ScopeManageEvents, url.Values{"enabled": {"yes"}}},
	"GET /console/{tenant}/webhooks/webhook_00000000000000000000000000":                                                          {atrium.ScopeManageEvents, nil},
	"GET /console/{tenant}/webhooks/webhook_00000000000000000000000000/edit":                                                     {atrium.ScopeManageEvents, nil},
	"POST /console/{tenant}/webhooks/webhook_00000000000000000000000000/edit":                                                    {atrium.ScopeManageEvents, url.Values{"url": {"https://hooks.example.com/atrium"}, "tag": {"*"}}},
	"POST /console/{tenant}/webhooks/webhook_00000000000000000000000000/disable":                                                 {atrium.ScopeManageEvents, url.Values{"tag": {"*"}}},
	"GET /console/{tenant}/webhooks/webhook_00000000000000000000000000/replay?check=yes":                                         {atrium.ScopeManageEvents, nil},
	"POST /console/{tenant}/webhooks/webhook_00000000000000000000000000/replays":                                                 {atrium.ScopeManageEvents, nil},
	"POST /console/{tenant}/webhooks/webhook_00000000000000000000000000/replays/replay_00000000000000000000000000/cancel":        {atrium.ScopeManageEvents, nil},
	"GET /console/{tenant}/webhooks/webhook_00000000000000000000000000/deliveries/event_00000000000000000000000000":              {atrium.ScopeManageEvents, nil},
	"POST /console/{tenant}/webhooks/webhook_00000000000000000000000000/deliveries/event_00000000000000000000000000/redeliver":   {atrium.ScopeManageEvents, nil},
}

// operatorPlaces are those of operators only.
var operatorPlaces = map[string]place{
	"GET /console/tenants":                 {},
	"GET /console/server":                  {},
	"GET /console/server/checks":           {},
	"GET /console/{tenant}/tenant":         {},
	"POST /console/{tenant}/tenant/rename": {atrium.ScopeManage, url.Values{"name": {"New"}, "tag": {"*"}}},
	"POST /console/tenants":                {atrium.ScopeManage, url.Values{"name": {"New"}}},
}

func TestEveryRouteIsInTheMatrix(t *testing.T) {
	mux := http.NewServeMux()
	known := map[string]bool{
		"GET /console": true, "GET /console/login": true, "POST /console/login": true, "POST /console/logout": true, "GET /console/logout": true, "GET /console/{path...}": true,
		"GET /console/login/sso": true, "GET /console/login/callback": true, "GET /console/login/tenant": true, "POST /console/login/tenant": true, // sso_test.go
		"GET /console/console.js": true, "GET /console/live.js": true, "GET /console/poll.js": true, "GET /console/style.css": true, "GET /console/icon.svg": true,
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
			if form, ok := strings.CutPrefix(pattern, "POST "); ok {
				known["GET "+form] = true // TestTheAddressOfAFormLeadsToItsPage
			}
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

// An address that only takes a form is in the history of browsers.
func TestTheAddressOfAFormLeadsToItsPage(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie, of := s.signIn(atrium.RoleOperator), "/console/"+string(s.tenants[0])
		user := s.user(s.tenants[0], atrium.RoleViewer)
		for _, all := range []map[string]place{places, operatorPlaces} {
			for route := range all {
				get, isForm := strings.CutPrefix(route, "POST")
				if !isForm {
					continue
				}
				get = "GET" + get
				a := s.visit(get, place{}, 0, user, cookie)
				for range 2 {
					if a.StatusCode == http.StatusSeeOther {
						a = s.ask(http.MethodGet, a.Header.Get("Location"), nil, cookie)
					}
				}
				missing := a.StatusCode == http.StatusNotFound && strings.Contains(route, "_00000000000000000000000000") // what is not there
				if a.StatusCode != http.StatusOK && !missing || !strings.Contains(a.Header.Get("Content-Type"), "text/html") {
					t.Errorf("%s: %s %s", get, a.Status, a.Header.Get("Content-Type"))
				}
				if a := s.visit(get, place{}, 0, user); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/console/login" {
					t.Errorf("%s by nobody: %s, to %q", get, a.Status, a.Header.Get("Location"))
				}
			}
		}
		const account, page = "/accounts/account_000000000000000000000000a1", "/pages/page_000000000000000000000000a1"
		for path, want := range map[string]string{
			"/import": "/transfer", "/import/columns": "/transfer", "/import?check=true": "/transfer", account + "/link": account, page + "/publish": page,
			"/webhooks/events": "/webhooks", "/people/groups/mapping_1": "/people", "/moves/move_1/undo": "/moves", "/accounts/%2F%2Fevil.example/link": "/accounts/%2F%2Fevil.example",
		} {
			if a := s.ask(http.MethodGet, of+path, nil, cookie); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != of+want {
				t.Errorf("%s: %s, to %q", path, a.Status, a.Header.Get("Location"))
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

func TestErrorsKeepTheNavigationOfTheUser(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleViewer)
		own, foreign := string(s.tenants[0]), string(s.tenants[1])
		for _, path := range []string{"/console/nothing", "/console/tenants", "/console/" + own + "/nothing", "/console/" + foreign} {
			a := s.ask(http.MethodGet, path, nil, cookie)
			if a.StatusCode != http.StatusNotFound || !strings.Contains(a.body, `href="/console/`+own+`/accounts"`) || strings.Contains(a.body, foreign) {
				t.Errorf("%s: %s, want the navigation of the user's tenant:\n%s", path, a.Status, a.body)
			}
		}
	})
}

func TestPagesOfferOnlyWhatCanBeDone(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleAdmin)
		of := "/console/" + string(s.tenants[0])
		audience := of + "/pages/page_000000000000000000000000a1/audiences/audience_000000000000000000000000a1"
		for _, number := range []string{"", "1"} {
			versions := s.ask(http.MethodGet, audience, nil, cookie).body
			if offered := strings.Contains(versions, audience+"/compare"); offered != (number != "") {
				t.Errorf("with one more version %q, comparing is offered: %v", number, offered)
			}
			if number == "" {
				if a := s.ask(http.MethodPost, audience+"/versions", url.Values{"content": {`{"a":2}`}}, cookie); a.StatusCode != http.StatusSeeOther {
					t.Fatal(a.Status, a.body)
				}
			}
		}
		d, err := canonical.Draft(s.tenants[0], atrium.Submission{Source: "crm", Type: "deal", Payload: []byte("{}"), Claim: atrium.Claim{Name: "Nobody"}})
		if err != nil {
			t.Fatal(err)
		}
		d.ID = atrium.NewID[atrium.EntryID]()
		outcomes, err := s.store.Append(t.Context(), []*atrium.Draft{d})
		if err != nil || outcomes[0].Err != nil {
			t.Fatal(outcomes, err)
		}
		for id, offered := range map[string]bool{string(outcomes[0].AccountID): false, "account_000000000000000000000000a1": true} {
			a := s.ask(http.MethodGet, of+"/accounts/"+id, nil, cookie)
			if a.StatusCode != http.StatusOK || strings.Contains(a.body, id+"/merge") != offered {
				t.Errorf("%s: %s, want merging offered: %v", id, a.Status, offered)
			}
		}
	})
}

var (
	pageLinks = regexp.MustCompile(`<a [^>]*?href="(/console/[^"?#]*)`) // without their parameters
	menuItems = regexp.MustCompile(`<a href="([^"]*)" data-shortcut`)
)

// A role sees a link only if it may open the page. Each role sees the sections of the menu that it may open.
func TestEachRoleMayOpenWhatItSees(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		home := "/console/" + string(s.tenants[0])
		sections := []string{"", "/accounts", "/activity", "/prospects", "/pages", "/receivers", "/webhooks", "/keys", "/people", "/privacy", "/audit", "/refused", "/transfer"}
		for _, role := range append(atrium.TenantRoles(), atrium.RoleOperator) {
			cookie := s.signIn(role)
			opened, menu := map[string]bool{}, []string{}
			for _, item := range menuItems.FindAllStringSubmatch(s.ask(http.MethodGet, home, nil, cookie).body, -1) {
				menu = append(menu, item[1])
			}
			for wait := []string{home}; len(wait) > 0; wait = wait[1:] {
				path := wait[0]
				if opened[path] {
					continue
				}
				opened[path] = true
				a := s.ask(http.MethodGet, path, nil, cookie)
				if a.StatusCode != http.StatusOK {
					t.Errorf("as %s: %s: %s", role, path, a.Status)
				}
				if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
					continue
				}
				for _, link := range pageLinks.FindAllStringSubmatch(a.body, -1) {
					wait = append(wait, link[1])
				}
			}
			for _, section := range sections {
				if allowed := s.ask(http.MethodGet, home+section, nil, cookie).StatusCode == http.StatusOK; allowed != slices.Contains(menu, home+section) {
					t.Errorf("as %s: %q may be opened: %v, but the menu has %q", role, section, allowed, menu)
				}
			}
			if len(opened) < 2*len(sections) {
				t.Errorf("as %s, only %d pages were opened", role, len(opened))
			}
		}
	})
}
