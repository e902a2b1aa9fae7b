// Package app puts the service together. Run reads from top to bottom as the
// architecture, and tests call it like main does.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/external"
	"atrium/internal/ingest"
	"atrium/internal/rest"
	"atrium/internal/store"
)

// The limits of the server, from the first byte of a connection on. A drain
// ends after drainLimit whatever happens: what is accepted by then is committed
// in far less.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	answerTimeout     = 60 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10
	drainLimit        = 7 * time.Second
)

const statusOK = `{"status":"ok"}`

// A Config is what the service needs to know. Addr and Store must be set.
type Config struct {
	Addr    string // host:port to listen on; port 0 takes a free one
	Store   *store.Store
	Log     *slog.Logger
	MaxBody int64 // of a request, in bytes; 0 stands for rest.DefaultMaxBody
	Ingest  ingest.Limits
}

// An App is the running service.
type App struct {
	listener net.Listener
	server   *http.Server
	writer   *ingest.Writer
	log      *slog.Logger
	ready    atomic.Bool
}

// New migrates the store's schema, listens, and returns the service, which
// serves once Run is called. The store stays the caller's to close.
func New(ctx context.Context, c Config) (*App, error) {
	ran, err := c.Store.Migrate(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	if len(ran) > 0 {
		c.Log.Info("migrated the database", "migrations", ran)
	}
	cursors, err := c.Store.Secret(ctx, "cursor_key")
	if err != nil {
		return nil, fmt.Errorf("read the cursor key: %w", err)
	}
	listener, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}

	a := &App{listener: listener, log: c.Log, writer: ingest.NewWriter(c.Store, c.Ingest, c.Log)} //nolint:contextcheck // it outlives ctx: Run drains it
	keys := auth.New(c.Store, time.Now)
	public := &external.API{Store: c.Store, Logs: a.writer, Cursors: cursors}
	kit := &rest.API{Keys: keys, Log: c.Log, MaxBody: c.MaxBody}

	open := external.Documents()
	maps.Copy(open, rest.ErrorPages())
	open["/healthz"] = kit.JSON(statusOK, healthy)
	open["/readyz"] = kit.JSON(statusOK, a.readiness(c.Store))

	a.server = &http.Server{
		Handler:                      kit.Handler(public.Routes(), open),
		ReadHeaderTimeout:            readHeaderTimeout,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 answerTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	return a, nil
}

// Addr returns the address that the service listens on.
func (a *App) Addr() string { return a.listener.Addr().String() }

// Handler returns what answers requests, for those who bring connections of
// their own.
func (a *App) Handler() http.Handler { return a.server.Handler }

// Run serves until ctx ends. Then it is not ready any more, takes no new
// connections, answers the requests that it has, commits what waits, and
// returns nil if all of that was done within the limit.
func (a *App) Run(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- a.server.Serve(a.listener) }()
	a.ready.Store(true)
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	a.ready.Store(false)
	a.log.Info("stopping: finishing what was accepted")
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
	defer cancel()
	err := a.server.Shutdown(drain)
	if err != nil {
		err = errors.Join(fmt.Errorf("finish requests: %w", err), a.server.Close())
	}
	return errors.Join(err, a.writer.Close(drain))
}

// healthy tells that the process serves requests, whatever its storage does.
func healthy(*http.Request) error { return nil }

// readiness tells a load balancer whether to send requests here: not before the
// service runs, not while it stops, and not while its storage is away.
func (a *App) readiness(s *store.Store) func(*http.Request) error {
	return func(r *http.Request) error {
		if !a.ready.Load() {
			return atrium.Unavailable(errors.New("the service is starting or stopping"))
		}
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		return s.Ping(ctx)
	}
}
