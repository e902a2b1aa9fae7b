package otlp

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/engine/postgrestest"
	"atrium/internal/store/engine/sqlite"
	"atrium/test/nodes"
)

const (
	exchangeTimeout = 30 * time.Second
	endpoint        = "OTEL_EXPORTER_OTLP_ENDPOINT"
	entry           = `{"source":"crm","domain":"c4n4ry.example","payload":{"c4n4ry":"c4n4ry"}}`
)

func traceparent(trace, flags string) string { return "00-" + trace + "-00f067aa0ba902b7-" + flags }

func TestRequestCommitAndTransactionShareATrace(t *testing.T) {
	for name, system := range map[string]string{"sqlite": "sqlite", "postgres": "postgresql"} {
		t.Run(name, func(t *testing.T) {
			c := collect(t)
			t.Setenv(endpoint, c.url)
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
			s := serve(t, name)
			trace := strings.Repeat("a1", 16)
			status, body := s.send(t, http.MethodPost, "/v0/account_logs", s.key, entry, "Traceparent", traceparent(trace, "01"), "Tracestate", "vendor=1")
			var made struct{ AccountID string }
			if err := json.Unmarshal([]byte(body), &made); err != nil || status != http.StatusCreated {
				t.Fatalf("%d: %s", status, body)
			}
			for _, r := range [][]string{
				{http.MethodGet, "/v0/accounts/" + made.AccountID + "?c4n4ry=1", s.key, ""},
				{http.MethodPost, "/v0/account_logs", "c4n4ry", entry},
				{http.MethodPost, "/manage/v0/brands", s.manage, `{"name":"c4n4ry"}`},
				{http.MethodGet, "/c4n4ry", s.key, ""},
			} {
				s.send(t, r[0], r[1], r[2], r[3], "User-Agent", "c4n4ry", "Traceparent", "c4n4ry")
			}
			forgotten := strings.Repeat("b2", 16)
			s.send(t, http.MethodPost, "/v0/account_logs", s.key, entry, "Traceparent", traceparent(forgotten, "00"))
			s.Stop(t)

			requests := c.named("POST /v0/account_logs")
			if len(requests) != 2 {
				t.Fatalf("there are %d requests that sent an entry", len(requests))
			}
			request := requests[0]
			if hex.EncodeToString(request.TraceId) != trace || hex.EncodeToString(request.ParentSpanId) != "00f067aa0ba902b7" || request.TraceState != "vendor=1" {
				t.Errorf("the request is not in the trace of its sender: %s", request)
			}
			want := map[string]string{
				"http.request.method": "POST", "http.route": "/v0/account_logs", "http.response.status_code": "201", "url.scheme": "http",
				"network.protocol.version": "1.1", "server.address": "127.0.0.1", "server.port": s.Addr[strings.LastIndexByte(s.Addr, ':')+1:],
				"http.response.body.size": strconv.Itoa(len(body)), "atrium.tenant.id": string(s.tenant), "atrium.key.id": string(s.keyID),
			}
			if got := attributes(request); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("the request has %v, want %v", got, want)
			}
			commits := c.children(request, "commit entries")
			if len(commits) != 1 || len(commits[0].Links) != 1 || string(commits[0].Links[0].SpanId) != string(request.SpanId) || attributes(commits[0])["atrium.batch.entries"] != "1" {
				t.Fatalf("the commits of the request are %v", commits)
			}
			transactions := c.children(commits[0], "transaction")
			if len(transactions) != 1 {
				t.Fatalf("the commit has %d transactions", len(transactions))
			}
			want = map[string]string{"db.system.name": system, "atrium.transaction.attempts": "1", "atrium.transaction.result": "committed"}
			if got := attributes(transactions[0]); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("the transaction has %v, want %v", got, want)
			}
			change := c.named("POST /manage/v0/brands")
			if len(change) != 1 || len(c.children(change[0], "transaction")) != 1 {
				t.Errorf("the change of an operator is %v", change)
			}
			for _, span := range []string{"GET /v0/accounts/{account_id}", "GET"} {
				if len(c.named(span)) != 1 {
					t.Errorf("there are %d spans %s", len(c.named(span)), span)
				}
			}
			all := c.raw.String()
			for _, private := range []string{"c4n4ry", s.key, s.manage, s.key[len(s.key)-20:], made.AccountID, bytes(t, forgotten)} {
				if strings.Contains(all, private) {
					t.Errorf("the collector was sent %q", private)
				}
			}
			if c.resources["service.name"] != "atrium" || c.resources["deployment.environment.name"] != "test" || c.resources["service.instance.id"] == "" {
				t.Errorf("it was sent by %v", c.resources)
			}
		})
	}
}

// bytes decodes a trace ID.
func bytes(t *testing.T, trace string) string {
	t.Helper()
	b, err := hex.DecodeString(trace)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestGroupCommitIsLinkedToItsRequests(t *testing.T) {
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			c := collect(t)
			t.Setenv(endpoint, c.url)
			port, err := postgrestest.FreePort()
			if err != nil {
				t.Fatal(err)
			}
			metrics := fmt.Sprintf("127.0.0.1:%d", port)
			s := serve(t, name, "--metrics-addr", metrics)
			const many = 64
			var sending sync.WaitGroup
			release := hold(t, name, s.database)
			for range many {
				sending.Go(func() {
					if status, body := s.send(t, http.MethodPost, "/v0/account_logs", s.key, entry); status != http.StatusCreated {
						t.Errorf("%d: %s", status, body)
					}
				})
			}
			nodes.Until(t, "all requests to wait for commits, of which there are fewer", exchangeTimeout, func() bool { return inWork(t, metrics) == many })
			release()
			sending.Wait()
			s.Stop(t)
			linked := map[string]map[string]bool{} // the commits of each request: a second one if the first could not store its entry
			shared := false
			for _, commit := range c.named("commit entries") {
				shared = shared || len(commit.Links) > 1
				for _, l := range commit.Links {
					request := string(l.SpanId)
					if linked[request] == nil {
						linked[request] = map[string]bool{}
					}
					linked[request][string(commit.SpanId)] = true
				}
			}
			requests := c.named("POST /v0/account_logs")
			for _, r := range requests {
				want := linked[string(r.SpanId)]
				if len(want) == 0 {
					t.Error("a request is linked to no commit")
				}
				found := map[string]bool{}
				for _, commit := range c.children(r, "commit entries") { // it is the first of these
					found[string(commit.SpanId)] = true
				}
				for _, l := range r.Links {
					found[string(l.SpanId)] = true
				}
				if !maps.Equal(found, want) {
					t.Errorf("a request has the commits %q, but these link to it: %q", slices.Collect(maps.Keys(found)), slices.Collect(maps.Keys(want)))
				}
			}
			if len(requests) != many || !shared {
				t.Errorf("there are %d requests, want %d; some shared a commit: %v", len(requests), many, shared)
			}
		})
	}
}

// hold blocks all other writers of entries until release is called.
func hold(t *testing.T, name, database string) (release func()) {
	t.Helper()
	var db engine.DB
	var err error
	lock := "SELECT 1"
	if name == "sqlite" {
		db, err = sqlite.Open(strings.TrimPrefix(database, "sqlite:"), sqlite.Options{})
	} else {
		db, err = postgres.Open(t.Context(), database, postgres.Options{})
		lock = "LOCK TABLE entries IN EXCLUSIVE MODE"
	}
	if err != nil {
		t.Fatal(err)
	}
	held, done, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- db.Write(t.Context(), func(tx engine.Tx) error {
			err := tx.Script(lock)
			close(held)
			<-done
			return err
		})
	}()
	<-held
	return func() {
		close(done)
		if err := errors.Join(<-ended, db.Close()); err != nil {
			t.Error(err)
		}
	}
}

// inWork returns the number of requests in flight, from the metrics.
func inWork(t *testing.T, metrics string) (requests int) {
	t.Helper()
	response, err := http.Get("http://" + metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, "atrium_http_requests_in_flight "); ok {
			requests, err = strconv.Atoi(strings.TrimSpace(text))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return requests
}

// One collector accepts connections and never responds; the other does not exist.
func TestUnreachableCollectorBlocksNothing(t *testing.T) {
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hanging.Close()
	defer close(release)
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, strings.Repeat("c4n4ry", 1<<20), http.StatusServiceUnavailable)
	}))
	defer failing.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	for name, url := range map[string]string{"hangs": hanging.URL, "fails": failing.URL, "refuses": "http://" + closed.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(endpoint, url)
			t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "16")
			t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
			s := serve(t, "sqlite")
			for range 300 { // more than fit into the queue
				if status, body := s.send(t, http.MethodGet, "/v0/pages", s.key, ""); status != http.StatusOK {
					t.Fatalf("%d: %s", status, body)
				}
			}
			s.Stop(t) // within 8 s, with exit code 0
		})
	}
}

func TestSamplerComesFromTheEnvironment(t *testing.T) {
	for sampler, want := range map[string]int{"always_off": 0, "always_on": 2, "parentbased_always_off": 1} {
		t.Run(sampler, func(t *testing.T) {
			c := collect(t)
			t.Setenv(endpoint, c.url)
			t.Setenv("OTEL_TRACES_SAMPLER", sampler)
			s := serve(t, "sqlite")
			s.send(t, http.MethodGet, "/v0/pages", s.key, "")
			s.send(t, http.MethodGet, "/v0/pages", s.key, "", "Traceparent", traceparent(strings.Repeat("a1", 16), "01"))
			s.Stop(t)
			if n := len(c.named("GET /v0/pages")); n != want {
				t.Errorf("there are %d spans, want %d", n, want)
			}
		})
	}
}

func TestMetricsAreExportedWithoutAListener(t *testing.T) {
	c := collect(t)
	t.Setenv(endpoint, c.url)
	t.Setenv("OTEL_TRACES_EXPORTER", "none")
	s := serve(t, "sqlite")
	s.send(t, http.MethodPost, "/v0/account_logs", s.key, entry)
	s.Stop(t) // flushes the last spans
	for _, name := range []string{
		"atrium_http_request_duration_seconds", "atrium_ingest_batch_entries", "atrium_ingest_entries_total", "atrium_ingest_queue_entries", "atrium_store_write_duration_seconds",
		"atrium_build_info", "go_goroutines", "process_resident_memory_bytes",
	} {
		if !c.metrics[name] {
			t.Errorf("no %s in %v", name, c.metrics)
		}
	}
	if len(c.spans) != 0 || strings.Contains(c.raw.String(), "c4n4ry") {
		t.Errorf("%d spans were sent, or something of a client", len(c.spans))
	}
}

func TestInvalidVariablePreventsTheStart(t *testing.T) {
	t.Setenv(endpoint, "http://127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	_, stderr, code := nodes.Command(t, "serve", "--database", "sqlite:"+t.TempDir()+"/atrium.db", "--addr", "127.0.0.1:0")
	if code != 2 || !strings.Contains(stderr, "OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
