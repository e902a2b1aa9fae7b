package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"atrium/internal/limit"
)

// listen opens the listeners, all or none: what cannot be served is known before
// anything is.
func (a *App) listen(metrics bool, b limit.Bounds, acceptFailed func(error)) error {
	api, err := net.Listen("tcp", a.settings.Addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	a.connections = limit.NewListener(limit.ReportAccept(api, acceptFailed), b)
	a.listener = a.connections
	if !metrics {
		return nil
	}
	measured, err := net.Listen("tcp", a.settings.MetricsAddr)
	if err != nil {
		return errors.Join(fmt.Errorf("listen for metrics: %w", err), a.listener.Close())
	}
	a.measured = limit.ReportAccept(measured, acceptFailed)
	return nil
}

// Addr returns the address that the service listens on.
func (a *App) Addr() string { return a.listener.Addr().String() }

// MetricsAddr returns the address that the metrics are served on; "" for none.
func (a *App) MetricsAddr() string {
	if a.measured == nil {
		return ""
	}
	return a.measured.Addr().String()
}

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

// sendingAway asks clients to take a new connection, which a load balancer leads to
// another node, for their next request while this one is about to stop. To close
// connections that are idle could lose a request that is on its way.
func (a *App) sendingAway(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
