package telemetry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

const (
	parentTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent      = "00-" + parentTrace + "-00f067aa0ba902b7-"
)

// recorded returns traces that are recorded in memory.
func recorded(options ...sdktrace.TracerProviderOption) (*Traces, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return newTraces(sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(spans))...), "sqlite:a"), spans
}

func request(header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/v0/accounts/c4n4ry?c4n4ry=1", strings.NewReader("c4n4ry"))
	r.Host = "c4n4ry"
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func TestWithoutACollectorTracingAllocatesNothing(t *testing.T) {
	t.Setenv(otelEndpoint, "")
	e, err := NewExport(t.Context(), "v1", "sqlite:a", slog.New(slog.DiscardHandler))
	if e != nil || err != nil {
		t.Fatalf("there is %v, %v", e, err)
	}
	off, ctx, r := e.Traces(), t.Context(), request("Traceparent", parent+"01")
	requests, x := []context.Context{ctx}, exchange(200)
	n := testing.AllocsPerRun(100, func() {
		off.Begin(r)
		off.Request(ctx, x)
		commit, ended := off.Batch(requests)
		off.Wrote(commit, time.Second, 1, true)
		ended(nil)
	})
	if n != 0 || e.WantsMetrics() || e.Close(ctx) != nil {
		t.Errorf("a request costs %v allocations", n)
	}
}

func TestDisabledRequestLogAllocatesNothing(t *testing.T) {
	log := RequestLog(slog.New(slog.DiscardHandler), 1)
	ctx, x := t.Context(), exchange(200)
	if n := testing.AllocsPerRun(100, func() { log(ctx, x) }); n != 0 {
		t.Errorf("a line that is not logged costs %v allocations", n)
	}
}

func TestInvalidVariablesAreNamed(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/json",
		"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_METRICS_EXPORTER": "prometheus", "OTEL_RESOURCE_ATTRIBUTES": "a",
		"OTEL_TRACES_SAMPLER": "sometimes",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(otelEndpoint, "http://127.0.0.1:1")
			t.Setenv(name, value)
			_, err := NewExport(t.Context(), "v1", "sqlite:a", slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("with %s: %v", value, err)
			}
		})
	}
}

func TestEachInvalidVariableIsNamedOnce(t *testing.T) {
	t.Setenv(otelEndpoint, "not-a-url")
	t.Setenv(otelProtocol, "grpc")
	t.Setenv(otelSampler, "parentbased_traceidratio")
	want := "OTEL_EXPORTER_OTLP_ENDPOINT must be a URL with http or https\nOTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf\nOTEL_TRACES_SAMPLER_ARG must be from 0 to 1"
	for _, share := range []string{"7", "-0.1", "NaN", "half"} {
		t.Setenv(otelSamplerArg, share)
		if _, err := NewExport(t.Context(), "v1", "sqlite:a", slog.New(slog.DiscardHandler)); err == nil || err.Error() != want {
			t.Errorf("%v, want\n%s", err, want)
		}
	}
	t.Setenv(otelEndpoint, "")
	if e, err := NewExport(t.Context(), "v1", "sqlite:a", slog.New(slog.DiscardHandler)); e != nil || err != nil {
		t.Errorf("without a collector: %v, %v", e, err)
	}
}

func TestSignalsAreConfiguredSeparately(t *testing.T) {
	for _, c := range []struct {
		environment     []string
		traces, metrics bool
	}{
		{[]string{otelEndpoint, "http://127.0.0.1:1"}, true, true},
		{[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1/v1/traces"}, true, false},
		{[]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:1/v1/metrics"}, false, true},
		{[]string{otelEndpoint, "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER", "none"}, false, true},
		{[]string{otelEndpoint, "http://127.0.0.1:1", "OTEL_METRICS_EXPORTER", "none", otelProtocol, otlpHTTP}, true, false},
		{[]string{otelEndpoint, "http://127.0.0.1:1", otelDisabled, "TRUE"}, false, false},
		{nil, false, false},
	} {
		t.Run("", func(t *testing.T) {
			for i := 0; i < len(c.environment); i += 2 {
				t.Setenv(c.environment[i], c.environment[i+1])
			}
			e, err := NewExport(t.Context(), "v1", "sqlite:a", slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = e.Close(t.Context()) }()
			if traces, metrics := e.Traces() != nil, e.WantsMetrics(); traces != c.traces || metrics != c.metrics {
				t.Errorf("%q: traces %v, metrics %v", c.environment, traces, metrics)
			}
		})
	}
}

func TestValidHeaderNamesTheParent(t *testing.T) {
	for _, c := range []struct {
		header []string
		child  bool
		state  string
		never  bool // has no span
	}{
		{header: []string{"Traceparent", parent + "01"}, child: true},
		{header: []string{"Traceparent", parent + "01", "Tracestate", "a=1", "Tracestate", "b=2"}, child: true, state: "a=1,b=2"},
		{header: []string{"Traceparent", parent + "01", "Tracestate", "a=" + strings.Repeat("1", 200) + ",b=" + strings.Repeat("1", 200) + ",c=" + strings.Repeat("1", 200)}, child: true},
		{header: []string{"Traceparent", parent + "01", "Tracestate", "="}, child: true},
		{header: []string{"Traceparent", parent + "00"}, never: true},
		{header: []string{"Traceparent", parent + "01", "Traceparent", parent + "01"}},
		{header: []string{"Traceparent", parent}},
		{header: []string{"Traceparent", parent + "01x"}},
		{header: []string{"Traceparent", strings.ToUpper(parent) + "01"}},
		{header: []string{"Traceparent", "ff" + parent[2:] + "01"}},
		{header: []string{"Traceparent", "00-00000000000000000000000000000000-00f067aa0ba902b7-01"}},
		{header: []string{"Traceparent", strings.Repeat("0", 10000)}},
		{header: []string{"Tracestate", "a=1"}},
		{},
	} {
		traces, spans := recorded()
		x := exchange(200)
		traces.Request(traces.Begin(request(c.header...)), x)
		ended := spans.Ended()
		if c.never {
			if len(ended) != 0 {
				t.Errorf("%q has a span", c.header)
			}
			continue
		}
		if len(ended) != 1 {
			t.Fatalf("%q has %d spans", c.header, len(ended))
		}
		got := ended[0].SpanContext()
		if child := got.TraceID().String() == parentTrace; child != c.child || ended[0].Parent().IsRemote() != c.child || got.TraceState().String() != c.state {
			t.Errorf("%q is in the trace %s with the state %q", c.header, got.TraceID(), got.TraceState())
		}
	}
}

func TestSpanHasNothingThatAClientChose(t *testing.T) {
	traces, spans := recorded()
	for _, method := range []string{http.MethodGet, "C4N4RY"} {
		for _, route := range []string{"/v0/accounts/{account_id}", ""} {
			for _, status := range []int{200, 404, 500} {
				r := request("X-Api-Key", "c4n4ry", "User-Agent", "c4n4ry", "Traceparent", "c4n4ry", "X-Forwarded-For", "c4n4ry", "Baggage", "c4n4ry=c4n4ry")
				r.Method = method
				x := exchange(status)
				x.Method, x.Route, x.RequestID = method, route, "c4n4ry"
				traces.Request(traces.Begin(r), x)
			}
		}
	}
	if len(spans.Ended()) != 12 {
		t.Fatalf("there are %d spans", len(spans.Ended()))
	}
	names := map[string]bool{}
	for _, span := range spans.Ended() {
		names[span.Name()] = true
		if strings.Contains(strings.ToLower(span.Name()), "c4n4ry") {
			t.Errorf("a span is named %s", span.Name())
		}
		for _, a := range span.Attributes() {
			if strings.Contains(strings.ToLower(a.Value.String()), "c4n4ry") {
				t.Errorf("%s: %s is %s", span.Name(), a.Key, a.Value.String())
			}
		}
	}
	for _, name := range []string{"GET /v0/accounts/{account_id}", "GET", "HTTP /v0/accounts/{account_id}", "HTTP"} {
		if !names[name] {
			t.Errorf("no span is named %s", name)
		}
	}
}

func TestCommitLinksAreBoundedAndUnique(t *testing.T) {
	traces, spans := recorded()
	var requests []context.Context
	for range 2 * maxLinks {
		ctx := traces.Begin(request())
		requests = append(requests, ctx, ctx)
	}
	unsampled := traces.Begin(request("Traceparent", parent+"00"))
	commit, ended := traces.Batch(append([]context.Context{t.Context(), unsampled}, requests...))
	traces.Wrote(commit, time.Second, 3, false)
	ended(errors.New("c4n4ry"))
	got := spans.Ended()
	if len(got) != 2 || len(got[1].Links()) != maxLinks || got[1].SpanContext().TraceID() != got[0].SpanContext().TraceID() {
		t.Fatalf("there are %d spans, the last with %d links", len(got), len(got[len(got)-1].Links()))
	}
	if got[1].Parent().SpanID() != got[1].Links()[0].SpanContext.SpanID() || got[0].Parent().SpanID() != got[1].SpanContext().SpanID() {
		t.Error("the parent of the transaction is not the commit, or that of the commit not the first request")
	}
}

func TestUnsampledRequestsHaveNoCommitSpan(t *testing.T) {
	traces, spans := recorded(sdktrace.WithSampler(sdktrace.NeverSample()))
	ctx := traces.Begin(request())
	commit, ended := traces.Batch([]context.Context{ctx, ctx})
	traces.Wrote(commit, time.Second, 1, true)
	traces.Wrote(ctx, time.Second, 1, true)
	traces.Wrote(t.Context(), time.Second, 1, true) // without a request
	ended(nil)
	if n := len(spans.Started()); n != 0 {
		t.Errorf("there are %d spans", n)
	}
}

func TestLogNamesTheTraceIfItIsSampled(t *testing.T) {
	traces, _ := recorded()
	for flags, kept := range map[string]bool{"01": true, "00": false} {
		var out bytes.Buffer
		x := exchange(200)
		ctx := traces.Begin(request("Traceparent", parent+flags))
		RequestLog(NewLogger(&out, "json", "info"), 1)(ctx, x)
		if strings.Contains(out.String(), `"trace_id":"`+parentTrace+`"`) != kept || strings.Contains(out.String(), "trace_id") != kept {
			t.Errorf("%s: logged %s", flags, &out)
		}
	}
}

func TestUnreachableCollectorIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		f := &failures{log: NewLogger(&out, "text", "info")}
		for range 10 * 60 {
			f.Handle(errors.New(strings.Repeat("é", 10000)))
			time.Sleep(time.Second)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 10 || out.Len() > 10*500 || !strings.HasSuffix(lines[9], " before=59") {
			t.Errorf("there are %d lines of %d bytes: %s", len(lines), out.Len(), lines[len(lines)-1])
		}
	})
}

// BenchmarkTraces measures what tracing costs a request.
func BenchmarkTraces(b *testing.B) {
	traces, _ := recorded(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
	for name, c := range map[string]struct {
		traces *Traces
		flags  string
	}{"off": {}, "unsampled": {traces, "00"}, "sampled": {newTraces(sdktrace.NewTracerProvider(), "sqlite:a"), "01"}} {
		b.Run(name, func(b *testing.B) {
			r, x := request("Traceparent", parent+c.flags), exchange(200)
			b.ReportAllocs()
			for b.Loop() {
				ctx := c.traces.Begin(r)
				commit, ended := c.traces.Batch([]context.Context{ctx})
				c.traces.Wrote(commit, time.Millisecond, 1, true)
				ended(nil)
				c.traces.Request(ctx, x)
			}
		})
	}
}
