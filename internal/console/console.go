// Package console serves the web console: pages for people who read and change what a tenant has. It is
// a client of the management API in the same process and does everything through it, so a user can do no
// more than a key with the scopes of the user's role.
//
// Every page works without JavaScript. URLs name the tenant and every filter, so each can be shared. Text
// from accounts and entries is hostile: templates escape it for its context, and the content security
// policy allows only scripts and styles of this package.
package console

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"strings"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
	"atrium/internal/rest"
)

// A Console serves the pages.
type Console struct {
	Sessions *auth.Sessions

	// API is the management API for callers with a session. Requests carry its token as their key.
	API http.Handler

	// Limits are those of the API. Pages are decoded and rendered as heavy work, and forms count as bodies.
	Limits *rest.Limits

	// Log receives why a page failed.
	Log *slog.Logger

	// Ready returns nil if the service is ready.
	Ready func(*http.Request) error
	SSO   *SingleSignOn // nil without an identity provider

	// Pages limits how many pages of a tenant are made at once: each is held in memory.
	Pages *limit.Semaphore[atrium.TenantID]

	// Streams limits how many downloads and uploads of a tenant are in progress. They end when Stopping does;
	// nil for never.
	Streams  *limit.Semaphore[atrium.TenantID]
	Stopping context.Context

	visitors visitors
}

// prefix is the path of the console. Its cookie is for the whole host, as the prefix __Host- requires.
const prefix = "/console"

// of is the prefix of pages about a tenant.
const of = prefix + "/{tenant_id}"

// Handlers returns the handlers of the console by pattern.
func (c *Console) Handlers() map[string]http.Handler {
	handlers := map[string]http.Handler{
		"GET " + prefix:                c.signedIn(c.home),
		"GET " + prefix + "/login":     c.anyone(c.loginPage),
		"POST " + prefix + "/login":    c.anyone(c.login),
		"POST " + logoutPath:           c.anyone(c.logout),
		"GET " + logoutPath:            c.anyone(c.logoutPage),
		"GET " + ssoPath:               c.withSSO(c.startSSO),
		"GET " + CallbackPath:          c.withSSO(c.finishSSO),
		"GET " + tenantPath:            c.withSSO(c.chooseTenant),
		"POST " + tenantPath:           c.withSSO(c.signInToTenant),
		"GET " + prefix + "/{path...}": c.signedIn(nothing),
	}
	for path, file := range static() {
		handlers["GET "+path] = rest.Static(file.contentType, file.content)
	}
	for pattern, page := range map[string]page{
		"GET " + prefix + "/tenants":                                               c.listTenants,
		"GET " + prefix + "/server":                                                c.showServer,
		"GET " + prefix + "/server/checks":                                         c.showChecks,
		"GET " + of:                                                                c.tenantHome,
		"GET " + of + "/search":                                                    c.find,
		"GET " + of + "/accounts":                                                  c.listAccounts,
		"GET " + of + "/accounts/active":                                           c.listMostActive,
		"GET " + of + "/accounts/{account_id}":                                     c.showAccount,
		"GET " + of + "/accounts/{account_id}/merge":                               c.mergePage,
		"GET " + of + "/accounts/{account_id}/erase":                               c.erasePage,
		"GET " + of + "/prospects":                                                 c.listProspects,
		"GET " + of + "/prospects/{prospect_id}":                                   c.showProspect,
		"GET " + of + "/activity":                                                  c.listActivity,
		"GET " + of + "/activity/summaries":                                        c.showSummaries,
		"GET " + of + "/activity/{entry_id}":                                       c.showEntry,
		"GET " + of + "/moves":                                                     c.listMoves,
		"GET " + of + "/moves/new":                                                 c.newMove,
		"GET " + of + "/pages":                                                     c.listPages,
		"GET " + of + "/pages/{page_id}":                                           c.showPage,
		"GET " + of + "/pages/new":                                                 c.newPage,
		"GET " + of + "/pages/{page_id}/edit":                                      c.editPage,
		"GET " + of + "/pages/{page_id}/audiences/{audience_id}":                   c.showAudience,
		"GET " + of + "/pages/{page_id}/audiences/{audience_id}/compare":           c.compareVersions,
		"GET " + of + "/pages/{page_id}/audiences/{audience_id}/versions/{number}": c.showVersion,
		"GET " + of + "/brands":                                                    c.listBrands,
		"GET " + of + "/webhooks":                                                  c.listWebhooks,
		"GET " + of + "/webhooks/{webhook_id}":                                     c.showWebhook,
		"GET " + of + "/webhooks/{webhook_id}/edit":                                c.editWebhook,
		"GET " + of + "/webhooks/{webhook_id}/deliveries/{event_id}":               c.showDelivery,
		"GET " + of + "/webhooks/{webhook_id}/replay":                              c.newReplay,
		"GET " + of + "/keys":                                                      c.listKeys,
		"GET " + of + "/people":                                                    c.listPeople,
		"GET " + of + "/people/{user_id}":                                          c.showPerson,
		"GET " + of + "/privacy":                                                   c.showPrivacy,
		"GET " + of + "/privacy/person":                                            c.searchPerson,
		"GET " + of + "/privacy/retention":                                         c.showRetention,
		"GET " + of + "/tenant":                                                    c.showTenant,
		"GET " + of + "/reads":                                                     c.listReads,
		"GET " + of + "/refused":                                                   c.listRefused,
		"GET " + of + "/transfer":                                                  c.transferPage,
		"GET " + of + "/audit":                                                     c.listAudit,
	} {
		handlers[pattern] = c.signedIn(page)
	}
	for pattern, page := range c.receiverPages(of) {
		handlers[pattern] = c.signedIn(page)
	}
	for path, f := range c.forms() {
		handlers["POST "+path] = c.change(f)
	}
	for pattern, page := range c.streams() {
		method, path, _ := strings.Cut(pattern, " ")
		handlers[method+" "+of+path] = c.stream(page)
	}
	maps.Copy(handlers, c.formAddresses(handlers))
	return handlers
}

// formAddresses returns handlers for GET requests for the addresses that only take a form: they lead to the page with
// the form. Such an address is in the history of a browser.
func (c *Console) formAddresses(handlers map[string]http.Handler) map[string]http.Handler {
	added := map[string]http.Handler{}
	for pattern := range handlers {
		form, ok := strings.CutPrefix(pattern, "POST ")
		if !ok || handlers["GET "+form] != nil {
			continue
		}
		above := 0 // how many segments of the path that of the page lacks
		for at := form; handlers["GET "+at] == nil; above++ {
			at = path.Dir(at)
		}
		added["GET "+form] = c.signedIn(func(r *request) error {
			to := r.http.URL.EscapedPath()
			for range above {
				to = path.Dir(to)
			}
			http.Redirect(r.w, r.http, to, http.StatusSeeOther)
			return nil
		})
	}
	for _, form := range []string{"/import", "/import/columns"} {
		added["GET "+of+form] = c.signedIn(func(r *request) error {
			http.Redirect(r.w, r.http, r.path("transfer"), http.StatusSeeOther)
			return nil
		})
	}
	return added
}

// streams returns the downloads and uploads by pattern.
func (c *Console) streams() map[string]page {
	return map[string]page{
		"GET /accounts.csv":                         c.accountsCSV,
		"GET /accounts/active.csv":                  c.mostActiveCSV,
		"GET /activity.csv":                         c.activityCSV,
		"GET /prospects.csv":                        csvOf("/prospects", "prospects.csv", "atrium prospects list -o csv", prospectFilters...),
		"GET /pages.csv":                            csvOf("/pages", "pages.csv", "atrium pages list -o csv", pageFilters...),
		"GET /keys.csv":                             csvOf("/keys", "keys.csv", "atrium keys list -o csv", keyFilters...),
		"GET /people.csv":                           csvOf("/users", "people.csv", "atrium users list -o csv"),
		"GET /audit.csv":                            c.auditCSV,
		"GET /moves.csv":                            csvOf("/moves", "moves.csv", "atrium moves list -o csv"),
		"GET /refused.csv":                          csvOf("/refused_requests", "refused.csv", "atrium refused list -o csv", refusedFilters...),
		"GET /reads.csv":                            csvOf("/reads", "reads.csv", "atrium reads list -o csv", readFilters...),
		"GET /webhooks.csv":                         csvOf("/webhooks", "webhooks.csv", "atrium webhooks list -o csv"),
		"GET /webhooks/{webhook_id}/deliveries.csv": csvOf("/webhooks/{webhook_id}/deliveries", "deliveries.csv", "atrium webhooks deliveries WEBHOOK_ID -o csv", deliveryFilters...),
		"GET /export.ndjson":                        export("/export", "export.ndjson"),
		"GET /audit/verify":                         c.verifyAudit,
		"GET /audit.ndjson":                         export("/audit/export", "audit.ndjson"),
		"POST /privacy/person.ndjson":               c.exportPerson,
		"POST /import":                              c.importFile,
		"POST /import/columns":                      c.importColumns,
	}
}
