// Package otlp tests what the service sends to an OpenTelemetry collector. The service is
// a separate process; the tests are the collector.
package otlp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"atrium"
	"atrium/internal/app/apptest"
	"atrium/internal/store"
	"atrium/internal/store/engine/postgrestest"
	"atrium/test/nodes"
)

func TestMain(m *testing.M) { os.Exit(nodes.Main(m)) }

// A collector records what it receives.
type collector struct {
	url string

	mu        sync.Mutex
	spans     []*trace.Span     // guarded by mu
	metrics   map[string]bool   // guarded by mu; names
	resources map[string]string // guarded by mu; resource attributes
	raw       strings.Builder   // guarded by mu; all bodies
}

func collect(t *testing.T) *collector {
	t.Helper()
	c := &collector{metrics: map[string]bool{}, resources: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, r *http.Request) {
		var sent coltrace.ExportTraceServiceRequest
		c.read(t, w, r, &sent)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, of := range sent.ResourceSpans {
			c.note(of.Resource.Attributes)
			for _, scope := range of.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	})
	mux.HandleFunc("POST /v1/metrics", func(w http.ResponseWriter, r *http.Request) {
		var sent colmetrics.ExportMetricsServiceRequest
		c.read(t, w, r, &sent)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, of := range sent.ResourceMetrics {
			c.note(of.Resource.Attributes)
			for _, scope := range of.ScopeMetrics {
				for _, m := range scope.Metrics {
					c.metrics[m.Name] = true
				}
			}
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *collector) read(t *testing.T, w http.ResponseWriter, r *http.Request, sent proto.Message) {
	b, err := io.ReadAll(r.Body)
	if err == nil {
		err = proto.Unmarshal(b, sent)
	}
	if err != nil {
		t.Errorf("%s: %v", r.URL.Path, err)
		w.WriteHeader(http.StatusBadRequest)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(b)
}

func (c *collector) note(attributes []*common.KeyValue) {
	for _, a := range attributes {
		c.resources[a.Key] = a.Value.GetStringValue()
	}
}

// named returns the spans with a name.
func (c *collector) named(name string) (spans []*trace.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Name == name {
			spans = append(spans, s)
		}
	}
	return spans
}

// children returns the child spans of a span with a name.
func (c *collector) children(of *trace.Span, name string) (spans []*trace.Span) {
	for _, s := range c.named(name) {
		if string(s.ParentSpanId) == string(of.SpanId) && string(s.TraceId) == string(of.TraceId) {
			spans = append(spans, s)
		}
	}
	return spans
}

// attributes returns the attributes of a span as text.
func attributes(s *trace.Span) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			all[a.Key] = v.StringValue
		default:
			all[a.Key] = strings.TrimPrefix(a.Value.String(), "int_value:")
		}
	}
	return all
}

// A service is one node with a tenant.
type service struct {
	*nodes.Node
	database string
	tenant   atrium.TenantID
	keyID    atrium.KeyID
	key      string // for the external API
	manage   string // with the scope manage
}

// serve starts a node on a new database. The node inherits the environment.
func serve(t *testing.T, engine string, flags ...string) *service {
	t.Helper()
	database := "sqlite:" + filepath.Join(t.TempDir(), "atrium.db")
	if engine == "postgres" {
		database = postgrestest.Shared(t).NewDatabase(t)
	}
	s := &service{database: database, Node: nodes.Start(t, 1, database, flags...)[0]}
	st, err := store.Open(t.Context(), database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	made, _, err := st.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "otlp")
	if err != nil {
		t.Fatal(err)
	}
	s.tenant = made.ID
	s.key, s.keyID = apptest.Key(t, st, made.ID)
	s.manage, _ = apptest.Key(t, st, made.ID, atrium.ScopeManage)
	return s
}

// send sends a request and returns its status and body.
func (s *service) send(t *testing.T, method, target, key, body string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(b)
}
