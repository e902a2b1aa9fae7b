package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"atrium/internal/app"
	"atrium/internal/config"
	"atrium/internal/doctor"
	"atrium/internal/store"
	"atrium/internal/telemetry"
)

// gcPercent lets the heap grow to three times the live heap before a collection, unless GOGC is
// set: the live heap is small, and frequent collections cost throughput. With five times, the
// process took 267 MB instead of 184 MB with the response cache, and was no faster.
const gcPercent = 200

// connectionMemory is the memory of a TLS connection with the largest headers and the part of a body
// that needs no quota.
const connectionMemory = 80 << 10

// memoryLimit returns the soft memory limit of the Go runtime with a number of open connections: what
// clients may make the process keep, and a share of that for other live memory. With less, requests
// that stay within their limits would make it collect garbage all the time.
func memoryLimit(c config.Config, connections int) int64 {
	bodies := int64(c.BodyMemory) / 2 * 3 // with a quarter that is in reserve, and one of HTTP/2 that is not read yet
	return 96<<20 + bodies + int64(c.QueueBytes) + int64(c.ResponseCache) + int64(connections)*connectionMemory
}

// limitMemory makes the memory limit follow the number of open connections until stop is called. It
// does nothing if GOMEMLIMIT is set.
func limitMemory(c config.Config, connections func() int) (stop func()) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	const step = 256 // connections: each change of the limit stops all goroutines for a moment
	rounded := 0
	tick := time.NewTicker(time.Second)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-tick.C:
				if now := connections() / step * step; now != rounded {
					rounded = now
					debug.SetMemoryLimit(memoryLimit(c, rounded))
				}
			case <-done:
				return
			}
		}
	}()
	return func() {
		tick.Stop()
		close(done)
	}
}

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Serve the API until SIGINT or SIGTERM. Pending migrations are applied first.

On a signal, the server becomes not ready, finishes the requests that it has accepted, and
exits within 8 seconds. A second signal ends it immediately. SIGHUP reloads the TLS certificate.`,
		Example: `  atrium serve
  atrium serve --addr 0.0.0.0:8080 --database sqlite:/var/lib/atrium/atrium.db
  atrium serve --config /etc/atrium.yaml --metrics-addr 127.0.0.1:9464`,
		Args: cobra.NoArgs,
	}
	load, loader := settingsFlags(cmd, config.Default())
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		settings, origins, err := load()
		if err = errors.Join(err, misspelledTarget(cmd)); err != nil {
			return logFailure(telemetry.NewLogger(cmd.ErrOrStderr(), settings.LogFormat, settings.LogLevel), cmd.ErrOrStderr(), settings, err)
		}
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP) // never stopped: a reload must not end a server that starts or stops, either
		return serve(cmd.Context(), settings, origins, loadingFindings(loader), cmd.ErrOrStderr(), func(a *app.App, _ *store.Store) error {
			go func() {
				for range hangups {
					a.ReloadCertificate()
				}
			}()
			return nil
		})
	})
	return cmd
}

// settingsFlags adds a flag for every setting. It returns a function that loads the settings after
// flag parsing, and the loader, which then has the warnings.
func settingsFlags(
	cmd *cobra.Command, defaults config.Config,
) (func() (config.Config, []config.Setting, error), *config.Loader) {
	settings := defaults
	cmd.Flags().SortFlags = false // related settings are next to each other
	loader := config.Bind(cmd.Flags(), &settings)
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Annotations = map[string][]string{ofSettings: nil} })
	return func() (config.Config, []config.Setting, error) {
		list, err := loader.Load(os.LookupEnv)
		if err != nil {
			err = usageError{err}
		}
		return settings, list, err
	}, loader
}

// serve logs the warnings and runs the server. It calls started once the server listens.
func serve(
	ctx context.Context, c config.Config, origins []config.Setting, loading []doctor.Finding, stderr io.Writer,
	started func(*app.App, *store.Store) error,
) (err error) {
	signal.Ignore(syscall.SIGPIPE) // the reader of the log may exit
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit(c, 0))
	}
	// net/http writes to the standard logger what a webhook's endpoint sends without a request.
	stdlog.SetOutput(io.Discard) //nolint:forbidigo // nothing else writes to it
	logWriter := telemetry.NewLogWriter(stderr)
	defer func() { _ = logWriter.Close() }()
	log := telemetry.NewLogger(logWriter, c.LogFormat, c.LogLevel)
	defer func() { err = logFailure(log, stderr, c, err) }()
	var warnings []string
	for _, f := range loading {
		warnings = append(warnings, f.Found)
	}
	if err := disableCoreDumps(); err != nil {
		warnings = append(warnings, err.Error())
	}
	if c.TLSCert == "" && c.TrustedProxies == "" && !doctor.Loopback(c.Addr) {
		warnings = append(warnings, "keys are sent unencrypted: "+c.Addr+" is reachable from other machines, and TLS is "+
			"off: set tls-cert and tls-key, or let only a proxy with TLS reach it and set trusted-proxies")
	}
	for _, w := range warnings {
		log.Warn(w)
	}
	export, err := telemetry.NewExport(ctx, version(), c.Database, log)
	if err != nil {
		return usageError{err}
	}
	var metrics *telemetry.Metrics
	if c.MetricsAddr != "" || export.WantsMetrics() {
		metrics = telemetry.NewMetrics(version())
	}
	var observer store.Observer
	if metrics != nil || export != nil {
		observer = telemetry.Storage{Metrics: metrics, Traces: export.Traces()}
	}
	options := storeOptions(c, observer)
	options.CheckAfterCrash = true
	s, err := store.Open(ctx, c.Database, options)
	if err != nil {
		return err
	}
	defer func() {
		if err := s.Close(); err != nil {
			log.Error("close database", "error", err)
		}
	}()
	a, err := app.New(ctx, app.Config{Settings: c, Origins: origins, Loading: loading, Version: version(), Store: s, Log: log, Metrics: metrics, Export: export})
	if errors.Is(err, app.ErrCertificate) || errors.Is(err, app.ErrSecretsKeyFile) || errors.Is(err, store.ErrNewer) {
		return permanent{err}
	}
	if err != nil {
		return err
	}
	if export.WantsMetrics() {
		err = export.Send(ctx, metrics)
	}
	if err == nil {
		err = started(a, s)
	}
	if err != nil {
		return errors.Join(err, a.Close(ctx))
	}
	defer limitMemory(c, a.OpenConnections)()
	err = a.Run(ctx)
	if errors.Is(err, store.ErrNewer) {
		return permanent{err}
	}
	if err == nil {
		log.Info("stopped")
	}
	return err
}

// logFailure logs why a server ends, if the log is for programs: what reads JSON lines does not understand
// the message of the command, which is then not printed.
func logFailure(log *slog.Logger, stderr io.Writer, c config.Config, err error) error {
	if err == nil || telemetry.WritesText(stderr, c.LogFormat) {
		return err
	}
	for _, err := range separate(err) {
		log.Error("the server failed", "error", explain(err))
	}
	return logged{err}
}

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the effective settings and where each comes from",
		Long: `Show the settings that atrium serve would use with the same flags, environment and file,
and where each comes from. Passwords are redacted. Invalid settings are errors.`,
		Example: "  atrium config\n  ATRIUM_ADDR=0.0.0.0:80 atrium config --config /etc/atrium.yaml -o json",
		Args:    cobra.NoArgs,
	}
	load, loader := settingsFlags(cmd, config.Default())
	out := outputFlag(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		_, list, err := load()
		if err != nil {
			return err
		}
		warn(cmd.ErrOrStderr(), loader.Warnings...)
		return out.print(cmd, list, func(w io.Writer) {
			fmt.Fprintln(w, "SETTING\tVALUE\tSOURCE")
			for _, s := range list {
				fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, s.Value, s.Source)
			}
		})
	})
	return cmd
}
