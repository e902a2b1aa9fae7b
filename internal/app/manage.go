package app

import (
	"context"
	"math"
	"net/http"
	"net/netip"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
	"atrium/internal/manage"
	"atrium/internal/resource"
	"atrium/internal/rest"
)

// Manage migrates the store's schema and returns the management API on it for
// somebody who has the database, and so may do everything: no key is asked for, and
// requests name their tenant as with an operator's. Here that can be
// atrium.OperatorChain, for the keys and the audit log that are no tenant's. It serves
// until ctx ends.
func Manage(ctx context.Context, c Config) (http.Handler, error) {
	cursors, err := prepare(ctx, c)
	if err != nil {
		return nil, err
	}
	kit := newKit(c, commandLine{})
	kit.MaxStream = math.MaxInt64 // what is read is here already
	exists := kit.Tenants
	kit.Tenants = func(ctx context.Context, id atrium.TenantID) error {
		if id == atrium.OperatorChain {
			return nil
		}
		return exists(ctx, id)
	}
	writer := newWriter(c, nil, nil)
	context.AfterFunc(ctx, func() { _ = writer.Close(context.WithoutCancel(ctx)) })
	return kit.Handler(newManage(c, cursors, commandLine{}, writer).Routes(), nil), nil
}

// newManage returns the management API, as whoever asks for it has it.
func newManage(c Config, cursors rest.CursorKey, keys manage.KeyMemory, logs resource.Logs) *manage.API {
	c.Store.KeepVersions = c.Settings.KeepVersions
	exports := maxExports
	if c.Store.Traits().Remote {
		exports = min(exports, c.Settings.DatabaseConnections/2)
	}
	return &manage.API{
		Store: c.Store, Logs: logs, Cursors: cursors, Keys: keys,
		Imports:  limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Places: c.Settings.MaxConnections, Each: streamsOfTenant}),
		Exports:  limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Places: exports, Each: streamsOfTenant}),
		MaxEntry: int64(c.Settings.MaxBody), MaxBatch: int64(c.Settings.BatchMaxBody),
	}
}

// commandLine stands for the keys where there are none.
type commandLine struct{}

// Authenticate returns the principal whom the audit log calls the command line.
func (commandLine) Authenticate(context.Context, netip.Addr, string) (auth.Principal, error) {
	return auth.Principal{Scopes: atrium.ManageScopes(), Operator: true}, nil
}

// Forget has nothing to do: servers ask for a key again after auth.CacheTime.
func (commandLine) Forget(atrium.KeyID) {}
