package secure

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"atrium/test/nodes"
)

// A raw is an HTTP/2 client that sends arbitrary frames.
type raw struct {
	*http2.Framer
	conn net.Conn
	head bytes.Buffer // a header block
	hp   *hpack.Encoder
}

// connect opens a connection. The caller reads what the server sends.
func (s *server) connect(t *testing.T) *raw {
	t.Helper()
	// Limits count by client address: the clients that must not notice a flood have another one.
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	conn, err := tls.DialWithDialer(dialer, "tcp", s.Addr, &tls.Config{RootCAs: s.trust, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(2 * exchangeTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	r := &raw{Framer: http2.NewFramer(conn, conn), conn: conn}
	r.hp = hpack.NewEncoder(&r.head)
	if err := r.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return r
}

// headers returns the header block of a request, with additional headers.
func (r *raw) headers(more ...string) []byte {
	r.head.Reset()
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "atrium.test"}, {":path", "/openapi.json"}} {
		_ = r.hp.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	for i, value := range more {
		_ = r.hp.WriteField(hpack.HeaderField{Name: fmt.Sprintf("x-%d", i), Value: value, Sensitive: true})
	}
	return bytes.Clone(r.head.Bytes())
}

// drain reads frames until the connection ends, and calls each with them.
func (r *raw) drain(each func(http2.Frame)) error {
	for {
		f, err := r.ReadFrame()
		if err != nil {
			return err
		}
		each(f)
	}
}

var resident = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// memory returns the memory of the server in MiB.
func (s *server) memory(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	if err != nil {
		t.Fatal(err)
	}
	m := resident.FindSubmatch(b)
	if m == nil {
		t.Fatalf("no VmRSS in %s", b)
	}
	kib, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib / 1024
}

// holds checks that the server responds after a flood, and that its memory has not grown.
func (s *server) holds(t *testing.T, before int) {
	t.Helper()
	if a := s.must(t, s.client(t, true), http.MethodGet, "/v0/pages", ""); a.status != http.StatusOK || a.proto != "HTTP/2.0" {
		t.Errorf("after the flood: %d with %s", a.status, a.proto)
	}
	if after := s.memory(t); after > before+200 { // the race detector needs some of it
		t.Errorf("the flood took the memory from %d to %d MiB", before, after)
	}
}

// A client that opens and resets requests at once (CVE-2023-44487) cannot have more of
// them running than the limit. The server closes the connection when more than four times
// as many are queued. A fast server does not need to.
func TestHTTP2RapidResetBlocksNobody(t *testing.T) {
	s := start(t, "--http2-streams", "10", "--log-sample", "0")
	before := s.memory(t)
	r := s.connect(t)
	away := make(chan http2.ErrCode, 1)
	go func() {
		code := http2.ErrCodeNo
		_ = r.drain(func(f http2.Frame) {
			if f, ok := f.(*http2.GoAwayFrame); ok {
				code = f.ErrCode
			}
		})
		away <- code
	}()
	sent := 0
	for ; sent < 20_000; sent++ {
		id := uint32(2*sent + 1)
		if r.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.headers(), EndStream: true, EndHeaders: true}) != nil ||
			r.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
			break
		}
	}
	s.holds(t, before)
	_ = r.conn.Close()
	code := <-away
	t.Logf("%d requests were reset, and the server sent %s", sent, code)
	if sent < 20_000 && code != http2.ErrCodeEnhanceYourCalm {
		t.Errorf("the connection ended after %d requests with %s", sent, code)
	}
}

// Endless headers (CVE-2023-45288) are read no further than the header limit.
func TestHTTP2EndlessHeadersCloseTheConnection(t *testing.T) {
	s := start(t, "--log-sample", "0")
	before := s.memory(t)
	r := s.connect(t)
	go func() { _ = r.drain(func(http2.Frame) {}) }()
	if err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.headers(), EndStream: true}); err != nil {
		t.Fatal(err)
	}
	part := bytes.Repeat([]byte{0x10, 3, 'x', '-', 'y', 1, 'z'}, 2000) // literals without indexing
	const most = 64 << 20
	sent := 0
	for ; sent < most; sent += len(part) {
		if err := r.WriteContinuation(1, false, part); err != nil {
			break
		}
	}
	if sent >= most {
		t.Errorf("the server took %d bytes of one head", sent)
	}
	t.Logf("the connection ended after %d KiB", sent>>10)
	s.holds(t, before)
}

// The connection of a client that sends pings and never reads the acknowledgements is
// closed.
func TestHTTP2UnreadPingsCloseTheConnection(t *testing.T) {
	s := start(t, "--log-sample", "0")
	before := s.memory(t)
	r := s.connect(t)
	const most = 4_000_000
	sent := 0
	for ; sent < most && r.WritePing(false, [8]byte{}) == nil; sent++ {
	}
	if sent == most {
		t.Errorf("the server took %d pings", sent)
	}
	s.holds(t, before)
}

// Frames that carry neither headers nor content cost the server more than they cost the client.
func TestHTTP2FloodsCloseTheConnection(t *testing.T) {
	s := start(t, "--log-sample", "0")
	before := s.memory(t)
	const most = 1_000_000 // more than buffers take, as each is a TLS record and the server delays those
	for name, flood := range map[string]func(r *raw) error{
		"settings":              func(r *raw) error { return r.WriteSettings() },
		"pings":                 func(r *raw) error { return r.WritePing(false, [8]byte{}) },
		"window updates":        func(r *raw) error { return r.WriteWindowUpdate(0, 1) },
		"empty parts of a head": func(r *raw) error { return r.WriteContinuation(1, false, nil) },
	} {
		r := s.connect(t)
		go func() { _ = r.drain(func(http2.Frame) {}) }()
		if err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.headers(), EndHeaders: name != "empty parts of a head"}); err != nil {
			t.Fatal(err)
		}
		sent := 0
		for ; sent < most && flood(r) == nil; sent++ {
		}
		if sent == most {
			t.Errorf("the server took %d %s", sent, name)
		}
	}
	s.holds(t, before)
}

func TestHTTP2ConcurrentStreamsAreLimited(t *testing.T) {
	s := start(t, "--http2-streams", "3")
	r := s.connect(t)
	// No response can be sent, so no request ends before the fourth arrives.
	if err := r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatal(err)
	}
	for i := range uint32(4) {
		if err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: r.headers(), EndHeaders: true, EndStream: true}); err != nil {
			t.Fatal(err)
		}
	}
	limit, refused := uint32(0), false
	enough := errors.New("enough")
	err := func() error {
		for {
			f, err := r.ReadFrame()
			if err != nil {
				return err
			}
			switch f := f.(type) {
			case *http2.SettingsFrame:
				if v, ok := f.Value(http2.SettingMaxConcurrentStreams); ok {
					limit = v
				}
			case *http2.RSTStreamFrame:
				refused = f.StreamID == 7 && (f.ErrCode == http2.ErrCodeProtocol || f.ErrCode == http2.ErrCodeRefusedStream)
				return enough
			}
		}
	}()
	if limit != 3 || !refused {
		t.Errorf("the limit is %d, the fourth request was refused: %v (%v)", limit, refused, err)
	}
}

func TestHTTP2HeadersAboveTheLimitReturn431(t *testing.T) {
	s := start(t)
	c := s.client(t, true)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.Addr+"/v0/pages", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		r.Header.Set(fmt.Sprintf("x-%d", i), string(bytes.Repeat([]byte{'a'}, 1000)))
	}
	response, err := c.Do(r)
	// A client that reads the server's settings first does not even send the request.
	if err == nil {
		_ = response.Body.Close()
		if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a head of 40 KB: %d", response.StatusCode)
		}
	}
	if a := s.must(t, c, http.MethodGet, "/v0/pages", ""); a.status != http.StatusOK {
		t.Errorf("after it: %d", a.status)
	}
}

// A plain listener does not support HTTP/2, neither with prior knowledge nor by upgrade.
func TestNoHTTP2WithoutTLS(t *testing.T) {
	n := nodes.Start(t, 1, "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"))[0]
	for name, begin := range map[string]string{
		"at once":   http2.ClientPreface,
		"by asking": "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", n.Addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(exchangeTimeout))
		_, _ = io.WriteString(conn, begin)
		got, err := io.ReadAll(conn)
		_ = conn.Close()
		if !bytes.HasPrefix(got, []byte("HTTP/1.")) || bytes.Contains(got, []byte("101 ")) {
			t.Errorf("%s: %.60q, %v", name, got, err)
		}
	}
}
