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
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"atrium"
)

// NewLogger returns a logger that writes to w, where the lines of requests are gathered if
// that is *Lines. format is json, text, or auto, which is text if w is a terminal; level is
// one that slog reads, or else info.
func NewLogger(w io.Writer, format, level string) *slog.Logger {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		least = slog.LevelInfo
	}
	lines, ok := w.(*Lines)
	if !ok {
		lines = &Lines{to: w, closed: true}
	}
	options, requests := &slog.HandlerOptions{Level: least}, gatherer{lines}
	if format == "text" || format == "auto" && isTerminal(lines.to) {
		return slog.New(&handler{slog.NewTextHandler(lines, options), slog.NewTextHandler(requests, options), nil})
	}
	return slog.New(&handler{slog.NewJSONHandler(lines, options), slog.NewJSONHandler(requests, options), &requests})
}

// A handler of the log is one of slog, and has another for requests.
type handler struct {
	slog.Handler
	requests slog.Handler
	json     *gatherer // what these are written by; nil if the log is text
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
	var json *gatherer
	if h, ok := log.Handler().(*handler); ok {
		log, json = slog.New(h.requests), h.json
	}
	return func(x *Exchange) {
		if x.Refused != "" || x.Status < 400 && (sample == 0 || sample > 1 && count.Add(1)%uint64(sample) != 0) {
			return
		}
		if !log.Enabled(x.Context, slog.LevelInfo) {
			return
		}
		if json != nil && x.plain() {
			var line [512]byte // on the stack, and enough for nearly all
			_, _ = json.Write(x.appendLine(line[:0], time.Now()))
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

// plain reports whether the line of the request has nothing in it that JSON escapes.
func (x *Exchange) plain() bool {
	for _, s := range [...]string{x.RequestID, x.Route, string(x.TenantID), string(x.KeyID), x.Client.Zone()} {
		for i := range len(s) {
			if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
				return false
			}
		}
	}
	return true
}

// appendLine appends the line that slog.JSONHandler would make of a plain request.
func (x *Exchange) appendLine(b []byte, at time.Time) []byte {
	b = at.AppendFormat(append(b, `{"time":"`...), time.RFC3339Nano)
	b = append(append(b, `","level":"INFO","msg":"request","requestId":"`...), x.RequestID...)
	b = append(append(b, `","method":"`...), x.method()...)
	b = append(append(b, `","route":"`...), x.Route...)
	b = strconv.AppendInt(append(b, `","status":`...), int64(x.Status), 10)
	b = strconv.AppendInt(append(b, `,"duration":`...), int64(x.Duration.Round(time.Microsecond)), 10)
	b = strconv.AppendInt(append(b, `,"bytes":`...), int64(x.Bytes), 10)
	b = append(append(b, `,"tenantId":"`...), x.TenantID...)
	b = append(append(b, `","keyId":"`...), x.KeyID...)
	b = append(b, `","client":"`...)
	if x.Client.IsValid() {
		b = x.Client.AppendTo(b)
	}
	if id := traceOf(x.Context); id != "" {
		b = append(append(b, `","trace_id":"`...), id...)
	}
	return append(b, "\"}\n"...)
}
