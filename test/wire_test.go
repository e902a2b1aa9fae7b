package test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// exchangeTimeout ends a test that would hang. No result depends on it.
const exchangeTimeout = 30 * time.Second

// A request is sent as it is: nothing escapes, cleans or checks any of it.
type request struct {
	method, target string
	header         []string // "Name: value"
	body           []byte   // nil for none
	keepAlive      bool     // another request follows on the connection
}

func get(target string, header ...string) request {
	return request{method: http.MethodGet, target: target, header: header}
}

func post(key, body string, header ...string) request {
	return request{
		method: http.MethodPost, target: "/v0/account_logs", body: []byte(body),
		header: append([]string{"x-api-key: " + key, "Content-Type: application/json"}, header...),
	}
}

// has reports whether the request has the header.
func (r request) has(name string) bool {
	for _, line := range r.header {
		if n, _, _ := strings.Cut(line, ":"); strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// bytes returns the bytes to send. A body has a Content-Length, or is sent in chunks of
// 1000 bytes if the header says so.
func (r request) bytes() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: atrium.test\r\n", r.method, r.target)
	if !r.keepAlive {
		b.WriteString("Connection: close\r\n")
	}
	for _, line := range r.header {
		b.WriteString(line + "\r\n")
	}
	switch {
	case r.has("Transfer-Encoding"):
		b.WriteString("\r\n")
		for rest := r.body; len(rest) > 0; {
			n := min(len(rest), 1000)
			fmt.Fprintf(&b, "%x\r\n%s\r\n", n, rest[:n])
			rest = rest[n:]
		}
		b.WriteString("0\r\n\r\n")
	case r.body != nil && !r.has("Content-Length"):
		b.WriteString("Content-Length: " + strconv.Itoa(len(r.body)) + "\r\n\r\n")
		b.Write(r.body)
	default:
		b.WriteString("\r\n")
		b.Write(r.body)
	}
	return b.Bytes()
}

// An response is a complete response.
type response struct {
	status int
	header http.Header
	body   []byte
}

func (a response) String() string { return fmt.Sprintf("%d %s", a.status, a.body) }

func (s *service) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(exchangeTimeout)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// send sends a request on a new connection and returns the response. The server must send
// nothing else and close the connection, unless a proxy keeps it open.
func (s *service) send(t *testing.T, r request) response {
	t.Helper()
	if s.http2 != nil {
		return s.sendHTTP2(t, r)
	}
	conn := s.dial(t)
	defer func() { _ = conn.Close() }()
	go func() { _, _ = conn.Write(r.bytes()) }() // the response may come before the end of the body
	if s.nodes != nil {
		return readResponse(t, bufio.NewReader(conn), r.method)
	}
	return receive(t, conn, r.method)
}

// sendHTTP2 sends a request over the shared connection, with the headers that HTTP/2
// allows. A body that is shorter than its stated length does not end.
func (s *service) sendHTTP2(t *testing.T, r request) response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), exchangeTimeout)
	defer cancel()
	sent, err := http.NewRequestWithContext(ctx, r.method, "https://"+s.addr, bytes.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	if sent.URL.Opaque = r.target; strings.HasPrefix(r.target, "//") { // net/url would parse it as a host
		sent.URL.Opaque, sent.URL.Path = "", r.target
	}
	sent.Header.Set("User-Agent", "")
	for _, line := range r.header {
		name, value, _ := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		switch http.CanonicalHeaderKey(name) {
		case "Host":
			sent.Host = value
		case "Transfer-Encoding":
			sent.Body, sent.ContentLength = io.NopCloser(bytes.NewReader(r.body)), -1
		case "Content-Length":
			if sent.ContentLength, err = strconv.ParseInt(value, 10, 64); err != nil {
				t.Fatal(err)
			}
			in, out := io.Pipe()
			go func() { _, _ = out.Write(r.body) }()
			sent.Body = in
		default:
			sent.Header.Add(name, value)
		}
	}
	res, err := s.http2.Transport.RoundTrip(sent) // follows no redirects
	if err != nil {
		t.Fatalf("%s %s: %v", r.method, r.target, err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("read the body of a response: %v", err)
	}
	if res.ProtoMajor != 2 {
		t.Errorf("the response used %s", res.Proto)
	}
	return response{res.StatusCode, res.Header, body}
}

// receive reads the only response on a connection.
func receive(t *testing.T, conn net.Conn, method string) response {
	t.Helper()
	in := bufio.NewReader(conn)
	a := readResponse(t, in, method)
	if more, _ := io.ReadAll(in); len(more) > 0 { // however the connection ends
		t.Fatalf("%s: the server sent %d bytes after its response: %.80q", method, len(more), more)
	}
	return a
}

func readResponse(t *testing.T, in *bufio.Reader, method string) response {
	t.Helper()
	res, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("read the response to a %s: %v", method, err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("read the body of a response: %v", err)
	}
	return response{res.StatusCode, res.Header, body}
}
