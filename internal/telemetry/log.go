// Package telemetry is what the service says of itself: the log, the
// metrics and the traces.
package telemetry

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"atrium"
)

// NewLogger returns a logger that writes to w. format is json, text, or auto,
// which is text if w is a terminal; level is one that slog reads, or else info.
func NewLogger(w io.Writer, format, level string) *slog.Logger {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		least = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: least}
	if format == "text" || format == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// An Exchange is a request that was answered.
type Exchange struct {
	Context   context.Context
	RequestID string
	Method    string // as it was sent
	Route     string // the pattern of the path; "" if no route serves it
	Status    int
	Bytes     int // of the answer's body
	Duration  time.Duration
	TenantID  atrium.TenantID // "" if the caller was not identified
	KeyID     atrium.KeyID
	Client    netip.Addr // whom it came from; the zero Addr if that is not known
	Refused   Refusal    // by which limit; "" for none
}

// method returns the method if HTTP defines it, and else "other": what it is then
// is the client's choice, and there is no end to such texts.
func (x *Exchange) method() string {
	if isMethod(x.Method) {
		return x.Method
	}
	return "other"
}

func isMethod(text string) bool {
	switch text {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// client returns the text of the client's address, "" if it is not known.
func (x *Exchange) client() string {
	if !x.Client.IsValid() {
		return ""
	}
	return x.Client.String()
}

// RequestLog returns what writes one line for a request: each that failed, and
// one of so many that did not; none of these if sample is 0. Those that a limit
// refused are for the RefusalLog: who sends too many must not fill the log with them.
func RequestLog(log *slog.Logger, sample int) func(*Exchange) {
	var count atomic.Uint64
	return func(x *Exchange) {
		if x.Refused != "" || x.Status < 400 && (sample == 0 || sample > 1 && count.Add(1)%uint64(sample) != 0) {
			return
		}
		if !log.Enabled(x.Context, slog.LevelInfo) {
			return
		}
		attrs := [...]slog.Attr{
			slog.String("requestId", x.RequestID),
			slog.String("method", x.method()),
			slog.String("route", x.Route),
			slog.Int("status", x.Status),
			slog.Duration("duration", x.Duration.Round(time.Microsecond)),
			slog.Int("bytes", x.Bytes),
			slog.String("tenantId", string(x.TenantID)),
			slog.String("keyId", string(x.KeyID)),
			slog.String("client", x.client()),
			{}, // of the trace
		}
		all := attrs[:len(attrs)-1]
		if id := traceOf(x.Context); id != "" {
			all = append(all, slog.String("trace_id", id)) // as OpenTelemetry has it in logs of other formats
		}
		log.LogAttrs(x.Context, slog.LevelInfo, "request", all...)
	}
}
