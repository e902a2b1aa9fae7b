package app

import (
	"context"
	"math"
	"net/http"
	"net/netip"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/config"
	"atrium/internal/console"
	"atrium/internal/limit"
	"atrium/internal/manage"
	"atrium/internal/mapping"
	"atrium/internal/resource"
	"atrium/internal/rest"
)

// Manage migrates the store's schema and returns its management API for the command line,
// whose access to the database permits everything: requests need no key, and name their tenant
// as requests with an operator's key do. The tenant may be atrium.OperatorChain, for the
// operators' own keys and audit log. The handler works until ctx ends.
func Manage(ctx context.Context, c Config) (http.Handler, error) {
	if err := useSecrets(c); err != nil {
		return nil, err
	}
	cursors, err := prepare(ctx, c)
	if err != nil {
		return nil, err
	}
	if _, err := c.Store.MissingSecretKeys(ctx); err != nil { // what needs a missing key fails by itself
		return nil, err
	}
	api := newAPI(c, commandLine{})
	api.MaxStream = math.MaxInt64 // local input
	exists := api.Tenants
	api.Tenants = func(ctx context.Context, id atrium.TenantID) error {
		if id == atrium.OperatorChain {
			return nil
		}
		return exists(ctx, id)
	}
	writer := newWriter(c, nil, nil)
	context.AfterFunc(ctx, func() { _ = writer.Close(context.WithoutCancel(ctx)) })
	return api.Handler(newManage(c, cursors, commandLine{}, writer).Routes(), nil), nil
}

// Limits of pages of the console that are made at once. Each can hold some 15 MiB. The pages of operators
// are those of one tenant.
const (
	maxPages      = 16
	pagesOfTenant = 4
	pagesWaiting  = 64 // of one tenant
	maxDownloads  = 32 // in progress; streamsOfTenant of one tenant
)

// newConsole returns the handlers of the console by pattern. It calls the management API in this process,
// under the limits that api has.
func newConsole(c Config, api *rest.API, private *manage.API, failures *auth.Failures, ready func(*http.Request) error,
	signOn *console.SingleSignOn,
) map[string]http.Handler {
	sessions := auth.NewSessions(c.Store, c.Store.Now, failures)
	inner := *api
	inner.Keys = sessions
	pages := console.Console{
		Sessions: sessions, API: inner.Handler(private.Routes(), nil), Limits: &api.Limits, Log: c.Log, Ready: ready, SSO: signOn,
		Pages: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{
			Slots: maxPages, Each: pagesOfTenant, Waiting: pagesWaiting, Timeout: c.Settings.RequestWait,
		}),
	}
	pages.Stopping = api.Stopping
	pages.Streams = limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: maxDownloads, Each: streamsOfTenant})
	handlers, visitors := pages.Handlers(), pages.Visitors()
	for pattern, handler := range handlers {
		handlers[pattern] = api.AnonymousExcept(visitors, handler)
	}
	return handlers
}

// Limits of requests that wait for events. Each also counts as in flight.
const (
	maxWaits      = 256
	waitsOfTenant = 16
)

// newManage returns the management API for callers that keys identifies.
func newManage(c Config, cursors rest.CursorKey, keys manage.KeyCache, logs resource.Logs) *manage.API {
	c.Store.KeepVersions = c.Settings.KeepVersions
	allow, _ := config.Networks(c.Settings.WebhookAllow) // Config.Validate has checked it
	exports := maxExports
	if c.Store.Traits().Remote {
		exports = min(exports, c.Settings.DatabaseConnections/2)
	}
	return &manage.API{
		Store: c.Store, Logs: logs, Cursors: cursors, Keys: keys, Mappings: mapping.NewCache(),
		Imports: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: c.Settings.MaxConnections, Each: streamsOfTenant}),
		Checks:  limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: maxChecks, Each: streamsOfTenant}),
		Exports: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{
			Slots: exports, Each: streamsOfTenant, Waiting: exportsWaiting, Timeout: exportWait,
		}),
		WebhookAllow: allow, PublicURL: c.Settings.PublicURL,
		Waits:    limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: maxWaits, Each: waitsOfTenant}),
		MaxEntry: int64(c.Settings.MaxBody), MaxBatch: int64(c.Settings.BatchMaxBody),
	}
}

// commandLine replaces the keys for callers with direct access to the database.
type commandLine struct{}

// Authenticate returns the principal of the command line.
func (commandLine) Authenticate(context.Context, netip.Addr, string) (auth.Principal, error) {
	return auth.Principal{Scopes: atrium.ManageScopes(), Operator: true}, nil
}

// Forget does nothing: servers look a key up again after auth.CacheTime.
func (commandLine) Forget(atrium.KeyID) {}

func (commandLine) ForgetTenant(atrium.TenantID) {}
