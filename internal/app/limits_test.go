package app_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app/apptest"
	"atrium/internal/auth"
	"atrium/internal/config"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
)

// want checks that a response is a problem with the status and the code.
func (a response) want(t *testing.T, status int, code atrium.Code) {
	t.Helper()
	var p struct {
		Code      atrium.Code
		RequestID string
	}
	err := json.Unmarshal([]byte(a.body), &p)
	if a.status != status || err != nil || p.Code != code || p.RequestID == "" || p.RequestID != a.header.Get("X-Request-Id") {
		t.Errorf("%d %s, want %d %s", a.status, a.body, status, code)
	}
}

func (s *service) wantRefused(t *testing.T, limit string, count int) {
	t.Helper()
	text := s.scrape(t)
	if series := fmt.Sprintf("\natrium_limit_refused_total{limit=%q} %d\n", limit, count); !strings.Contains(text, series) {
		t.Errorf("no %s in\n%s", strings.TrimSpace(series), text)
	}
}

func TestLongTargetReturns414ToEveryone(t *testing.T) {
	s := start(t, func(c *config.Config) { c.MaxURL, c.MaxQueryParameters = 2<<10, 50 })
	long := func(n int) string { return "/v0/pages?x=" + strings.Repeat("y", n-len("/v0/pages?x=")) }
	many := func(n int) string { return "/v0/pages?limit=1" + strings.Repeat("&x=1", n-1) }
	for _, target := range []string{long(2 << 10), many(50)} {
		if a := s.get(t, target, s.key); a.status != http.StatusOK {
			t.Errorf("at the limit: %d %s", a.status, a.body)
		}
	}
	for _, target := range []string{long(2<<10 + 1), many(51), "/" + strings.Repeat("y", 3<<10), "/v0/pages?" + strings.Repeat("&", 50)} {
		for _, key := range []string{s.key, ""} {
			s.get(t, target, key).want(t, http.StatusRequestURITooLong, atrium.CodeURITooLong)
		}
	}
}

func TestTooManyHeaderFieldsReturn431(t *testing.T) {
	s := start(t)
	for _, name := range []string{"Same: 1", "Different-%d: 1"} {
		fields := make([]string, 97) // in addition to User-Agent, Accept-Encoding and x-api-key
		for i := range fields {
			fields[i] = strings.ReplaceAll(name, "%d", strconv.Itoa(i))
		}
		if a := s.send(t, http.MethodGet, "/v0/pages", s.key, "", fields...); a.status != http.StatusOK {
			t.Errorf("at the limit: %d %s", a.status, a.body)
		}
		s.send(t, http.MethodGet, "/v0/pages", s.key, "", append(fields, "One: more")...).want(t, http.StatusRequestHeaderFieldsTooLarge, atrium.CodeHeaderTooLarge)
	}
}

func rateOf(a response) string {
	return a.header.Get("RateLimit-Policy") + " | " + a.header.Get("RateLimit")
}

func TestKeyAndTenantRatesReturn429(t *testing.T) {
	s := start(t, func(c *config.Config) {
		c.KeyRate, c.TenantRate = config.Rate{Count: 4, Window: time.Hour}, config.Rate{Count: 6, Window: 2 * time.Hour}
	})
	const policy = `"key";q=4;w=3600, "tenant";q=6;w=7200 | `
	for i, c := range []struct {
		method, target string
		status         int
	}{
		{http.MethodGet, "/v0/pages", 200},
		{http.MethodPost, "/manage/v0/brands", 403},
		{http.MethodGet, "/v0/accounts/" + string(atrium.NewID[atrium.AccountID]()), 404},
		{http.MethodHead, "/v0/pages", 200},
	} {
		a := s.send(t, c.method, c.target, s.key, "")
		left := fmt.Sprintf(`"key";r=%d;t=900, "tenant";r=%d;t=1200`, 3-i, 5-i)
		if a.status != c.status || rateOf(a) != policy+left {
			t.Errorf("%s %s: %d with %s, want %s", c.method, c.target, a.status, rateOf(a), policy+left)
		}
	}
	a := s.send(t, http.MethodPost, "/manage/v0/brands", s.key, "") // even without the scope
	a.want(t, http.StatusTooManyRequests, atrium.CodeRateLimited)
	if after, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || after < 890 || after > 900 || rateOf(a) != policy+fmt.Sprintf(`"key";r=0;t=%d`, after) {
		t.Errorf("Retry-After is %d, the rate %s", after, rateOf(a))
	}
	for range 2 {
		if a := s.get(t, "/v0/pages", s.pages); a.status != http.StatusOK {
			t.Errorf("another key: %d %s", a.status, a.body)
		}
	}
	for range 2 { // the second key has an equal rate
		a = s.get(t, "/v0/pages", s.pages)
		a.want(t, http.StatusTooManyRequests, atrium.CodeRateLimited)
		if !strings.HasPrefix(rateOf(a), policy+`"key";r=2;t=`) || !strings.Contains(a.header.Get("RateLimit"), `"tenant";r=0;t=`) {
			t.Errorf("the rate of the tenant is %s", rateOf(a))
		}
	}
	for target, key := range map[string]string{"/healthz": s.key, "/errors/": s.key, "/v0/pages": "x", "/nowhere": s.key} {
		if a := s.get(t, target, key); a.status == http.StatusTooManyRequests || rateOf(a) != " | " {
			t.Errorf("%s: %d with %s", target, a.status, rateOf(a))
		}
	}
	s.wantRefused(t, "key_rate", 1)
	s.wantRefused(t, "tenant_rate", 2)
}

func TestOperatorsAreExemptFromTenantRates(t *testing.T) {
	s := start(t, func(c *config.Config) { c.TenantRate = config.Rate{Count: 1, Window: time.Hour} })
	operator, _ := apptest.Key(t, s.store, atrium.OperatorChain, atrium.ScopeManage)
	for range 3 {
		a := s.get(t, "/manage/v0/tenants", operator)
		if a.status != http.StatusOK || len(a.header["Ratelimit"])+len(a.header["Ratelimit-Policy"]) > 0 {
			t.Errorf("%d %s %v", a.status, a.body, a.header)
		}
	}
}

func TestNoRateLimitHeadersWithoutARate(t *testing.T) {
	s := start(t)
	for range 300 {
		if a := s.get(t, "/v0/pages", s.key); a.status != http.StatusOK || rateOf(a) != " | " {
			t.Fatalf("%d with %s", a.status, rateOf(a))
		}
	}
}

func TestInvalidKeysAreLimitedPerAddress(t *testing.T) {
	s := start(t, func(c *config.Config) {
		c.TrustedProxies, c.AuthFailures = "127.0.0.1", config.Rate{Count: 100, Window: 24 * time.Hour}
	})
	from := func(address string) string { return "X-Forwarded-For: " + address }
	wrong := func() string {
		_, text, _ := auth.NewKey()
		return text
	}
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 100 {
				if a := s.send(t, http.MethodGet, "/v0/pages", wrong(), "", from("192.0.2.1")); a.status != http.StatusUnauthorized {
					t.Errorf("an invalid key: %d %s", a.status, a.body)
				}
			}
		})
	}
	for range 30 { // all with an unknown key
		a := s.send(t, http.MethodGet, "/v0/pages", s.newKey(t, atrium.ExternalScopes()), "", from("192.0.2.1"))
		if a.status != http.StatusOK {
			t.Errorf("a valid key: %d %s", a.status, a.body)
		}
	}
	clients.Wait()
	a := s.send(t, http.MethodGet, "/v0/pages", "x", "", from("192.0.2.1"))
	a.want(t, http.StatusTooManyRequests, atrium.CodeRateLimited)
	if after, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || after < 1 || after > 24*60*60/100 || a.header.Get("WWW-Authenticate") != "" {
		t.Errorf("%v", a.header)
	}
	s.send(t, http.MethodGet, "/v0/pages", "x", "", from("192.0.2.2")).want(t, http.StatusUnauthorized, atrium.CodeUnauthenticated)
	s.get(t, "/v0/pages", "x").want(t, http.StatusUnauthorized, atrium.CodeUnauthenticated)
	s.wantRefused(t, "auth_failures", 1)
	if log := s.log.String(); strings.Count(log, `"limit":"auth_failures"`) != 1 || !strings.Contains(log, `"client":"192.0.2.1"`) {
		t.Error("the log does not name the client exactly once")
	}
}

func TestForwardedAddressOfAnUntrustedProxyIsIgnored(t *testing.T) {
	s := start(t, func(c *config.Config) { c.AuthFailures = config.Rate{Count: 3, Window: time.Hour} })
	for i := range 3 {
		s.send(t, http.MethodGet, "/v0/pages", "x", "", fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", i)).want(t, http.StatusUnauthorized, atrium.CodeUnauthenticated)
	}
	s.send(t, http.MethodGet, "/v0/pages", "x", "", "X-Forwarded-For: 192.0.2.9").want(t, http.StatusTooManyRequests, atrium.CodeRateLimited)
	if strings.Contains(s.log.String(), "192.0.2.") {
		t.Error("the log contains the address")
	}
}

// A slow is a client that has begun to send an entry.
type slow struct {
	net.Conn
	in   *bufio.Reader
	rest string // of the body
}

// entry returns an entry with a payload of about the given size.
func entry(bytes int) string {
	return `{"source":"a","payload":{"x":"` + strings.Repeat("x", bytes) + `"}}`
}

// begin sends a body without its last bytes.
func (s *service) begin(t *testing.T, target, key, body string) *slow {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nx-api-key: %s\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", target, key, len(body)); err != nil {
		t.Fatal(err)
	}
	c := &slow{conn, bufio.NewReader(conn), body[len(body)-2:]}
	if line := c.line(); line != "HTTP/1.1 100 Continue" { // the service reads its body
		t.Fatal(line)
	}
	c.line()
	_, _ = io.WriteString(conn, body[:len(body)-2])
	return c
}

func (c *slow) line() string {
	line, _ := c.in.ReadString('\n')
	return strings.TrimSpace(line)
}

// answered reports whether a response came before the end of the body.
func (c *slow) answered() bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.in.Peek(1)
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	return err == nil
}

// finish sends the rest and returns the first line of the response.
func (c *slow) finish() string {
	_, _ = io.WriteString(c, c.rest)
	return c.line()
}

// holdWrites blocks all writers until release is called.
func (s *service) holdWrites(t *testing.T) (release func()) {
	t.Helper()
	db, err := sqlite.Open(s.file, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	held, done, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		ended <- db.Write(t.Context(), func(engine.Tx) error {
			close(held)
			<-done
			return nil
		})
	}()
	<-held
	return sync.OnceFunc(func() {
		close(done)
		if err := errors.Join(<-ended, db.Close()); err != nil {
			t.Error(err)
		}
	})
}

func TestSlowBodiesDoNotCountAsInFlight(t *testing.T) {
	s := start(t, func(c *config.Config) { c.MaxRequests, c.RequestWait = 1, 0 })
	var senders []*slow
	for range 3 {
		senders = append(senders, s.begin(t, "/v0/account_logs", s.key, entry(10)))
	}
	if a := s.get(t, "/v0/pages", s.key); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	for _, c := range senders {
		if line := c.finish(); line != "HTTP/1.1 201 Created" {
			t.Error(line)
		}
	}
}

func TestBodyMemoryIsSharedBetweenTenants(t *testing.T) {
	s := start(t, func(c *config.Config) { c.MaxBody, c.BatchMaxBody, c.BodyMemory = 1<<20, 1<<20, 2<<20 })
	other, _, err := s.store.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Other")
	if err != nil {
		t.Fatal(err)
	}
	others, _ := apptest.Key(t, s.store, other.ID)
	first := s.begin(t, "/v0/account_logs", s.key, entry(900<<10))
	refused, replaced := 0, 0
	for deadline := time.Now().Add(20 * time.Second); refused < 3 && time.Now().Before(deadline); { // after the first
		a := s.send(t, http.MethodPost, "/v0/account_logs", s.key, entry(900<<10))
		if a.status == http.StatusCreated { // it was faster, and the first may have been rejected
			if first.answered() {
				first = s.begin(t, "/v0/account_logs", s.key, entry(900<<10))
				replaced++
			}
			continue
		}
		a.want(t, http.StatusServiceUnavailable, atrium.CodeUnavailable)
		if refused++; a.header.Get("Retry-After") != "1" {
			t.Errorf("%v", a.header)
		}
	}
	if refused != 3 {
		t.Error("a second large body of the tenant was accepted during the first")
	}
	for key, bytes := range map[string]int{others: 400 << 10, s.key: 10 << 10} {
		if a := s.send(t, http.MethodPost, "/v0/account_logs", key, entry(bytes)); a.status != http.StatusCreated {
			t.Errorf("%d bytes: %d %s", bytes, a.status, a.body)
		}
	}
	if line := first.finish(); line != "HTTP/1.1 201 Created" {
		t.Error(line)
	}
	for range 5 { // the memory of rejected bodies is returned
		if a := s.send(t, http.MethodPost, "/v0/account_logs", s.key, entry(900<<10)); a.status != http.StatusCreated {
			t.Errorf("after the first connection closed: %d %s", a.status, a.body)
		}
	}
	s.wantRefused(t, "body_memory", refused+replaced)
}

func TestOverloadIsRejectedEarlyExceptProbesAndStreams(t *testing.T) {
	s := start(t, func(c *config.Config) { c.MaxRequests, c.RequestWait = 4, 50*time.Millisecond })
	importer := s.newKey(t, atrium.Scopes{atrium.ScopeManage})
	other, _, err := s.store.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Other")
	if err != nil {
		t.Fatal(err)
	}
	others, _ := apptest.Key(t, s.store, other.ID)
	release := s.holdWrites(t)
	defer release()
	responses := make(chan response)
	for range 2 {
		go func() {
			responses <- s.send(t, http.MethodPost, "/v0/account_logs", s.key, `{"source":"a","payload":{}}`)
		}()
	}
	for !strings.Contains(s.scrape(t), "\natrium_http_requests_in_flight 2\n") {
		time.Sleep(time.Millisecond)
	}
	for range 3 {
		a := s.get(t, "/v0/pages", s.key)
		a.want(t, http.StatusServiceUnavailable, atrium.CodeUnavailable)
		if a.header.Get("Retry-After") != "1" {
			t.Errorf("%v", a.header)
		}
	}
	if a := s.get(t, "/v0/pages", others); a.status != http.StatusOK {
		t.Errorf("another tenant: %d %s", a.status, a.body)
	}
	s.begin(t, "/manage/v0/import", importer, "{}\n") // continues, because its body is requested
	for _, target := range []string{"/healthz", "/readyz", "/openapi.json"} {
		if a := s.get(t, target, ""); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", target, a.status, a.body)
		}
	}
	s.get(t, "/v0/pages", "").want(t, http.StatusUnauthorized, atrium.CodeUnauthenticated)
	release()
	for range 2 {
		if a := <-responses; a.status != http.StatusCreated {
			t.Errorf("a request in flight: %d %s", a.status, a.body)
		}
	}
	if a := s.get(t, "/v0/pages", s.key); a.status != http.StatusOK {
		t.Errorf("after the overload: %d %s", a.status, a.body)
	}
	s.wantRefused(t, "overload", 3)
	for end := time.Now().Add(time.Minute); !strings.Contains(s.log.String(), `"limit":"overload"`) && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // a request is counted, and answered, before it is logged
	}
	if log := s.log.String(); strings.Count(log, `"limit":"overload"`) != 1 || strings.Contains(log, "request failed") {
		t.Errorf("three refusals are not logged as one line:\n%s", log)
	}
}

func TestBurstAboveTheLimitIsQueued(t *testing.T) {
	s := start(t, func(c *config.Config) { c.MaxRequests, c.RequestWait = 6, time.Minute })
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 50 {
				if a := s.get(t, "/v0/pages", s.key); a.status != http.StatusOK {
					t.Errorf("%d %s", a.status, a.body)
				}
			}
		})
	}
	clients.Wait()
}

// dial opens a connection and reports whether the service serves it.
func (s *service) dial(t *testing.T) (conn net.Conn, served bool) {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		return nil, false
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
	line, _ := bufio.NewReader(conn).ReadString('\n')
	return conn, line == "HTTP/1.1 200 OK\r\n"
}

func TestConnectionsAboveTheLimitAreClosedAndCounted(t *testing.T) {
	s := start(t, func(c *config.Config) { c.MaxClientConnections = 30 })
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	var open []net.Conn
	for {
		conn, served := s.dial(t)
		if !served {
			break
		}
		if open = append(open, conn); len(open) > 30 {
			t.Fatal("there are more connections than the limit")
		}
	}
	if len(open) < 25 {
		t.Errorf("only %d connections were served", len(open))
	}
	s.wantRefused(t, "client_connections", 1)
	for _, conn := range open {
		_ = conn.Close()
	}
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, served := s.dial(t); served {
			break
		}
		if time.Since(start) > 10*time.Second {
			t.Fatal("connections that have ended still count")
		}
	}
}

func TestTrustedProxiesAreExemptFromTheClientLimit(t *testing.T) {
	s := start(t, func(c *config.Config) { c.MaxClientConnections, c.TrustedProxies = 2, "127.0.0.0/8" })
	for range 20 {
		if _, served := s.dial(t); !served {
			t.Fatal("a connection of the proxy was refused")
		}
	}
}

func TestTwoThousandConcurrentConnectionsAreServed(t *testing.T) {
	s := start(t, func(c *config.Config) { c.RequestWait = time.Minute }) // independent of the speed of the machine
	const all = 2000
	var clients sync.WaitGroup
	begin := make(chan struct{})
	var mu sync.Mutex
	got := map[string]int{} // guarded by mu
	for range all {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		clients.Go(func() {
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			<-begin
			const body = `{"source":"a","payload":{}}`
			_, _ = fmt.Fprintf(conn, "POST /v0/account_logs HTTP/1.1\r\nHost: a\r\nx-api-key: %s\r\nContent-Length: %d\r\n\r\n%s", s.key, len(body), body)
			line, err := bufio.NewReader(conn).ReadString('\n')
			mu.Lock()
			defer mu.Unlock()
			got[fmt.Sprint(strings.TrimSpace(line), err)]++
		})
	}
	close(begin)
	clients.Wait()
	if got["HTTP/1.1 201 Created<nil>"] != all {
		t.Errorf("responses: %v", got)
	}
}
