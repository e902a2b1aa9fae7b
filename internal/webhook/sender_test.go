package webhook

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

var (
	loopback = prefixes("127.0.0.0/8")
	message  = Message{ID: "event_00000000000000000000000001", Body: []byte(`{"id":"event_00000000000000000000000001"}`)}
)

// endpoint returns an endpoint with a URL.
func endpoint(url string) Endpoint {
	return Endpoint{URL: url, Format: Standard, Secrets: [][]byte{secret(1)}}
}

// newTestSender returns a Sender that is closed at the end of the test.
func newTestSender(t *testing.T, c Config) *Sender {
	t.Helper()
	s := NewSender(c)
	t.Cleanup(s.Close)
	return s
}

// serve starts a server on the loopback interface.
func serve(t *testing.T, f http.HandlerFunc) (url string) {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return server.URL
}

// raw starts a server that calls f with each connection after it has read the headers of a request.
func raw(t *testing.T, f func(net.Conn)) (url string) {
	t.Helper()
	return listen(t, func(c net.Conn) {
		if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			f(c)
		}
	})
}

// listen starts a server that calls f with each connection, and waits at the end of the test until all have ended.
func listen(t *testing.T, f func(net.Conn)) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer func() { _ = conn.Close() }()
				f(conn)
			})
		}
	})
	return "http://" + listener.Addr().String()
}

// write writes a text again and again until the peer closes the connection.
func write(conn net.Conn, text string) {
	for {
		if _, err := io.WriteString(conn, text); err != nil {
			return
		}
	}
}

// untilClosed waits until the peer closes the connection.
func untilClosed(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func TestRequestHasBodyHeadersAndSignature(t *testing.T) {
	type received struct {
		*http.Request
		body []byte
	}
	requests := make(chan received, 1)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- received{r, body}
		w.WriteHeader(http.StatusNoContent)
	})
	s := newTestSender(t, Config{Allow: loopback, UserAgent: "Atrium/1"})
	for format, contentType := range map[Format]string{Standard: "application/json", Legacy: "application/json", CloudEvents: "application/cloudevents+json; charset=UTF-8"} {
		e := endpoint(url + "/hook?a=b")
		e.Format, e.Headers = format, []Header{{"X-Tenant", "one two"}, {"User-Agent", "x"}, {"webhook-id", "x"}, {"Content-Type", "x"}, {"x-webhook-timestamp", "x"}}
		a := s.Send(t.Context(), e, message, time.Now())
		if a.Result != Succeeded || a.Status != http.StatusNoContent || a.Failure != NoFailure || a.Detail != "" || a.Duration <= 0 || len(a.BodyPrefix) > 0 {
			t.Fatalf("%s: %+v", format, a)
		}
		r := <-requests
		if r.Method != http.MethodPost || r.URL.String() != "/hook?a=b" || !bytes.Equal(r.body, message.Body) || r.ContentLength != int64(len(message.Body)) {
			t.Errorf("%s: %s %s with %q", format, r.Method, r.URL, r.body)
		}
		for name, want := range map[string]string{"Content-Type": contentType, "User-Agent": "Atrium/1", "X-Tenant": "one two", "Accept-Encoding": "", "Idempotency-Key": ""} {
			if got := strings.Join(r.Header.Values(name), ","); got != want {
				t.Errorf("%s: %s is %q, want %q", format, name, got, want)
			}
		}
		if format == Legacy {
			if got := r.Header.Get("X-Webhook-Signature-256"); !strings.HasPrefix(got, "sha256=") || r.Header.Get("X-Webhook-Timestamp") == "x" {
				t.Errorf("%s: %q", format, r.Header)
			}
			continue
		}
		verifier, err := standardwebhooks.NewWebhook(FormatSecret(secret(1)))
		if err != nil {
			t.Fatal(err)
		}
		if err := verifier.Verify(r.body, r.Header); err != nil || r.Header.Get("webhook-id") != message.ID {
			t.Errorf("%s: %v, %q", format, err, r.Header)
		}
	}
}

func TestStatusDecidesTheResult(t *testing.T) {
	for status, want := range map[int]struct {
		result  Result
		failure Failure
	}{
		200: {Succeeded, NoFailure}, 202: {Succeeded, NoFailure}, 299: {Succeeded, NoFailure},
		301: {Retry, Redirect}, 302: {Retry, Redirect}, 304: {Retry, Redirect}, 307: {Retry, Redirect}, 308: {Retry, Redirect},
		400: {Retry, Status}, 404: {Retry, Status}, 410: {Gone, Status}, 429: {Retry, Status}, 500: {Retry, Status}, 503: {Retry, Status}, 599: {Retry, Status},
	} {
		var calls atomic.Int32
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			calls.Add(1)
			w.Header().Set("Location", "/elsewhere")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "body")
		})
		a := newTestSender(t, Config{Allow: loopback}).Send(t.Context(), endpoint(url), message, time.Now())
		if a.Result != want.result || a.Failure != want.failure || a.Status != status || (a.Detail == "") != (a.Result == Succeeded) || calls.Load() != 1 {
			t.Errorf("status %d: %+v after %d requests", status, a, calls.Load())
		}
		if wait := 7 * time.Second; (a.RetryAfter == wait) != (a.Result != Succeeded) {
			t.Errorf("status %d: retry after %v", status, a.RetryAfter)
		}
		if status != 304 && string(a.BodyPrefix) != "body" {
			t.Errorf("status %d: the body is %q", status, a.BodyPrefix)
		}
	}
}

func TestRedirectIsNotFollowedToAnotherServer(t *testing.T) {
	var called atomic.Bool
	inside := serve(t, func(http.ResponseWriter, *http.Request) { called.Store(true) })
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, inside, http.StatusTemporaryRedirect)
	})
	if a := newTestSender(t, Config{Allow: loopback}).Send(t.Context(), endpoint(url), message, time.Now()); a.Failure != Redirect || called.Load() {
		t.Errorf("%+v, called: %t", a, called.Load())
	}
}

func TestHostileResponsesAreBounded(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	bomb := new(bytes.Buffer)
	zeros := gzip.NewWriter(bomb)
	if _, err := zeros.Write(make([]byte, 16<<20)); err != nil {
		t.Fatal(err)
	}
	if err := zeros.Close(); err != nil {
		t.Fatal(err)
	}
	say := func(text string, then func(net.Conn)) func(net.Conn) {
		return func(c net.Conn) {
			_, _ = io.WriteString(c, text)
			then(c)
		}
	}
	nothing := func(net.Conn) {}
	for name, c := range map[string]struct {
		serve   func(net.Conn)
		result  Result
		failure Failure
		head    string // the beginning of the body
	}{
		"no response":             {untilClosed, Retry, Timeout, ""},
		"half a response":         {say(ok+"Content-Type: te", untilClosed), Retry, Timeout, ""},
		"closed":                  {nothing, Retry, Closed, ""},
		"closed in the headers":   {say(ok+"X: y\r\n", nothing), Retry, Closed, ""},
		"reset":                   {func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }, Retry, Closed, ""},
		"not HTTP":                {say("SSH-2.0-OpenSSH_9.9\r\n", untilClosed), Retry, Protocol, ""},
		"HTTP/2":                  {say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", untilClosed), Retry, Protocol, ""},
		"invalid length":          {say(ok+"Content-Length: -1\r\n\r\n", untilClosed), Retry, Protocol, ""},
		"two lengths":             {say(ok+"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", untilClosed), Retry, Protocol, ""},
		"endless status":          {say("HTTP/1.1 200 ", func(c net.Conn) { write(c, strings.Repeat("a", 4096)) }), Retry, Protocol, ""},
		"endless headers":         {say(ok, func(c net.Conn) { write(c, "X: "+strings.Repeat("a", 1000)+"\r\n") }), Retry, Protocol, ""},
		"endless informational":   {func(c net.Conn) { write(c, "HTTP/1.1 103 Early Hints\r\n\r\n") }, Retry, Protocol, ""},
		"other protocol":          {say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nabc", untilClosed), Retry, Status, ""},
		"endless body":            {say(ok+"\r\n", func(c net.Conn) { write(c, strings.Repeat("a", 4096)) }), Succeeded, NoFailure, strings.Repeat("a", MaxBodyPrefix)},
		"endless chunks":          {say(ok+"Transfer-Encoding: chunked\r\n\r\n", func(c net.Conn) { write(c, "1;"+strings.Repeat("x", 100)+"\r\na\r\n") }), Succeeded, NoFailure, ""},
		"endless trailers":        {say(ok+"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n", func(c net.Conn) { write(c, "X: "+strings.Repeat("a", 1000)+"\r\n") }), Succeeded, NoFailure, "a"},
		"silent body":             {say(ok+"Content-Length: 100\r\n\r\nabc", untilClosed), Succeeded, NoFailure, "abc"},
		"short body":              {say(ok+"Content-Length: 100\r\n\r\nabc", nothing), Succeeded, NoFailure, "abc"},
		"huge length":             {say(ok+"Content-Length: 9223372036854775807\r\n\r\nabc", nothing), Succeeded, NoFailure, "abc"},
		"silent body of an error": {say("HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\nabc", untilClosed), Retry, Status, "abc"},
		"gzip bomb":               {say(ok+"Content-Encoding: gzip\r\nConnection: close\r\n\r\n"+bomb.String(), nothing), Succeeded, NoFailure, bomb.String()[:MaxBodyPrefix]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := raw(t, c.serve) // its cleanup waits until the connection has ended
			a := newTestSender(t, Config{Allow: loopback, Timeout: 500 * time.Millisecond}).Send(t.Context(), endpoint(url), message, time.Now())
			if a.Result != c.result || a.Failure != c.failure || (a.Detail == "") != (a.Failure == NoFailure) {
				t.Errorf("%+v", a)
			}
			if len(a.BodyPrefix) > MaxBodyPrefix || !strings.HasPrefix(string(a.BodyPrefix), c.head) {
				t.Errorf("the body begins with %.100q, %d bytes", a.BodyPrefix, len(a.BodyPrefix))
			}
			if strings.Contains(a.Detail, "127.0.0.1") {
				t.Errorf("the detail has an address: %s", a.Detail)
			}
		})
	}
}

func TestEndpointThatCannotBeReached(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		url     string
		allow   []netip.Prefix
		failure Failure
	}{
		{closed, loopback, Connect},
		{strings.Replace(closed, "http:", "https:", 1), nil, Blocked},
		{closed, nil, Blocked},
		{"https://169.254.169.254/latest/meta-data", prefixes("0.0.0.0/0"), Blocked},
		{"not a URL", loopback, Blocked},
	} {
		a := newTestSender(t, Config{Allow: c.allow}).Send(t.Context(), endpoint(c.url), message, time.Now())
		if a.Result != Retry || a.Failure != c.failure || a.Status != 0 || a.Detail == "" || strings.Contains(a.Detail, "127.0.0.1") {
			t.Errorf("%s: %+v, want %s", c.url, a, c.failure)
		}
	}
	if a := newTestSender(t, Config{Allow: loopback}).Send(t.Context(), Endpoint{URL: closed, Format: Standard}, message, time.Now()); a.Failure != Unsigned || a.Result != Retry {
		t.Errorf("without a secret: %+v", a)
	}
}

func TestCanceledSendIsNoAttempt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	url := raw(t, func(c net.Conn) {
		cancel()
		untilClosed(c)
	})
	if a := newTestSender(t, Config{Allow: loopback}).Send(ctx, endpoint(url), message, time.Now()); a.Result != Canceled || a.Failure != NoFailure {
		t.Errorf("%+v", a)
	}
}

func TestClosedIdleConnectionFailsNoMessage(t *testing.T) {
	url := raw(t, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n") }) // without Connection: close
	s := newTestSender(t, Config{Allow: loopback})
	for n := range 20 {
		if a := s.Send(t.Context(), endpoint(url), message, time.Now()); a.Result != Succeeded {
			t.Fatalf("message %d: %+v", n, a)
		}
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, MaxBodyPrefix+maxDrainedBytes-1))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	s := newTestSender(t, Config{Allow: loopback})
	for range 5 {
		if a := s.Send(t.Context(), endpoint(server.URL), message, time.Now()); a.Result != Succeeded || len(a.BodyPrefix) != MaxBodyPrefix {
			t.Fatalf("%+v", a)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections for 5 messages", n)
	}
}

func TestProxyOfTheEnvironmentIsIgnored(t *testing.T) {
	var proxied atomic.Bool
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { proxied.Store(true) })
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, proxy)
	}
	pool := x509.NewCertPool()
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	pool.AddCert(server.Certificate())
	resolver := newDNS(t, func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	s := newTestSender(t, Config{Allow: loopback, RootCAs: pool, Resolver: resolver})
	if a := s.Send(t.Context(), endpoint("https://example.com:"+port), message, time.Now()); a.Result != Succeeded || proxied.Load() {
		t.Errorf("%+v, through the proxy: %t", a, proxied.Load())
	}
}
