package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"

	"atrium/internal/config"
	"atrium/internal/limit"
)

// listen opens all listeners or none, so that an error is known before anything is served.
func (a *App) listen(metrics bool, b limit.Bounds, acceptFailed func(error)) error {
	api, err := listenTCP(a.settings.Addr, "addr")
	if err != nil {
		return err
	}
	all := []net.Listener{limit.ReportAccept(api, acceptFailed)}
	if a.settings.Console && a.settings.ConsoleAddr != "" {
		if a.console, err = listenTCP(a.settings.ConsoleAddr, "console-addr"); err != nil {
			return errors.Join(fmt.Errorf("console: %w", err), api.Close())
		}
		all = append(all, limit.ReportAccept(a.console, acceptFailed))
	}
	a.connections = limit.NewListener(join(all...), b)
	a.listener = a.connections
	if !metrics {
		return nil
	}
	measured, err := listenTCP(a.settings.MetricsAddr, "metrics-addr")
	if err != nil {
		return errors.Join(fmt.Errorf("metrics: %w", err), a.listener.Close())
	}
	a.measured = limit.ReportAccept(measured, acceptFailed)
	return nil
}

// listenTCP listens on the address of a setting. The error names it once, and the cause without the system call.
func listenTCP(addr, setting string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if err == nil {
		return listener, nil
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		err = call.Err
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w: stop the other process, or choose another address with %s", err, config.Variable(setting))
	}
	return nil, fmt.Errorf("listen on %s: %w", addr, err)
}

// Addr returns the address that the service listens on.
func (a *App) Addr() string { return a.listener.Addr().String() }

// ConsoleAddr returns the address of the console; "" if it is that of the service, or there is none.
func (a *App) ConsoleAddr() string {
	if a.console == nil {
		return ""
	}
	return a.console.Addr().String()
}

// MetricsAddr returns the address that the metrics are served on; "" for none.
func (a *App) MetricsAddr() string {
	if a.measured == nil {
		return ""
	}
	return a.measured.Addr().String()
}

// OpenConnections returns the number of open client connections.
func (a *App) OpenConnections() int { return a.connections.Open() }

// newServer returns the server of the API, with the limits of the settings.
func newServer(c Config, handler http.Handler) *http.Server {
	return &http.Server{
		Handler:                      handler,
		ReadHeaderTimeout:            c.Settings.ReadHeaderTimeout,
		ReadTimeout:                  c.Settings.ReadTimeout,
		WriteTimeout:                 c.Settings.WriteTimeout,
		IdleTimeout:                  c.Settings.IdleTimeout,
		MaxHeaderBytes:               int(c.Settings.MaxHeader),
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
}

// closeWhenDraining asks clients to reconnect for their next request while the server drains:
// the load balancer then selects another node. Closing idle connections instead could lose a
// request on its way.
func (a *App) closeWhenDraining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
