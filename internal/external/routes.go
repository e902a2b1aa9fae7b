// Package external is the external API: what upstream systems, sites and tools
// speak, as api/openapi.yaml has it.
package external

import (
	"net/http"

	"atrium"
	"atrium/internal/resource"
	"atrium/internal/rest"
	"atrium/internal/store"
)

// An API is the external API on a store.
type API struct {
	Store   *store.Store
	Logs    resource.Logs
	Cursors rest.CursorKey
	Cache   *rest.ResponseCache // nil for none
}

// Routes are all operations that need a key.
func (a *API) Routes() []rest.Route {
	return []rest.Route{
		{Method: http.MethodPost, Pattern: "/v0/account_logs", Scope: atrium.ScopeLogsWrite, Handle: a.createAccountLog},
		{Method: http.MethodGet, Pattern: "/v0/accounts/{account_id}", Scope: atrium.ScopeAccountsRead, Handle: a.getAccount},
		{Method: http.MethodPatch, Pattern: "/v0/accounts/{account_id}", Scope: atrium.ScopeAccountsWrite, Handle: a.updateAccount},
		{Method: http.MethodGet, Pattern: "/v0/pages", Scope: atrium.ScopePagesRead, Handle: a.listPages},
		{Method: http.MethodGet, Pattern: "/v0/pages/{page_id}", Scope: atrium.ScopePagesRead, Handle: a.getPage},
		{Method: http.MethodGet, Pattern: "/v0/pages/{page_id}/audiences/{audience_id}/versions", Scope: atrium.ScopePagesRead, Handle: a.listVersions},
	}
}
