// Package manage implements the management API, described in api/manage.yaml. Operators
// and their tools use it to create and change everything that the external API serves.
//
// Every change commits its audit record in the same transaction. Reads return entity tags,
// which changes send back in If-Match.
package manage

import (
	"net/http"
	"net/netip"
	"slices"

	"atrium"
	"atrium/internal/limit"
	"atrium/internal/mapping"
	"atrium/internal/resource"
	"atrium/internal/rest"
	"atrium/internal/store"
)

// An API serves the management API from a store.
type API struct {
	Store        *store.Store
	Logs         resource.Logs
	Cursors      rest.CursorKey
	Keys         KeyCache                          // forgets keys that this process changes
	Mappings     *mapping.Cache                    // compiled mappings of receivers; may be nil
	Server       *Server                           // this process, if it is a server; otherwise nil
	Imports      *limit.Semaphore[atrium.TenantID] // limits concurrent imports, except checks
	Checks       *limit.Semaphore[atrium.TenantID] // limits concurrent checks of imports
	Exports      *limit.Semaphore[atrium.TenantID] // limits concurrent exports, including those of audit logs
	Waits        *limit.Semaphore[atrium.TenantID] // limits how many requests wait for events
	WebhookAllow []netip.Prefix                    // networks to which webhooks may lead, in addition to public addresses
	PublicURL    string                            // where clients reach the server, "" if it is not known
	MaxEntry     int64                             // maximum size of each entry in a batch, in bytes; 0 means rest.DefaultMaxBody
	MaxLine      int64                             // maximum length of an import line, in bytes; 0 is unlimited, as is the size of pages then
	MaxBatch     int64                             // maximum size of a body with a batch of entries, in bytes; 0 means the general limit
}

// Routes returns all operations.
func (a *API) Routes() []rest.Route {
	routes := slices.Concat(
		a.accountRoutes(),
		a.activityRoutes(),
		a.prospectRoutes(),
		a.erasureRoutes(),
		a.personRoutes(),
		a.retentionRoutes(),
		a.summaryRoutes(),
		a.brandRoutes(),
		a.pageRoutes(),
		a.audienceRoutes(),
		a.previewRoutes(),
		a.keyRoutes(),
		a.userRoutes(),
		a.groupRoutes(),
		a.webhookRoutes(),
		a.receiverRoutes(),
		a.eventRoutes(),
		a.tenantRoutes(),
		a.auditRoutes(),
		a.refusedRequestRoutes(),
		a.readRoutes(),
		a.transferRoutes(),
		a.serverRoutes(),
	)
	for i := range routes {
		routes[i].ReportIgnored = true // unknown members are refused, but unknown parameters are not
	}
	return routes
}

// read returns the route of an operation that reads. Reads are heavy: pages of lists,
// documents, and items that filters exclude.
func read(pattern string, area atrium.Scope, handle rest.Handler) rest.Route {
	return rest.Route{
		Method: http.MethodGet, Pattern: prefix + pattern, Scope: atrium.ScopeManageRead, Or: area, For: rest.OneTenant,
		Heavy: true, Handle: handle,
	}
}

// reads returns the route of an operation whose response has personal data, of what the parameter subject of the
// path names, "" for a list or an export.
func reads(route rest.Route, kind atrium.ReadKind, subject string) rest.Route {
	route.Reads, route.Subject = kind, subject
	return route
}

// stream returns the route of an operation whose response is streamed, at the speed of its
// client.
func stream(pattern string, handle rest.Handler) rest.Route {
	route := read(pattern, "", handle)
	route.Heavy, route.Produces = false, rest.Lines
	return route
}

func write(method, pattern string, area atrium.Scope, handle rest.Handler) rest.Route {
	return rest.Route{Method: method, Pattern: prefix + pattern, Scope: area, For: rest.OneTenant, Handle: handle}
}

// ofEvents returns the route of an operation on webhooks or events. Both have everything that manage:read reads, so
// each requires the same scope. Reads are heavy, as others are.
func ofEvents(method, pattern string, handle rest.Handler) rest.Route {
	route := write(method, pattern, atrium.ScopeManageEvents, handle)
	route.Heavy = method == http.MethodGet
	return route
}

const prefix = "/manage/v0"

func (a *API) accountRoutes() []rest.Route {
	const area = atrium.ScopeManageAccounts
	return []rest.Route{
		read("/accounts", area, a.listAccounts),
		write(http.MethodPost, "/accounts", area, a.createAccount),
		reads(read("/accounts/{account_id}", area, a.getAccount), atrium.ReadAccount, "account_id"),
		write(http.MethodPatch, "/accounts/{account_id}", area, a.updateAccount),
		write(http.MethodDelete, "/accounts/{account_id}", area, a.eraseAccount),
		write(http.MethodPost, "/accounts/{account_id}/merge", area, a.mergeAccount),
		write(http.MethodPost, "/accounts/{account_id}/split", area, a.splitAccount),
	}
}

func (a *API) activityRoutes() []rest.Route {
	const area = atrium.ScopeManageAccounts
	batch := write(http.MethodPost, "/account_logs", area, a.createAccountLogs)
	batch.Or, batch.MaxBody = atrium.ScopeLogsWrite, a.MaxBatch // senders need no other permission
	move := write(http.MethodPost, "/moves", area, a.createMove)
	move.Heavy = true // it reads many entries with their payloads
	return []rest.Route{
		reads(read("/accounts/{account_id}/activity", area, a.listActivity), atrium.ReadAccount, "account_id"),
		read("/accounts/{account_id}/activity/counts", area, a.countActivity),
		read("/activity/counts", area, a.countEntries),
		read("/activity/accounts", area, a.listMostActive),
		reads(read("/account_logs", area, a.listAccountLogs), atrium.ReadList, ""),
		batch,
		reads(read("/account_logs/{account_log_id}", area, a.getAccountLog), atrium.ReadEntry, "account_log_id"),
		read("/account_logs/{account_log_id}/explanation", area, a.explainAccountLog),
		reads(read("/account_logs/{account_log_id}/payload", area, a.getPayload), atrium.ReadEntry, "account_log_id"),
		write(http.MethodPost, "/account_logs/{account_log_id}/move", area, a.moveAccountLog),
		read("/moves", area, a.listMoves),
		move,
		read("/moves/{move_id}", area, a.getMove),
		write(http.MethodPost, "/moves/{move_id}/undo", area, a.undoMove),
	}
}

func (a *API) prospectRoutes() []rest.Route {
	const area = atrium.ScopeManageAccounts
	return []rest.Route{
		reads(read("/prospects", area, a.listProspects), atrium.ReadList, ""),
		write(http.MethodPost, "/prospects", area, a.createProspect),
		reads(read("/prospects/{prospect_id}", area, a.getProspect), atrium.ReadProspect, "prospect_id"),
		write(http.MethodPatch, "/prospects/{prospect_id}", area, a.updateProspect),
		write(http.MethodDelete, "/prospects/{prospect_id}", area, a.deleteProspect),
		write(http.MethodPut, "/accounts/{account_id}/prospects/{prospect_id}", area, a.linkProspect),
		write(http.MethodDelete, "/accounts/{account_id}/prospects/{prospect_id}", area, a.unlinkProspect),
	}
}

func (a *API) erasureRoutes() []rest.Route {
	const area = atrium.ScopeManageErase
	erase := write(http.MethodPost, "/erasures", area, a.createErasure)
	erase.Heavy = true // a check reads many entries with their payloads
	erase = reads(erase, atrium.ReadList, "")
	return []rest.Route{
		read("/erasures", area, a.listErasures),
		erase,
		read("/erasures/{erasure_id}", area, a.getErasure),
	}
}

// personRoutes require the scope of erasures: the same people do both, and an export searches as much as
// an erasure. A key with manage:read may export everything, but the audit log does not record that.
func (a *API) personRoutes() []rest.Route {
	export := write(http.MethodPost, "/persons/export", atrium.ScopeManageErase, a.exportPerson)
	export.Produces, export.Reads = rest.Lines, atrium.ReadExport
	return []rest.Route{export}
}

func (a *API) retentionRoutes() []rest.Route {
	const area = atrium.ScopeManageErase
	check := write(http.MethodPost, "/retention/check", area, a.checkRetention)
	check.Heavy = true // it reads many entries
	return []rest.Route{
		read("/retention", area, a.getRetention),
		write(http.MethodPut, "/retention", area, a.setRetention),
		check,
	}
}

func (a *API) summaryRoutes() []rest.Route {
	const area = atrium.ScopeManageAccounts
	return []rest.Route{
		read("/summary_templates", area, a.listSummaryTemplates),
		write(http.MethodPut, "/summary_templates", area, a.putSummaryTemplate),
		write(http.MethodDelete, "/summary_templates", area, a.deleteSummaryTemplate),
	}
}

func (a *API) brandRoutes() []rest.Route {
	const area = atrium.ScopeManagePages
	return []rest.Route{
		read("/brands", area, a.listBrands),
		write(http.MethodPost, "/brands", area, a.createBrand),
		read("/brands/{brand_id}", area, a.getBrand),
		write(http.MethodPatch, "/brands/{brand_id}", area, a.updateBrand),
		write(http.MethodDelete, "/brands/{brand_id}", area, a.deleteBrand),
	}
}

func (a *API) pageRoutes() []rest.Route {
	const area = atrium.ScopeManagePages
	return []rest.Route{
		read("/pages", area, a.listPages),
		write(http.MethodPost, "/pages", area, a.createPage),
		read("/pages/{page_id}", area, a.getPage),
		write(http.MethodPatch, "/pages/{page_id}", area, a.updatePage),
		write(http.MethodDelete, "/pages/{page_id}", area, a.deletePage),
		write(http.MethodPost, "/pages/{page_id}/undelete", area, a.undeletePage),
		write(http.MethodPost, "/pages/{page_id}/publish", area, a.transitionPage(atrium.PagePublish)),
		write(http.MethodPost, "/pages/{page_id}/unpublish", area, a.transitionPage(atrium.PageUnpublish)),
		write(http.MethodPost, "/pages/{page_id}/archive", area, a.transitionPage(atrium.PageArchive)),
		write(http.MethodPost, "/pages/{page_id}/restore", area, a.transitionPage(atrium.PageRestore)),
		write(http.MethodPut, "/pages/{page_id}/schedule", area, a.schedulePage),
		write(http.MethodDelete, "/pages/{page_id}/schedule", area, a.unschedulePage),
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
		read(audiences, area, a.listAudiences),
		write(http.MethodPost, audiences, area, a.createAudience),
		read(audience, area, a.getAudience),
		write(http.MethodPatch, audience, area, a.updateAudience),
		write(http.MethodPost, audience+"/archive", area, a.archiveAudience(true)),
		write(http.MethodPost, audience+"/restore", area, a.archiveAudience(false)),
		read(versions, area, a.listVersions),
		write(http.MethodPost, versions, area, a.createVersion),
		read(version, area, a.getVersion),
		read(version+"/diff", area, a.compareVersions),
		write(http.MethodPost, version+"/publish", area, a.publishVersion),
		write(http.MethodPost, version+"/archive", area, a.archiveVersion(true)),
		write(http.MethodPost, version+"/restore", area, a.archiveVersion(false)),
	}
}

func (a *API) previewRoutes() []rest.Route {
	const (
		area     = atrium.ScopeManagePages
		previews = "/pages/{page_id}/previews"
		preview  = previews + "/{preview_id}"
	)
	return []rest.Route{
		read(previews, area, a.listPreviews),
		write(http.MethodPost, previews, area, a.createPreview),
		read(preview, area, a.getPreview),
		write(http.MethodDelete, preview, area, a.revokePreview),
	}
}

func (a *API) keyRoutes() []rest.Route {
	const area = atrium.ScopeManageKeys
	return []rest.Route{
		read("/keys", area, a.listKeys),
		write(http.MethodPost, "/keys", area, a.createKey),
		read("/keys/{key_id}", area, a.getKey),
		write(http.MethodPost, "/keys/{key_id}/rotate", area, a.rotateKey),
		write(http.MethodPost, "/keys/{key_id}/revoke", area, a.revokeKey),
	}
}

func (a *API) userRoutes() []rest.Route {
	const (
		area = atrium.ScopeManageUsers
		user = "/users/{user_id}"
	)
	return []rest.Route{
		read("/users", area, a.listUsers),
		write(http.MethodPost, "/users", area, a.createUser),
		read(user, area, a.getUser),
		write(http.MethodPatch, user, area, a.updateUser),
		write(http.MethodDelete, user, area, a.removeUser),
		write(http.MethodPost, user+"/login_link", area, a.createLoginLink),
		read(user+"/sessions", area, a.listSessions),
		write(http.MethodPost, user+"/sign_out", area, a.signOutUser),
		write(http.MethodDelete, user+"/sessions/{session_id}", area, a.endSession),
	}
}

func (a *API) refusedRequestRoutes() []rest.Route {
	return []rest.Route{
		read("/refused_requests", "", a.listRefusedRequests),
		read("/refused_requests/counts", "", a.countRefusedRequests),
	}
}

// readRoutes require the scope of erasures: the same people answer for personal data.
func (a *API) readRoutes() []rest.Route {
	list := read("/reads", "", a.listReads)
	list.Scope = atrium.ScopeManageErase
	return []rest.Route{list}
}

func (a *API) groupRoutes() []rest.Route {
	const (
		area    = atrium.ScopeManageUsers
		mapping = "/group_mappings/{mapping_id}"
	)
	return []rest.Route{
		read("/group_mappings", area, a.listGroupMappings),
		write(http.MethodPost, "/group_mappings", area, a.createGroupMapping),
		read(mapping, area, a.getGroupMapping),
		write(http.MethodDelete, mapping, area, a.deleteGroupMapping),
	}
}

// operators returns the route of an operation that is for operators only.
func operators(method, pattern string, scope atrium.Scope, handle rest.Handler) rest.Route {
	route := write(method, pattern, scope, handle)
	route.For = rest.AnyTenant
	return route
}

// tenantRoutes are for operators, except the route of the request's own tenant.
func (a *API) tenantRoutes() []rest.Route {
	return []rest.Route{
		read("/tenant", "", a.ownTenant),
		read("/overview", "", a.getOverview),
		operators(http.MethodGet, "/tenants", atrium.ScopeManageRead, a.listTenants),
		operators(http.MethodPost, "/tenants", atrium.ScopeManage, a.createTenant),
		operators(http.MethodGet, "/tenants/{tenant_id}", atrium.ScopeManageRead, a.getTenant),
		operators(http.MethodPatch, "/tenants/{tenant_id}", atrium.ScopeManage, a.updateTenant),
		operators(http.MethodDelete, "/tenants/{tenant_id}", atrium.ScopeManage, a.deleteTenant),
	}
}

// serverRoutes are for operators.
func (a *API) serverRoutes() []rest.Route {
	return []rest.Route{
		operators(http.MethodGet, "/server/settings", atrium.ScopeManageRead, a.listSettings),
		operators(http.MethodGet, "/server/jobs", atrium.ScopeManageRead, a.listJobs),
		operators(http.MethodGet, "/server/checks", atrium.ScopeManageRead, a.listChecks),
	}
}
