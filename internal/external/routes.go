// Package external is the API for sites and upstream systems, described in api/openapi.yaml.
package external

import (
	"net/http"

	"atrium"
	"atrium/internal/resource"
	"atrium/internal/rest"
	"atrium/internal/store"
)

// An API serves the external API from a store.
type API struct {
	Store   *store.Store
	Logs    resource.Logs
	Cursors rest.CursorKey
	Cache   *rest.ResponseCache // nil for none
}

// Routes returns the operations.
func (a *API) Routes() []rest.Route {
	route := func(method, pattern string, scope atrium.Scope, handle rest.Handler) rest.Route {
		return rest.Route{Method: method, Pattern: "/v0" + pattern, Scope: scope, Handle: handle, ReportIgnored: true}
	}
	const versions = "/pages/{page_id}/audiences/{audience_id}/versions"
	return []rest.Route{
		route(http.MethodPost, "/account_logs", atrium.ScopeLogsWrite, a.createAccountLog),
		route(http.MethodGet, "/accounts/{account_id}", atrium.ScopeAccountsRead, a.getAccount),
		route(http.MethodPatch, "/accounts/{account_id}", atrium.ScopeAccountsWrite, a.updateAccount),
		route(http.MethodGet, "/pages", atrium.ScopePagesRead, a.listPages),
		route(http.MethodGet, "/pages/{page_id}", atrium.ScopePagesRead, a.getPage),
		route(http.MethodGet, versions, atrium.ScopePagesRead, a.listVersions),
	}
}
