// Package manage is the management API: how operators and their tools make and
// change everything that the external API shows, as api/manage.yaml has it.
//
// Every change is one transaction with its row of the audit log. What is read and
// then changed carries an entity tag, and the change says which one it is based on.
package manage

import (
	"net/http"
	"slices"

	"atrium"
	"atrium/internal/rest"
	"atrium/internal/store"
)

// An API is the management API on a store.
type API struct {
	Store   *store.Store
	Cursors rest.CursorKey
}

// Routes are all operations.
func (a *API) Routes() []rest.Route {
	return slices.Concat(
		a.brandRoutes(),
	)
}

// The scopes of an operation: to read, and to change what one of the areas has.
func reading(method, pattern string, area atrium.Scope, handle rest.Handler) rest.Route {
	return rest.Route{Method: method, Pattern: prefix + pattern, Scope: atrium.ScopeManageRead, Or: area, Handle: handle}
}

func changing(method, pattern string, area atrium.Scope, handle rest.Handler) rest.Route {
	return rest.Route{Method: method, Pattern: prefix + pattern, Scope: area, Handle: handle}
}

const prefix = "/manage/v0"

func (a *API) brandRoutes() []rest.Route {
	const area = atrium.ScopeManagePages
	return []rest.Route{
		reading(http.MethodGet, "/brands", area, a.listBrands),
		changing(http.MethodPost, "/brands", area, a.createBrand),
		reading(http.MethodGet, "/brands/{brand_id}", area, a.getBrand),
		changing(http.MethodPatch, "/brands/{brand_id}", area, a.updateBrand),
		changing(http.MethodDelete, "/brands/{brand_id}", area, a.deleteBrand),
	}
}
