package telemetry

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// An Export sends traces and metrics to a collector by OTLP over HTTP, in the background. If
// the collector is slow or unreachable, a bounded number of them waits; the rest is dropped. A
// nil *Export sends nothing.
type Export struct {
	traces  *Traces
	metrics bool
	about   *resource.Resource

	mu     sync.Mutex
	closes []func(context.Context) error // guarded by mu
}

// flushTimeout is the maximum time that a shutdown waits for the collector.
const flushTimeout = 2 * time.Second

// The variables that configure OTLP: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables
// and .../protocol/exporter. The SDK itself reads others.
const (
	otelDisabled = "OTEL_SDK_DISABLED"
	otelEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	otelHeaders  = "OTEL_EXPORTER_OTLP_HEADERS"
	otelProtocol = "OTEL_EXPORTER_OTLP_PROTOCOL"

	otelSampler    = "OTEL_TRACES_SAMPLER"
	otelSamplerArg = "OTEL_TRACES_SAMPLER_ARG"

	otlpHTTP = "http/protobuf"
)

// NewExport returns the Export that OpenTelemetry's environment variables configure, or nil if
// they name no collector. version is that of the binary. Of the URL of the database, only the
// scheme is exported. Errors name the invalid variable without its value, as endpoints and
// headers contain credentials.
func NewExport(ctx context.Context, version, database string, log *slog.Logger) (*Export, error) {
	if strings.EqualFold(os.Getenv(otelDisabled), "true") {
		return nil, nil
	}
	traces, faults := wanted("TRACES")
	if traces {
		faults = append(faults, samplerFaults()...)
	}
	metrics, metricsFaults := wanted("METRICS")
	var all []error
	faults = slices.Sorted(slices.Values(append(faults, metricsFaults...)))
	for _, fault := range slices.Compact(faults) { // the signals share variables
		all = append(all, errors.New(fault))
	}
	if len(all) > 0 || !traces && !metrics {
		return nil, errors.Join(all...)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		semconv.ServiceName("atrium"), semconv.ServiceVersion(version), semconv.ServiceInstanceID(rand.Text()),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	// The SDK has one error handler and one logger per process.
	otel.SetErrorHandler(&failures{log: log})
	otel.SetLogger(logr.New(sdkLog{log}))
	e := &Export{metrics: metrics, about: about}
	if !traces {
		return e, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("send traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	e.traces = newTraces(provider, database)
	e.closes = append(e.closes, provider.Shutdown)
	return e, nil
}

// wanted reports whether a signal, TRACES or METRICS, is exported, and the faults of the
// variables that configure it.
func wanted(signal string) (_ bool, faults []string) {
	exporter := "OTEL_" + signal + "_EXPORTER"
	of := "OTEL_EXPORTER_OTLP_" + signal
	endpoint, headers, protocol := of+"_ENDPOINT", of+"_HEADERS", of+"_PROTOCOL"
	if os.Getenv(endpoint) == "" && os.Getenv(otelEndpoint) == "" {
		return false, nil
	}
	switch os.Getenv(exporter) {
	case "none":
		return false, nil
	case "", "otlp":
	default:
		faults = append(faults, exporter+" must be otlp or none")
	}
	if os.Getenv(protocol) == "" {
		protocol = otelProtocol
	}
	if p := os.Getenv(protocol); p != "" && p != otlpHTTP {
		faults = append(faults, protocol+" must be "+otlpHTTP)
	}
	for _, variable := range []string{otelEndpoint, endpoint} {
		if !isEndpoint(strings.TrimSpace(os.Getenv(variable))) {
			faults = append(faults, variable+" must be a URL with http or https")
		}
	}
	for _, variable := range []string{otelHeaders, headers} {
		if !areHeaders(strings.TrimSpace(os.Getenv(variable))) {
			faults = append(faults, variable+
				" must be name=value, with a comma before another, and %xx for what is special in a value")
		}
	}
	return true, faults
}

// samplerFaults returns the faults of the variables that configure sampling. The SDK would
// use a default instead.
func samplerFaults() (faults []string) {
	switch sampler := os.Getenv(otelSampler); sampler {
	case "", "always_on", "always_off", "parentbased_always_on", "parentbased_always_off":
	case "traceidratio", "parentbased_traceidratio":
		share, err := strconv.ParseFloat(cmp.Or(os.Getenv(otelSamplerArg), "1"), 64)
		if err != nil || !(share >= 0 && share <= 1) {
			faults = append(faults, otelSamplerArg+" must be from 0 to 1")
		}
	default:
		faults = append(faults, otelSampler+
			" must be always_on, always_off, traceidratio, or one of these after parentbased_")
	}
	return faults
}

// isEndpoint reports whether a value is the URL of a collector, or empty. With an invalid one,
// the SDK would use its default.
func isEndpoint(value string) bool {
	u, err := url.Parse(value)
	return value == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// token matches the name of a header: RFC 9110, section 5.6.2.
var token = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$")

// areHeaders reports whether a value is a list of headers, or empty. The SDK would skip invalid
// ones.
func areHeaders(list string) bool {
	if list == "" {
		return true
	}
	for header := range strings.SplitSeq(list, ",") {
		name, value, assigned := strings.Cut(header, "=")
		if _, err := url.PathUnescape(value); err != nil || !assigned || !token.MatchString(strings.TrimSpace(name)) {
			return false
		}
	}
	return true
}

// Traces returns the Traces of the Export; nil for none.
func (e *Export) Traces() *Traces {
	if e == nil {
		return nil
	}
	return e.traces
}

// WantsMetrics reports whether metrics are exported.
func (e *Export) WantsMetrics() bool { return e != nil && e.metrics }

// Send starts exporting the metrics, under the names that they are served with.
func (e *Export) Send(ctx context.Context, m *Metrics) error {
	exporter, err := otlpmetrichttp.New(ctx)
	if err != nil {
		return fmt.Errorf("send metrics: %w", err)
	}
	producer := bridge.NewMetricProducer(bridge.WithGatherer(m))
	reader := sdkmetric.NewPeriodicReader(exporter, sdkmetric.WithProducer(producer))
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(e.about))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closes = append(e.closes, provider.Shutdown)
	return nil
}

// Close sends what waits. It returns when that is done, when ctx ends or after flushTimeout;
// the rest is dropped.
func (e *Export) Close(ctx context.Context) error {
	if e == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	e.mu.Lock()
	defer e.mu.Unlock()
	errs := make([]error, len(e.closes))
	var closing sync.WaitGroup
	for i, end := range e.closes {
		closing.Go(func() { errs[i] = end(ctx) })
	}
	closing.Wait()
	e.closes = nil
	return errors.Join(errs...)
}

// failures logs the errors of the SDK, at most once per failureInterval. It is safe for
// concurrent use.
type failures struct {
	log     *slog.Logger
	limiter logLimiter
}

const (
	failureInterval = time.Minute
	maxFailure      = 300 // bytes of an error's text, which may contain the collector's response
)

func (f *failures) Handle(err error) {
	count, ok := f.limiter.event(failureInterval)
	if !ok {
		return
	}
	text := err.Error()
	text = strings.ToValidUTF8(text[:min(len(text), maxFailure)], "")
	f.log.Warn("export of traces or metrics failed", "error", text, "before", count-1)
}

// An sdkLog logs the errors of the SDK without their arguments, which contain values from the
// environment.
type sdkLog struct{ log *slog.Logger }

func (s sdkLog) Error(_ error, message string, _ ...any) {
	s.log.Warn("the OpenTelemetry SDK rejected a setting or a metric", "failed", message)
}

func (s sdkLog) Init(logr.RuntimeInfo)          {}
func (s sdkLog) Enabled(int) bool               { return false }
func (s sdkLog) Info(int, string, ...any)       {}
func (s sdkLog) WithValues(...any) logr.LogSink { return s }
func (s sdkLog) WithName(string) logr.LogSink   { return s }
