// Package telemetry has the log, the metrics and the traces of the service.
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

// NewLogger returns a logger that writes to w. The lines of requests are coalesced if w is a
// *LogWriter. format is json, text or auto, which is text if w is a terminal. level is the
// minimum level, in the form that slog parses; an invalid one is info.
func NewLogger(w io.Writer, format, level string) *slog.Logger {
	var minimum slog.Level
	if err := minimum.UnmarshalText([]byte(level)); err != nil {
		minimum = slog.LevelInfo
	}
	out, ok := w.(*LogWriter)
	if !ok {
		out = &LogWriter{to: w, closed: true}
	}
	options := &slog.HandlerOptions{Level: minimum}
	if WritesText(out.to, format) {
		return slog.New(&handler{slog.NewTextHandler(out, options), slog.NewTextHandler(coalescer{out}, options)})
	}
	return slog.New(&handler{slog.NewJSONHandler(out, options), slog.NewJSONHandler(coalescer{out}, options)})
}

// WritesText reports whether a log with the format is text for people, not JSON, on a writer.
func WritesText(w io.Writer, format string) bool {
	return format == "text" || format == "auto" && isTerminal(w)
}

// A handler logs requests through a handler of their own.
type handler struct {
	slog.Handler
	requests slog.Handler
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// An Exchange is a request and its response.
type Exchange struct {
	RequestID string
	Method    string // as sent
	Route     string // the pattern of the path; "" if no route serves it
	Status    int
	Bytes     int // of the response body
	Duration  time.Duration
	TenantID  atrium.TenantID // "" if the caller was not identified
	KeyID     atrium.KeyID
	UserID    atrium.UserID     // of the console
	Receiver  atrium.ReceiverID // that the request was sent to, if it exists
	Client    netip.Addr        // the client's address; the zero Addr if it is unknown
	Refused   Refusal           // the limit that refused the request; "" for none

	// Code, Detail and Faults are those of a problem document; zero for any other response. UserAgent is set
	// with them, and has what the client sent. None of them is logged.
	Code      atrium.Code
	Detail    string
	Faults    []atrium.Fault
	UserAgent string

	// IgnoredFields is the number of members and parameters of the request that had no effect.
	IgnoredFields int

	// Read and Subject are the personal data in a response, zero if there is none. They are not logged.
	Read    atrium.ReadKind
	Subject string

	// EntryID and AccountID are those in the response to a request that records one entry.
	EntryID   atrium.EntryID
	AccountID atrium.AccountID
}

// method returns the method if HTTP defines it, and "other" otherwise: clients can send any
// number of different methods.
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

// client returns the text of the client's address, "" if it is unknown.
func (x *Exchange) client() string {
	if !x.Client.IsValid() {
		return ""
	}
	return x.Client.String()
}

// level returns the level of the request's line. Load balancers check the health of each server
// several times a second: the lines of successful checks are for debugging.
func (x *Exchange) level() slog.Level {
	if x.Status < 400 && (x.Route == "/healthz" || x.Route == "/readyz") {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// maxAnonymous is the maximum number of requests without a valid key that are logged in a second.
const maxAnonymous = 100

// RequestLog returns a function that logs a request: every failed one, and one in sample
// successful ones, none if sample is 0. A client that sends too many cannot fill the log: it skips
// requests that a limit refused, which RefusalLog logs, and those without a valid key above
// maxAnonymous, about which it warns at most once per refusalInterval.
func RequestLog(log *slog.Logger, sample int) func(context.Context, *Exchange) {
	var count atomic.Uint64
	var anonymous perSecond
	var leftOut logLimiter
	requests := log.Handler()
	if h, ok := requests.(*handler); ok {
		requests = h.requests
	}
	return func(ctx context.Context, x *Exchange) {
		level := x.level()
		if x.Refused != "" || !requests.Enabled(ctx, level) {
			return
		}
		if x.Status < 400 && (sample == 0 || sample > 1 && count.Add(1)%uint64(sample) != 0) {
			return
		}
		if x.KeyID == "" && x.UserID == "" && anonymous.next() > maxAnonymous {
			if count, ok := leftOut.event(refusalInterval); ok {
				log.LogAttrs(ctx, slog.LevelWarn, "requests without a valid key were not logged", slog.Int("count", count))
			}
			return
		}
		// Unlike Logger.LogAttrs, this does not look up the caller, which no handler of ours logs.
		record := slog.NewRecord(time.Now(), level, "request", 0)
		record.AddAttrs(
			slog.String("requestId", x.RequestID),
			slog.String("method", x.method()),
			slog.String("route", x.Route),
			slog.Int("status", x.Status),
			slog.Duration("duration", x.Duration.Round(time.Microsecond)),
			slog.Int("bytes", x.Bytes),
			slog.String("tenantId", string(x.TenantID)),
			slog.String("keyId", string(x.KeyID)),
			slog.String("client", x.client()),
		)
		if x.UserID != "" {
			record.AddAttrs(slog.String("userId", string(x.UserID)))
		}
		if x.Receiver != "" {
			record.AddAttrs(slog.String("receiverId", string(x.Receiver)))
		}
		if x.IgnoredFields > 0 {
			record.AddAttrs(slog.Int("ignoredFields", x.IgnoredFields))
		}
		if x.EntryID != "" {
			record.AddAttrs(slog.String("accountLogId", string(x.EntryID)), slog.String("accountId", string(x.AccountID)))
		}
		if id := traceOf(ctx); id != "" {
			record.AddAttrs(slog.String("trace_id", id)) // OpenTelemetry's name in logs that are not OTLP
		}
		_ = requests.Handle(ctx, record) // an error of the log cannot be logged
	}
}
