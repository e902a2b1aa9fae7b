// Package app assembles the service from its packages, and runs it. Tests start it as the
// command line does.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/config"
	"atrium/internal/content"
	"atrium/internal/docsui"
	"atrium/internal/doctor"
	"atrium/internal/external"
	"atrium/internal/ingest"
	"atrium/internal/limit"
	"atrium/internal/requestlog"
	"atrium/internal/rest"
	"atrium/internal/store"
	"atrium/internal/telemetry"
)

// Limits of open imports and exports. Imports hold nothing while they wait for their clients,
// so there is no limit for all tenants together. The check of an import holds a temporary database
// with a cache of up to 16 MiB. An export holds a chunk of a few megabytes and, on PostgreSQL, a
// connection.
const (
	streamsOfTenant = 2 // of each kind
	maxChecks       = 16
	maxExports      = 32
	exportsWaiting  = 64          // of one tenant
	exportWait      = time.Second // a client that repeats a refused export at once sends few requests
)

// lineMembers is the number of bytes by which an import line may exceed max-body: an exported
// record has a few members more than the request that created it. Imported records are therefore no
// larger than those that requests create.
const lineMembers = 64 << 10

const statusOK = `{"status":"ok"}`

// Config has the parts that New needs.
type Config struct {
	Settings config.Config
	Origins  []config.Setting // the settings with their origin, for operators
	Loading  []doctor.Finding // warnings of loading the settings, for operators
	Version  string           // of this build, for operators
	Store    *store.Store     // migrated by New, closed by the caller
	Log      *slog.Logger
	Metrics  *telemetry.Metrics // nil for none; served if the settings have an address
	Export   *telemetry.Export  // nil for none; closed by Run
}

// An App is the running service.
type App struct {
	settings    config.Config
	log         *slog.Logger
	listener    net.Listener
	connections *limit.Listener // is listener, or wraps it
	limits      rest.Limits
	server      *http.Server
	http2       *http2Server // nil for plain HTTP
	console     net.Listener // the part of listener that is for the console; nil for none
	measured    net.Listener // for metrics; nil for none
	metrics     *http.Server // nil for none
	certificate *certificate // nil for plain HTTP
	writer      *ingest.Writer
	keys        *auth.Authenticator
	fatal       <-chan error // receives an error of the storage that ends the process
	newer       chan error   // receives the error that ends the process when an upgrade is finished
	ready       atomic.Bool
	jobs        []job
	requests    *requestlog.Recorder
	deliverer   *deliverer // nil if the node sends no requests to webhooks
	runs        *jobRuns
	succeeded   func(job string)  // called after each run without an error; may be nil
	draining    atomic.Bool       // during the shutdown delay
	export      *telemetry.Export // nil for none

	missingKeys atomic.Pointer[error] // why no request should come because of secrets; nil before the first check
}

// New listens, migrates the store's schema, and returns the service, which
// serves once Run is called. Close releases it if Run is not called. The migration comes last, because
// it cannot be undone: a service that cannot listen changes nothing.
func New(ctx context.Context, c Config) (*App, error) {
	observe := newObservers(c)
	limits, err := newLimits(c.Settings, c.Store.Traits(), observe.refused, observe.headersPaused)
	if err != nil {
		return nil, err
	}
	limits.rest.SnapshotsMustEnd = func() bool { return c.Store.Stats().WALBlocked }
	a := &App{settings: c.Settings, log: c.Log, limits: limits.rest, export: c.Export, fatal: c.Store.Fatal(), newer: make(chan error, 1)}
	c.Store.AdmitCheck = limits.rest.AdmitCheck
	if err := a.secure(); err != nil {
		return nil, err
	}
	if err := errors.Join(checkClientSecret(c), useSecrets(c)); err != nil {
		return nil, err
	}
	if err := a.listen(c.Metrics != nil && c.Settings.MetricsAddr != "", limits.bounds, observe.acceptFailed); err != nil {
		return nil, err
	}
	cursors, err := prepare(ctx, c)
	if err != nil {
		return nil, errors.Join(err, a.closeListeners())
	}
	if err := a.checkSecrets(ctx, c.Store); err != nil {
		return nil, errors.Join(fmt.Errorf("check the keys of secrets: %w", err), a.closeListeners())
	}
	signOn, err := newSingleSignOn(ctx, c, limits.failures)
	if err != nil {
		return nil, errors.Join(err, a.closeListeners())
	}
	a.writer = newWriter(c, observe.ingest, observe.trace)
	a.keys = auth.New(c.Store, c.Store.Now, limits.failures, observe.auth)
	a.requests = observe.requests
	c.Store.EventRetention, c.Store.DeliveryRetention = c.Settings.EventRetention, c.Settings.DeliveryRetention
	c.Store.QuarantineRetention = c.Settings.QuarantineRetention
	if a.deliverer, err = newDeliverer(c, &limits.rest, observe.tenants); err != nil {
		return nil, errors.Join(err, a.closeListeners())
	}
	a.jobs, a.runs = append(newJobs(c.Store, a.requests, a.newer), a.secretsJob(c.Store)), newJobRuns(time.Now)
	stopping, stop := context.WithCancel(context.Background())
	api := newAPI(c, a.keys)
	api.Begin, api.Observe, api.Stopping, api.Limits = observe.begin, observe.request, stopping, limits.rest
	if a.certificate != nil {
		api.HSTS = c.Settings.HSTS
	}
	siteCache := int64(c.Settings.ResponseCache) / 4 // visitors of sites do not evict other responses
	public := &external.API{Store: c.Store, Logs: a.writer, Cursors: cursors, Cache: &rest.ResponseCache{Version: c.Store.CacheVersion, Bytes: int64(c.Settings.ResponseCache) - siteCache}}
	sites := &content.API{Store: c.Store, Previews: a.keys, Cache: &rest.ResponseCache{Version: c.Store.CacheVersion, Bytes: siteCache}}
	private := newManage(c, cursors, a.keys, a.writer)
	private.Server = a.serverInfo(c)
	private.MaxLine = int64(c.Settings.MaxBody) + lineMembers

	open := map[string]http.Handler{
		"/healthz": api.JSON(statusOK, healthy),
		"/readyz":  api.JSON(statusOK, a.readiness(c.Store)),
	}
	var people map[string]http.Handler
	if c.Settings.Console {
		people = newConsole(c, api, private, limits.failures, a.readiness(c.Store), signOn) //nolint:contextcheck // each request has its own
	}
	if a.console == nil {
		maps.Copy(open, people)
	} else {
		people["/{$}"] = http.RedirectHandler("/console", http.StatusSeeOther)
	}
	maps.Copy(open, newReceiver(c, api, a.writer, private.Mappings).Handlers())
	for _, pages := range []map[string]http.Handler{rest.ErrorPages(), docsui.Documents(), docsui.Pages()} {
		for path, page := range pages {
			open[path] = api.Anonymous(page)
		}
	}
	handler := api.Handler(slices.Concat(public.Routes(), sites.Routes(), private.Routes()), open)
	if a.console != nil {
		handler = byPort(a.console.Addr().(*net.TCPAddr).Port, api.Handler(nil, people), handler)
	}
	a.server = newServer(c, a.closeWhenDraining(handler))
	a.server.ConnContext = rest.ConnContext
	a.server.RegisterOnShutdown(stop)
	a.secureServer(c.Settings, limits.http2) //nolint:contextcheck // ctx is that of the start, and the server outlives it
	if c.Metrics != nil {
		a.measure(c) //nolint:contextcheck // metrics are read without a context
	}
	return a, nil
}

// errUnfinishedCopy is returned at the start on a database to which a copy is not complete: a server
// would change what the copy compares at the end.
var errUnfinishedCopy = errors.New("a copy of everything to this database is not complete: run atrium copy again")

// prepare migrates the store's schema and returns the key of the cursors.
func prepare(ctx context.Context, c Config) (rest.CursorKey, error) {
	ran, err := c.Store.Migrate(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	if len(ran) > 0 {
		c.Log.Info("migrated the database", "migrations", ran)
	}
	if err := finishUpgrade(ctx, c); err != nil {
		return nil, fmt.Errorf("finish the upgrade: %w", err)
	}
	if _, everything, err := c.Store.UnfinishedCopies(ctx); err != nil {
		return nil, fmt.Errorf("look for unfinished copies: %w", err)
	} else if everything {
		return nil, errUnfinishedCopy
	}
	cursors, err := c.Store.Secret(ctx, store.CursorKey)
	if err != nil {
		return nil, fmt.Errorf("read the cursor key: %w", err)
	}
	return cursors, nil
}

// finishUpgrade finishes the upgrade of an embedded database, which has one server. On a database server,
// other nodes may still be of the previous release.
func finishUpgrade(ctx context.Context, c Config) error {
	if !c.Store.Traits().Remote {
		return c.Store.FinishUpgrade(ctx)
	}
	finished, err := c.Store.CheckUpgrade(ctx)
	if err == nil && !finished {
		c.Log.Warn("nodes of the previous release can still use the database: when none is left, run atrium migrate --finish")
	}
	return err
}

// newAPI returns the HTTP framework with authentication by keys.
func newAPI(c Config, keys rest.Keys) *rest.API {
	return &rest.API{
		Keys: keys, Log: c.Log, MaxBody: int64(c.Settings.MaxBody), MaxStream: int64(c.Settings.ImportMaxBody),
		Tenants: func(ctx context.Context, id atrium.TenantID) error {
			_, err := c.Store.Tenant(ctx, id)
			return err
		},
	}
}

func newWriter(c Config, observer ingest.Observer, tracer ingest.Tracer) *ingest.Writer {
	database := c.Store.Traits()
	return ingest.NewWriter(c.Store, ingest.Limits{
		QueueEntries: c.Settings.QueueEntries, QueueBytes: int(c.Settings.QueueBytes), BatchEntries: c.Settings.BatchEntries,
		Workers: min(c.Settings.WriteWorkers, database.Writers), OneTenant: database.Sharded,
	}, c.Log, observer, tracer)
}

// Handler returns the handler of the API, for callers with their own connections.
func (a *App) Handler() http.Handler { return a.server.Handler }

// Run serves until ctx ends, a listener fails, or the storage reports a fatal error. Then it
// reports that it is not ready, serves for the shutdown delay, stops accepting connections,
// completes requests in flight and commits queued entries. It returns nil if nothing failed
// and all of that was done within the drain timeout.
func (a *App) Run(ctx context.Context) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { a.keys.Run(background, a.log) })
	jobs := startJobs(background, a.jobs, a.log, a.jobRan)
	stopDelivering := a.deliver(background)

	failed := make(chan error, 2)
	defer func() { _ = a.listener.Close() }() // Serve closes it, but may not even have begun
	go func() { failed <- a.serve() }()
	if a.certificate != nil {
		running.Go(func() { a.certificate.watch(background) })
	}
	if a.metrics != nil {
		defer func() { _ = errors.Join(a.metrics.Close(), a.measured.Close()) }()
		go func() { failed <- a.metrics.Serve(a.measured) }()
		a.log.Info("serving metrics", "addr", a.MetricsAddr())
	}
	a.ready.Store(true)
	if a.console != nil {
		a.log.Info("serving the console", "addr", a.ConsoleAddr())
	}
	a.log.Info("serving", "addr", a.Addr(), "database", config.Redact(a.settings.Database)) // and ready: tests and scripts wait for it
	notifySystemd(a.log, daemon.SdNotifyReady)
	running.Go(func() { watchdog(background, a.log) })
	var failure error
	select {
	case err := <-failed:
		failure = fmt.Errorf("serve: %w", err)
	case err := <-a.fatal:
		failure = a.storageFailed(err)
	case failure = <-a.newer:
		a.log.Error("stopping: a newer release uses the database now", "error", failure)
	case <-ctx.Done():
	}
	a.ready.Store(false)
	notifySystemd(a.log, daemon.SdNotifyStopping)
	drain, cancel := context.WithTimeout(background, a.settings.DrainTimeout)
	defer cancel()
	if a.settings.ShutdownDelay > 0 && failure == nil {
		a.draining.Store(true)
		a.log.Info("stopping: not ready, serving for the shutdown delay", "delay", a.settings.ShutdownDelay)
		failure = a.linger(failed)
	}
	a.log.Info("stopping: completing requests in flight")
	jobs.stop()
	delivered := stopDelivering(drain)
	err := a.server.Shutdown(drain)
	if err != nil {
		err = errors.Join(fmt.Errorf("finish requests: %w", err), a.server.Close())
	}
	err = errors.Join(failure, err, a.writer.Close(drain))
	jobs.wait(drain)
	<-delivered
	if err := a.requests.Write(drain); err != nil {
		a.log.Warn("the last refused requests and reads of personal data were not stored", "error", err)
	}
	select {
	case fatal := <-a.fatal:
		err = errors.Join(err, a.storageFailed(fatal))
	default:
	}
	if err := a.export.Close(drain); err != nil {
		a.log.Warn("export of the last traces or metrics failed", "error", err)
	}
	return err
}

// Close stops listening and commits queued entries. It is for an App that is not run.
func (a *App) Close(ctx context.Context) error {
	err := a.closeListeners()
	if errors.Is(err, net.ErrClosed) { // by Run
		err = nil
	}
	return errors.Join(err, a.writer.Close(ctx))
}

func (a *App) closeListeners() error {
	err := a.listener.Close()
	if a.measured != nil {
		err = errors.Join(err, a.measured.Close())
	}
	return err
}

// storageFailed logs an error of the storage that ends the process, and returns it.
func (a *App) storageFailed(err error) error {
	a.log.Error("stopping: the database can no longer be written safely", "error", err)
	return fmt.Errorf("storage: %w", err)
}

// linger serves for the shutdown delay, or until a listener or the storage fails.
func (a *App) linger(failed <-chan error) error {
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case err := <-a.fatal:
		return a.storageFailed(err)
	case <-time.After(a.settings.ShutdownDelay):
		return nil
	}
}

// healthy reports that the process serves requests. It does not check the storage.
func healthy(*http.Request) error { return nil }

// readiness reports to a load balancer whether to send requests: the service must be running, not
// stopping, and its storage available.
func (a *App) readiness(s *store.Store) func(*http.Request) error {
	return func(r *http.Request) error {
		if !a.ready.Load() {
			return atrium.Unavailable(errors.New("the service is starting or stopping"))
		}
		if lacks := a.lacksKeys(); lacks != nil {
			return atrium.Unavailable(lacks)
		}
		return ping(r.Context(), s)
	}
}

// ping checks the storage, with a timeout of a second.
func ping(ctx context.Context, s *store.Store) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return s.Ping(ctx)
}
