// Package hostile tests malicious and broken clients: they violate HTTP, or send valid
// requests as slowly or as often as possible. Each test drives a process of atrium serve
// over plain connections, and checks what the process still holds afterwards.
package hostile

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app/apptest"
	"atrium/internal/store"
	"atrium/internal/store/storetest"
	"atrium/test/nodes"
)

// exchangeTimeout ends a test that would hang. No result depends on it.
const exchangeTimeout = 30 * time.Second

func TestMain(m *testing.M) { os.Exit(nodes.Main(m)) }

// engines are the databases to test on.
var engines = map[string]func(t *testing.T) (database string){
	"sqlite":   onSQLite,
	"postgres": func(t *testing.T) string { return storetest.NewMigrated(t) },
}

func onSQLite(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "atrium.db") }

// onEveryEngine runs a test against a server on each engine.
func onEveryEngine(t *testing.T, test func(t *testing.T, s *server), flags ...string) {
	t.Helper()
	t.Parallel()
	for name, database := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t, database(t), flags...))
		})
	}
}

// A server is a process of atrium serve with a tenant.
type server struct {
	*nodes.Node
	metrics string       // address of its metrics
	key     string       // with all scopes of the external API
	manage  string       // with the scope manage
	other   string       // of another tenant, with all scopes of the external API
	number  atomic.Int64 // of requests, for their idempotency keys
}

// Log lines, in either format.
var (
	measured = regexp.MustCompile(`serving metrics"[ ,]"?addr"?[=:]"?([0-9.:]+)`)
	failed   = regexp.MustCompile(`(?m)^(time=\S+ level=ERROR|{"time":"[^"]*","level":"ERROR").*`)
)

func start(t *testing.T, database string, flags ...string) *server {
	t.Helper()
	st, err := store.Open(t.Context(), database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	tenant, _, err := st.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "hostile")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{}
	s.key, _ = apptest.Key(t, st, tenant.ID)
	s.manage, _ = apptest.Key(t, st, tenant.ID, atrium.ScopeManage)
	other, _, err := st.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "other")
	if err != nil {
		t.Fatal(err)
	}
	s.other, _ = apptest.Key(t, st, other.ID)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	s.Node = nodes.Start(t, 1, database, append([]string{"--metrics-addr", "127.0.0.1:0", "--log-level", "debug"}, flags...)...)[0]
	s.metrics = measured.FindStringSubmatch(s.Log())[1]
	t.Cleanup(func() {
		if lines := failed.FindAllString(s.Log(), 3); lines != nil {
			t.Errorf("the server logged errors: %q", lines)
		}
	})
	return s
}

// Vitals are resources that a process uses.
type vitals struct{ memory, files, goroutines int }

func (v vitals) String() string {
	return fmt.Sprintf("%d MiB, %d files, %d goroutines", v.memory>>20, v.files, v.goroutines)
}

// vitals reads them from the metrics listener.
func (s *server) vitals(t *testing.T) vitals {
	t.Helper()
	response, err := nodes.Client(t).Get("http://" + s.metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	gauge := func(name string) int {
		_, after, _ := strings.Cut(string(text), "\n"+name+" ")
		value, _, _ := strings.Cut(after, "\n")
		f, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return int(f)
	}
	return vitals{gauge("process_resident_memory_bytes"), gauge("process_open_fds"), gauge("go_goroutines")}
}

// peak returns the peak memory of the process, in bytes.
func (s *server) peak(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(status), "\nVmHWM:")
	kibibytes, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(line, "kB", 2)[0]))
	if err != nil {
		t.Fatal(err)
	}
	return kibibytes << 10
}

// What may remain after an attack: up to 64 connections to the database with some files
// each, the goroutines that serve them, and memory that the runtime retains.
const (
	spareFiles      = 200
	spareGoroutines = 40
	spareMemory     = 256 << 20 * perByte
)

// outlives checks that a server uses hardly more after an attack than before it, and that
// it responds.
func (s *server) outlives(t *testing.T, attack func()) {
	t.Helper()
	before := s.vitals(t)
	attack()
	var after vitals
	nodes.Until(t, "the server to let go of what the attack took", exchangeTimeout, func() bool {
		after = s.vitals(t)
		return after.goroutines <= before.goroutines+spareGoroutines && after.files <= before.files+spareFiles
	})
	t.Logf("before: %s; after: %s", before, after)
	if after.memory > before.memory+spareMemory {
		t.Errorf("the server had %s before, and has %s", before, after)
	}
	c := s.dial(t)
	defer c.end()
	c.usable("after the attack")
}

// A conn is a raw connection: nothing is checked or escaped.
type conn struct {
	*net.TCPConn
	t  *testing.T
	in *bufio.Reader
}

func (s *server) dial(t *testing.T) *conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(exchangeTimeout)); err != nil {
		t.Fatal(err)
	}
	return &conn{c.(*net.TCPConn), t, bufio.NewReader(c)}
}

func (c *conn) end() { _ = c.Close() }

// send writes in the background: a response may come before the end of the text, and the
// server may not read all of it.
func (c *conn) send(text string) { go func() { _, _ = io.WriteString(c, text) }() }

// An response is a complete response.
type response struct {
	status int
	header http.Header
	body   string
}

func (a response) String() string { return fmt.Sprintf("%d %v %.300s", a.status, a.header, a.body) }

// response reads the next response. It returns an error if there is none.
func (c *conn) response(method string) (response, error) {
	res, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		return response{}, err
	}
	body, err := io.ReadAll(res.Body)
	if res.ContentLength < 0 && len(res.TransferEncoding) == 0 {
		err = nil // the body ends with the connection, however that ends
	}
	return response{res.StatusCode, res.Header, string(body)}, err
}

// must is response for a response that must come.
func (c *conn) must(method string) response {
	c.t.Helper()
	a, err := c.response(method)
	if err != nil {
		c.t.Errorf("no response: %v", err)
	}
	return a
}

// usable checks that the connection accepts another request.
func (c *conn) usable(what string) {
	c.t.Helper()
	c.send("GET /healthz HTTP/1.1\r\nHost: atrium.test\r\nX-Request-Id: usable\r\n\r\n")
	if a, err := c.response(http.MethodGet); err != nil || a.status != 200 || a.header.Get("X-Request-Id") != "usable" {
		c.t.Errorf("%s: another request on the connection: %v, %v", what, a, err)
	}
}

// ended checks that the server has closed the connection and sent nothing more.
func (c *conn) ended(what string) {
	c.t.Helper()
	more, err := io.ReadAll(c.in)
	if err, ok := err.(net.Error); ok && err.Timeout() { //nolint:errorlint // net returns it unwrapped
		c.t.Errorf("%s: the connection is still open", what)
	}
	if len(more) > 0 {
		c.t.Errorf("%s: the server sent more: %.300q", what, more)
	}
}

// post returns a request that creates an entry with the source. headers end with CRLF.
func (s *server) post(source, headers string) string {
	body := `{"source":"` + source + `","payload":{}}`
	return s.head(headers) + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

// head returns the headers of a request that creates an entry, without the empty line.
func (s *server) head(headers string) string {
	return "POST /v0/account_logs HTTP/1.1\r\nHost: atrium.test\r\nx-api-key: " + s.key + "\r\n" + headers
}

// get returns a request for a target, with the key.
func (s *server) get(target, headers string) string {
	return "GET " + target + " HTTP/1.1\r\nHost: atrium.test\r\nx-api-key: " + s.key + "\r\n" + headers + "\r\n"
}

// stored returns the number of entries with the source.
func (s *server) stored(t *testing.T, source string) int {
	t.Helper()
	c := s.dial(t)
	defer c.end()
	c.send("GET /manage/v0/export HTTP/1.1\r\nHost: atrium.test\r\nConnection: close\r\nx-api-key: " + s.manage + "\r\n\r\n")
	a := c.must(http.MethodGet)
	if a.status != 200 {
		t.Fatal(a)
	}
	return strings.Count(a.body, `"source":"`+source+`"`)
}
