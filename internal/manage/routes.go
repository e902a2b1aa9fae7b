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
	"atrium/internal/limit"
	"atrium/internal/resource"
	"atrium/internal/rest"
	"atrium/internal/store"
)

// An API is the management API on a store.
type API struct {
	Store    *store.Store
	Logs     resource.Logs
	Cursors  rest.CursorKey
	Keys     KeyMemory                         // is told of keys that were changed here
	Imports  *limit.Semaphore[atrium.TenantID] // held by imports
	Exports  *limit.Semaphore[atrium.TenantID] // held by exports, also of audit logs
	MaxEntry int64                             // how large one of many entries may be, in bytes; 0 stands for rest.DefaultMaxBody
	MaxLine  int64                             // how long a line of an import may be, in bytes; 0 for an operator with the database, who may also import pages of any size
	MaxBatch int64                             // how large the body may be that has them; 0 stands for that of any other
}

// Routes are all operations.
func (a *API) Routes() []rest.Route {
	return slices.Concat(
		a.accountRoutes(),
		a.activityRoutes(),
		a.prospectRoutes(),
		a.brandRoutes(),
		a.pageRoutes(),
		a.audienceRoutes(),
		a.keyRoutes(),
		a.tenantRoutes(),
		a.auditRoutes(),
		a.transferRoutes(),
	)
}

// The scopes of an operation: to read, and to change what one of the areas has. What is
// read may be much: pages of lists, documents, what filters leave out.
func reading(pattern string, area atrium.Scope, handle rest.Handler) rest.Route {
	return rest.Route{
		Method: http.MethodGet, Pattern: prefix + pattern, Scope: atrium.ScopeManageRead, Or: area, For: rest.OneTenant,
		Heavy: true, Handle: handle,
	}
}

// streaming is reading for what is streamed, as slowly as its client likes.
func streaming(pattern string, handle rest.Handler) rest.Route {
	route := reading(pattern, "", handle)
	route.Heavy, route.Produces = false, rest.Lines
	return route
}

func changing(method, pattern string, area atrium.Scope, handle rest.Handler) rest.Route {
	return rest.Route{Method: method, Pattern: prefix + pattern, Scope: area, For: rest.OneTenant, Handle: handle}
}

const prefix = "/manage/v0"

func (a *API) accountRoutes() []rest.Route {
	const area = atrium.ScopeManageAccounts
	return []rest.Route{
		reading("/accounts", area, a.listAccounts),
		changing(http.MethodPost, "/accounts", area, a.createAccount),
		reading("/accounts/{account_id}", area, a.getAccount),
		changing(http.MethodPatch, "/accounts/{account_id}", area, a.updateAccount),
		changing(http.MethodDelete, "/accounts/{account_id}", area, a.eraseAccount),
		changing(http.MethodPost, "/accounts/{account_id}/merge", area, a.mergeAccount),
		changing(http.MethodPost, "/accounts/{account_id}/split", area, a.splitAccount),
	}
}

func (a *API) activityRoutes() []rest.Route {
	const area = atrium.ScopeManageAccounts
	batch := changing(http.MethodPost, "/account_logs", area, a.createAccountLogs)
	batch.MaxBody = a.MaxBatch
	move := changing(http.MethodPost, "/moves", area, a.createMove)
	move.Heavy = true // it looks at many entries, and at their payloads
	return []rest.Route{
		reading("/accounts/{account_id}/activity", area, a.listActivity),
		reading("/accounts/{account_id}/activity/counts", area, a.countActivity),
		batch,
		reading("/account_logs/{account_log_id}", area, a.getAccountLog),
		reading("/account_logs/{account_log_id}/payload", area, a.getPayload),
		changing(http.MethodPost, "/account_logs/{account_log_id}/move", area, a.moveAccountLog),
		reading("/moves", area, a.listMoves),
		move,
		reading("/moves/{move_id}", area, a.getMove),
		changing(http.MethodPost, "/moves/{move_id}/undo", area, a.undoMove),
	}
}

func (a *API) prospectRoutes() []rest.Route {
	const area = atrium.ScopeManageAccounts
	return []rest.Route{
		reading("/prospects", area, a.listProspects),
		changing(http.MethodPost, "/prospects", area, a.createProspect),
		reading("/prospects/{prospect_id}", area, a.getProspect),
		changing(http.MethodPatch, "/prospects/{prospect_id}", area, a.updateProspect),
		changing(http.MethodDelete, "/prospects/{prospect_id}", area, a.deleteProspect),
		changing(http.MethodPut, "/accounts/{account_id}/prospects/{prospect_id}", area, a.linkProspect),
		changing(http.MethodDelete, "/accounts/{account_id}/prospects/{prospect_id}", area, a.unlinkProspect),
	}
}

func (a *API) brandRoutes() []rest.Route {
	const area = atrium.ScopeManagePages
	return []rest.Route{
		reading("/brands", area, a.listBrands),
		changing(http.MethodPost, "/brands", area, a.createBrand),
		reading("/brands/{brand_id}", area, a.getBrand),
		changing(http.MethodPatch, "/brands/{brand_id}", area, a.updateBrand),
		changing(http.MethodDelete, "/brands/{brand_id}", area, a.deleteBrand),
	}
}

func (a *API) pageRoutes() []rest.Route {
	const area = atrium.ScopeManagePages
	return []rest.Route{
		reading("/pages", area, a.listPages),
		changing(http.MethodPost, "/pages", area, a.createPage),
		reading("/pages/{page_id}", area, a.getPage),
		changing(http.MethodPatch, "/pages/{page_id}", area, a.updatePage),
		changing(http.MethodDelete, "/pages/{page_id}", area, a.deletePage),
		changing(http.MethodPost, "/pages/{page_id}/undelete", area, a.undeletePage),
		changing(http.MethodPost, "/pages/{page_id}/publish", area, a.takePage(atrium.PagePublish)),
		changing(http.MethodPost, "/pages/{page_id}/unpublish", area, a.takePage(atrium.PageUnpublish)),
		changing(http.MethodPost, "/pages/{page_id}/archive", area, a.takePage(atrium.PageArchive)),
		changing(http.MethodPost, "/pages/{page_id}/restore", area, a.takePage(atrium.PageRestore)),
		changing(http.MethodPut, "/pages/{page_id}/schedule", area, a.schedulePage),
		changing(http.MethodDelete, "/pages/{page_id}/schedule", area, a.unschedulePage),
	}
}

func (a *API) audienceRoutes() []rest.Route {
	const (
		area      = atrium.ScopeManagePages
		audiences = "/pages/{page_id}/audiences"
		audience  = audiences + "/{audience_id}"
		versions  = audience + "/versions"
		version   = versions + "/{version_number}"
	)
	return []rest.Route{
		reading(audiences, area, a.listAudiences),
		changing(http.MethodPost, audiences, area, a.createAudience),
		reading(audience, area, a.getAudience),
		changing(http.MethodPatch, audience, area, a.updateAudience),
		changing(http.MethodPost, audience+"/archive", area, a.archiveAudience(true)),
		changing(http.MethodPost, audience+"/restore", area, a.archiveAudience(false)),
		reading(versions, area, a.listVersions),
		changing(http.MethodPost, versions, area, a.createVersion),
		reading(version, area, a.getVersion),
		reading(version+"/diff", area, a.compareVersions),
		changing(http.MethodPost, version+"/publish", area, a.publishVersion),
		changing(http.MethodPost, version+"/archive", area, a.archiveVersion(true)),
		changing(http.MethodPost, version+"/restore", area, a.archiveVersion(false)),
	}
}

func (a *API) keyRoutes() []rest.Route {
	const area = atrium.ScopeManageKeys
	return []rest.Route{
		reading("/keys", area, a.listKeys),
		changing(http.MethodPost, "/keys", area, a.createKey),
		reading("/keys/{key_id}", area, a.getKey),
		changing(http.MethodPost, "/keys/{key_id}/rotate", area, a.rotateKey),
		changing(http.MethodPost, "/keys/{key_id}/revoke", area, a.revokeKey),
	}
}

// tenantRoutes are an operator's but for the tenant that a request is for.
func (a *API) tenantRoutes() []rest.Route {
	operators := func(method, pattern string, scope atrium.Scope, handle rest.Handler) rest.Route {
		route := changing(method, pattern, scope, handle)
		route.For = rest.AnyTenant
		return route
	}
	return []rest.Route{
		reading("/tenant", "", a.ownTenant),
		operators(http.MethodGet, "/tenants", atrium.ScopeManageRead, a.listTenants),
		operators(http.MethodPost, "/tenants", atrium.ScopeManage, a.createTenant),
		operators(http.MethodGet, "/tenants/{tenant_id}", atrium.ScopeManageRead, a.getTenant),
		operators(http.MethodPatch, "/tenants/{tenant_id}", atrium.ScopeManage, a.updateTenant),
	}
}
