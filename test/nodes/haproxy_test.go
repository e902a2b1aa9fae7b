package nodes_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"atrium/internal/app/apptest"
	"atrium/test/nodes"
)

func TestHAProxyForwardsRequestsAndResponses(t *testing.T) {
	s := newService(t)
	front, client := "http://"+nodes.Proxy(t, s.nodes).Addr, nodes.Client(t)
	if a := send(client, "GET", front+"/v0/pages", s.key, "", "X-Request-Id: mine.1"); a.status != 200 || a.header.Get("X-Request-Id") != "mine.1" {
		t.Errorf("a request with its own ID: %s %v", a, a.header)
	}
	a := send(client, "GET", front+"/v0/pages", "", "")
	if id := a.header.Get("X-Request-Id"); a.status != 401 || !strings.HasPrefix(id, "req_") || !strings.Contains(a.body, id) {
		t.Errorf("a request without an id: %s %v", a, a.header)
	}
	if a := send(client, "GET", front+"/v0/pages", s.key, "", "X-Large: "+strings.Repeat("x", 20<<10)); a.status != 431 {
		t.Errorf("headers of 20 KiB: %s, want the response of a node", a)
	}
	large := `{"source":"a","payload":{"x":"` + strings.Repeat("x", 1_000_000) + `"},"domain":"a.example"}`
	if a := send(client, "POST", front+"/v0/account_logs", s.key, large, "Idempotency-Key: large"); a.status != 201 {
		t.Errorf("a body of a megabyte: %s", a)
	}
}

// The client connects from another address than HAProxy, and claims to be a third one.
func TestHAProxyReportsTheAddressOfTheClient(t *testing.T) {
	s := newService(t, "--trusted-proxies", "127.0.0.1")
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	client := &http.Client{Timeout: settled, Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	a := send(client, "GET", "http://"+nodes.Proxy(t, s.nodes).Addr+"/v0/pages", s.key, "", "X-Request-Id: whose", "X-Forwarded-For: 203.0.113.9")
	if a.status != 200 {
		t.Fatalf("%s", a)
	}
	logged := regexp.MustCompile(`msg=request requestId=whose .*client=(\S+)`)
	var found []string
	nodes.Until(t, "the line of the request", settled, func() bool {
		for _, n := range s.nodes {
			found = append(found, logged.FindStringSubmatch(n.Log())...)
		}
		return len(found) > 0
	})
	if found[1] != "127.0.0.2" {
		t.Errorf("the client is %s: %s", found[1], found[0])
	}
}

// The console binds its cookie to the host and to TLS by this header, so a client must not choose it.
func TestHAProxyReportsWhetherTheClientUsesTLS(t *testing.T) {
	const header = "X-Forwarded-Proto"
	fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Got", strings.Join(r.Header.Values(header), ","))
	}))
	t.Cleanup(fake.Close)
	at := func() *nodes.Node { return &nodes.Node{Addr: fake.Listener.Addr().String()} }
	pair := apptest.NewPair(t, time.Now().Add(time.Hour))
	client := &http.Client{Timeout: settled, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pair.Trust}, DisableKeepAlives: true}}
	plain := "http://" + nodes.Proxy(t, []*nodes.Node{at(), at(), at()}).Addr
	secure := "https://" + nodes.TLSProxy(t, []*nodes.Node{at(), at(), at()}, slices.Concat(pair.Chain, pair.Key)).Addr
	for _, c := range []struct{ front, claim, want string }{
		{plain, "X-Other: none", ""},
		{plain, header + ": https", ""},
		{secure, "X-Other: none", "https"},
		{secure, header + ": http", "https"},
	} {
		if a := send(client, "GET", c.front+"/console", "", "", c.claim); a.status != 200 || a.header.Get("X-Got") != c.want {
			t.Errorf("%s with %s: %s, and nodes got %q, want %q", c.front, c.claim, a, a.header.Get("X-Got"), c.want)
		}
	}
}

func TestHAProxyReturnsAProblemWithoutNodes(t *testing.T) {
	s := newService(t)
	front := nodes.Proxy(t, s.nodes)
	for _, n := range s.nodes {
		n.Kill()
	}
	front.Await(t, 0)
	a := send(nodes.Client(t), "GET", "http://"+front.Addr+"/v0/pages", s.key, "")
	if a.status != 503 || a.header.Get("Content-Type") != "application/problem+json" || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, `"code":"unavailable"`) {
		t.Errorf("%s %v", a, a.header)
	}
}

// The nodes read a request and close the connection without a response, so that retries
// show.
func TestHAProxyRetriesOnlyIdempotentRequests(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{} // requests received by nodes
	fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			return
		}
		mu.Lock()
		seen[r.URL.Path]++
		mu.Unlock()
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close()
	}))
	t.Cleanup(fake.Close)
	at := func() *nodes.Node { return &nodes.Node{Addr: fake.Listener.Addr().String()} }
	front := "http://" + nodes.Proxy(t, []*nodes.Node{at(), at(), at()}).Addr
	const always, once = 4, 1 // attempts: with retries as configured, and without
	for path, c := range map[string]struct {
		method, header string
		sent           int
	}{
		"/read":  {"GET", "X-Other: none", always},
		"/head":  {"HEAD", "X-Other: none", always},
		"/keyed": {"POST", "Idempotency-Key: a", always},
		"/post":  {"POST", "X-Other: none", once},
		"/patch": {"PATCH", "If-Match: *", once},
	} {
		body := `{}`
		if c.method == "GET" || c.method == "HEAD" {
			body = ""
		}
		a := send(nodes.Client(t), c.method, front+path, "", body, c.header)
		mu.Lock()
		if a.status != 502 || seen[path] != c.sent {
			t.Errorf("%s: %s, and nodes got it %d times, want %d", path, a, seen[path], c.sent)
		}
		mu.Unlock()
		if c.method != "HEAD" && !strings.Contains(a.body, `"code":"unavailable"`) {
			t.Errorf("%s: %s", path, a)
		}
	}
}

// The delay is part of the time limit for a stop, whatever clients do.
func TestShutdownDelayIsPartOfTheStopLimit(t *testing.T) {
	t.Parallel()
	s := newService(t, "--shutdown-delay", "5s")
	client := &http.Client{Timeout: settled, Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	n := s.nodes[0]
	conn, err := net.Dial("tcp", n.Addr) // a client that never completes its request
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte("POST /v0/account_logs HTTP/1.1\r\nHost: a\r\nx-api-key: " + s.key + "\r\nContent-Length: 9\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	n.Signal(t, syscall.SIGTERM)
	nodes.Until(t, "the node to be no longer ready", exchangeTimeout, func() bool { return s.get(t, n, "/readyz", "").status == 503 })
	response, err := client.Get("http://" + n.Addr + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	if _ = response.Body.Close(); response.StatusCode != http.StatusOK || !response.Close {
		t.Errorf("a request within the delay: %s, and the connection is closed: %v", response.Status, response.Close)
	}
	if code := n.ExitCode(t, nodes.StopLimit); code != 1 {
		t.Errorf("exit code %d, want 1 for a request that was cut off", code)
	}
}
