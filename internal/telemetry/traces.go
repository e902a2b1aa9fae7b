package telemetry

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"atrium"
)

// Traces creates the spans of requests, commits and transactions. Its methods are safe for
// concurrent use, do not block, and do nothing on a nil *Traces.
//
// A span has the attributes that the log has of a request: patterns and identifiers that the
// service generated, never a path, query, header or body.
type Traces struct {
	tracer trace.Tracer
	system attribute.KeyValue
}

// maxLinks is the maximum number of requests that a commit links to.
const maxLinks = 128

// maxTraceState is the maximum length of a tracestate, in bytes: the length that must be
// propagated (W3C Trace Context, section 3.3.1.5).
const maxTraceState = 512

// Attributes outside the semantic conventions.
const (
	attributeTenant   = attribute.Key("atrium.tenant.id")
	attributeKey      = attribute.Key("atrium.key.id")
	attributeEntries  = attribute.Key("atrium.batch.entries")
	attributeAttempts = attribute.Key("atrium.transaction.attempts")
	attributeResult   = attribute.Key("atrium.transaction.result")
)

func newTraces(provider trace.TracerProvider, database string) *Traces {
	t := &Traces{system: semconv.DBSystemNamePostgreSQL,
		tracer: provider.Tracer("atrium", trace.WithSchemaURL(semconv.SchemaURL))}
	if strings.HasPrefix(database, "sqlite:") {
		t.system = semconv.DBSystemNameSQLite
	}
	return t
}

// Begin returns the context of a request, with a span that Request ends. The headers
// traceparent and tracestate name its parent, if they are valid.
func (t *Traces) Begin(r *http.Request) context.Context {
	if t == nil {
		return r.Context()
	}
	ctx := propagation.TraceContext{}.Extract(r.Context(), caller(r.Header))
	method, name := r.Method, r.Method
	if !isMethod(method) {
		method, name = "_OTHER", "HTTP"
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	ctx, _ = t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		semconv.HTTPRequestMethodKey.String(method), semconv.URLScheme(scheme),
		semconv.NetworkProtocolVersion(strings.TrimSuffix(strings.TrimPrefix(r.Proto, "HTTP/"), ".0")),
	))
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		// Not the Host header, which the client chooses.
		if here, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
			span.SetAttributes(semconv.ServerAddress(here.IP.String()), semconv.ServerPort(here.Port))
		}
	}
	return ctx
}

// caller returns the headers that name the parent of a request, nil if they are invalid.
func caller(h http.Header) propagation.MapCarrier {
	parents, states := h["Traceparent"], h["Tracestate"]
	if len(parents) != 1 {
		return nil
	}
	carrier := propagation.MapCarrier{"traceparent": parents[0]}
	if state := strings.Join(states, ","); state != "" && len(state) <= maxTraceState {
		carrier["tracestate"] = state
	}
	return carrier
}

// Request ends the span of a request.
func (t *Traces) Request(ctx context.Context, x *Exchange) {
	if t == nil {
		return
	}
	span := trace.SpanFromContext(ctx)
	defer span.End()
	if !span.IsRecording() {
		return
	}
	if x.Route != "" {
		span.SetAttributes(semconv.HTTPRoute(x.Route))
		if isMethod(x.Method) {
			span.SetName(x.Method + " " + x.Route)
		} else {
			span.SetName("HTTP " + x.Route)
		}
	}
	span.SetAttributes(semconv.HTTPResponseStatusCode(x.Status), semconv.HTTPResponseBodySize(x.Bytes))
	if x.TenantID != "" {
		span.SetAttributes(attributeTenant.String(string(x.TenantID)))
	}
	if x.KeyID != "" {
		span.SetAttributes(attributeKey.String(string(x.KeyID)))
	}
	if x.Status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(semconv.ErrorTypeKey.String(strconv.Itoa(x.Status)))
	}
}

// Batch returns the context of a commit of entries, and a function to call with its error when
// it has ended. requests has the context of each entry. The span of the commit belongs to the
// first sampled trace among them. It and the sampled requests link to each other, up to
// maxLinks.
func (t *Traces) Batch(requests []context.Context) (context.Context, func(error)) {
	if t == nil {
		return context.Background(), func(error) {}
	}
	var spans []trace.Span
	var links []trace.Link
	for _, ctx := range requests {
		span := trace.SpanFromContext(ctx)
		if c := span.SpanContext(); c.IsSampled() && len(links) < maxLinks &&
			(len(links) == 0 || !c.Equal(links[len(links)-1].SpanContext)) { // one request may send many
			spans, links = append(spans, span), append(links, trace.Link{SpanContext: c})
		}
	}
	if len(links) == 0 {
		return context.Background(), func(error) {}
	}
	ctx, span := t.tracer.Start(trace.ContextWithSpanContext(context.Background(), links[0].SpanContext), "commit entries",
		trace.WithLinks(links...), trace.WithAttributes(attributeEntries.Int(len(requests))))
	for _, request := range spans[1:] {
		request.AddLink(trace.Link{SpanContext: span.SpanContext()})
	}
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, "")
			span.SetAttributes(semconv.ErrorTypeKey.String(string(atrium.CodeOf(err))))
		}
		span.End()
	}
}

// Wrote records the span of a write transaction that has just ended, if its context has a
// span.
func (t *Traces) Wrote(ctx context.Context, d time.Duration, attempts int, committed bool) {
	if t == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return
	}
	end := time.Now()
	_, span := t.tracer.Start(ctx, "transaction",
		trace.WithTimestamp(end.Add(-d)), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(t.system, attributeAttempts.Int(attempts), attributeResult.String(transactionResult(committed))))
	span.End(trace.WithTimestamp(end))
}

// traceOf returns the trace of a context if it is sampled, and "" otherwise.
func traceOf(ctx context.Context) string {
	if c := trace.SpanContextFromContext(ctx); c.IsSampled() {
		return c.TraceID().String()
	}
	return ""
}

// Storage is the observer of a database. Both fields may be nil.
type Storage struct {
	Metrics *Metrics
	Traces  *Traces
}

// Wrote reports a write transaction to both.
func (s Storage) Wrote(ctx context.Context, d time.Duration, attempts int, committed bool) {
	s.Traces.Wrote(ctx, d, attempts, committed)
	if s.Metrics != nil {
		s.Metrics.Wrote(ctx, d, attempts, committed)
	}
}

// Checkpointed reports a checkpoint to the metrics.
func (s Storage) Checkpointed(mode string, d time.Duration, done bool) {
	if s.Metrics != nil {
		s.Metrics.Checkpointed(mode, d, done)
	}
}
