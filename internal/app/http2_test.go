package app

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"atrium/internal/limit"
)

// The header timeout does not apply while a connection is idle or waits for a body.
func TestHTTP2HeaderTimeoutAppliesOnlyToHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		main := &http.Server{
			ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Hour, IdleTimeout: time.Hour,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.TLS == nil || r.TLS.ServerName != "atrium.test" {
					t.Errorf("the request has the TLS state %v", r.TLS)
				}
				b, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				_, _ = w.Write(b)
			}),
		}
		s := newHTTP2Server(main, nil, nil, http2Limits{})
		served := make(chan error, 1)
		go func() { served <- s.server.Serve(s) }()
		dialed, handedBack := 0, make(chan struct{})
		transport := &http.Transport{
			Protocols: new(http.Protocols),
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				dialed++
				client, server := net.Pipe()
				go func() {
					s.handOver(server, &tls.ConnectionState{ServerName: "atrium.test"})
					close(handedBack)
				}()
				return client, nil
			},
		}
		transport.Protocols.SetUnencryptedHTTP2(true)
		client := &http.Client{Transport: transport}
		for range 3 {
			body, source := io.Pipe()
			go func() {
				for range 3 {
					time.Sleep(time.Minute)
					_, _ = io.WriteString(source, "part ")
				}
				_ = source.Close()
			}()
			response, err := client.Post("http://atrium.test", "text/plain", body)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if want := strings.Repeat("part ", 3); err != nil || string(b) != want || response.ProtoMajor != 2 {
				t.Errorf("%s %q, %v, want %q", response.Proto, b, err, want)
			}
			time.Sleep(30 * time.Minute)
		}
		if dialed != 1 {
			t.Errorf("the requests took %d connections", dialed)
		}
		if err := main.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
		<-handedBack
		if err := <-served; err != http.ErrServerClosed { //nolint:errorlint // net/http returns it unwrapped
			t.Errorf("HTTP/2 ended with %v", err)
		}
		time.Sleep(time.Minute) // Shutdown of the second server polls, in the background
	})
}

// Header blocks are found however a client splits frames into writes.
func TestFrameScannerFindsSplitHeaderBlocks(t *testing.T) {
	const (
		end    = "\x00\x00\x02\x01\x04\x00\x00\x00\x01\x82\x84" // HEADERS with END_HEADERS
		begin  = "\x00\x00\x01\x01\x01\x00\x00\x00\x03\x82"     // HEADERS
		middle = "\x00\x00\x00\x09\x00\x00\x00\x00\x03"         // CONTINUATION
		last   = "\x00\x00\x00\x09\x04\x00\x00\x00\x03"         // CONTINUATION with END_HEADERS
		data   = "\x00\x00\x03\x00\x01\x00\x00\x00\x01\x01\x04\x09"
		ping   = "\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678"
	)
	preface := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	for text, open := range map[string]bool{
		"": false, preface: false, preface + ping: false, preface + data: false, preface + end: false,
		preface + end + data + ping:     false,
		preface + begin:                 true,
		preface + begin + middle:        true,
		preface + begin + middle + last: false,
		preface + end + begin:           true,
		preface + begin + last + ping:   false,
		preface + begin[:5]:             false, // could become a PING
		preface + begin[:9]:             true,
		preface + end[:10]:              true,
		preface + end[:9]:               true,
	} {
		for size := 1; size <= len(text)+1; size++ {
			s := frameScanner{skip: prefaceBytes}
			for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				if err := s.scan(rest[:min(size, len(rest))], func(frame) error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
			if s.inHeaders != open {
				t.Errorf("%q in pieces of %d: a header block is open: %v, want %v", text[min(24, len(text)):], size, s.inHeaders, open)
			}
		}
	}
}

// A wire has a number of small TLS records, and a client that has a Pace.
type wire struct {
	small int
	pace  *limit.Pace // nil for a trusted proxy
}

func newWire() *wire {
	pace := limit.NewPace(clientHeadersRate, clientHeadersBurst)
	return &wire{pace: &pace}
}

func (w *wire) SmallRecords() int { return w.small }

func (w *wire) AllowRecords() {}

func (w *wire) OfProxy() bool { return w.pace == nil }

func (w *wire) Spend(n int) time.Duration { return w.pace.Spend(n) }

func TestHTTP2ConnectionsOfAClientShareWhatHeadersMayTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newWire()
		paused := func(w *wire, bytes int) time.Duration {
			conn := &http2Conn{wire: w, usage: newHTTP2Usage(&http2Limits{}, &net.TCPAddr{}), headers: newHeaderPace()}
			for ; bytes > 0; bytes -= fewHeadersBurst {
				if err := conn.received(frame{kind: typeContinuation, length: min(bytes, fewHeadersBurst)}); err != nil {
					t.Fatal(err)
				}
			}
			return conn.wait.Round(time.Microsecond)
		}
		if wait := paused(&wire{}, 1<<20); wait != 0 {
			t.Errorf("a trusted proxy waits %s", wait)
		}
		for range 1000 { // as many honest clients behind one address
			if wait := paused(shared, 4<<10); wait != 0 {
				t.Fatalf("a connection with few headers waits %s", wait)
			}
		}
		for i := range 64 {
			// Of each connection, the first 4 KiB are not shared.
			wait, want := paused(shared, 16<<10), max(0, time.Duration((i+1)*12<<10-clientHeadersBurst)*time.Second/clientHeadersRate)
			if wait != want.Round(time.Microsecond) {
				t.Errorf("connection %d waits %s, want %s", i, wait, want)
			}
		}
		if wait := paused(shared, 4<<10); wait != 0 {
			t.Errorf("a connection with few headers waits %s for others", wait)
		}
		want := time.Duration(3*headersBurst) * time.Second / headersRate
		if wait := paused(newWire(), 4*headersBurst); wait != want.Round(time.Microsecond) {
			t.Errorf("one connection waits %s, want %s", wait, want)
		}
	})
}

// A client can announce a frame of 16 MiB, which net/http refuses, and wait for nothing.
func TestAPauseForHTTP2HeadersIsBoundedAndEndsWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		var paused time.Duration
		limits := &http2Limits{paused: func(d time.Duration) { paused += d }}
		conn := &http2Conn{Conn: server, timeout: time.Hour, wire: newWire(), done: make(chan struct{}), usage: newHTTP2Usage(limits, &net.TCPAddr{}), headers: newHeaderPace()}
		go func() { _, _ = io.WriteString(client, "\xff\xff\xff\x01\x04\x00\x00\x00\x01") }()
		began, ended := time.Now(), make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = conn.Read(make([]byte, frameHeaderBytes))
		}()
		synctest.Wait() // in the pause
		if most := time.Duration(maxFrame) * time.Second / headersRate; conn.wait <= 0 || conn.wait > most {
			t.Errorf("the pause is %s, at most %s are left to a frame", conn.wait, most)
		}
		time.Sleep(time.Millisecond)
		_ = conn.Close()
		<-ended
		if took := time.Since(began); took != time.Millisecond || paused != took {
			t.Errorf("the read took %s, and %s are counted", took, paused)
		}
	})
}

func TestSmallHTTP2FramesAndLargeHeadersPause(t *testing.T) {
	const (
		headers = "\x00\x00\x02\x01\x04\x00\x00\x00\x01\x82\x84"
		small   = "\x00\x00\x01\x00\x00\x00\x00\x00\x01x"
		pause   = 4 * time.Millisecond
	)
	block := func(stream byte, kindAndFlags string, length int) string {
		return string([]byte{0, byte(length >> 8), byte(length)}) + kindAndFlags + string([]byte{0, 0, 0, stream}) + strings.Repeat("\x82", length)
	}
	blocks := func(n, length int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = block(byte(2*i+1), "\x01\x04", length)
		}
		return strings.Join(all, "")
	}
	ofHeaders := func(bytes int) time.Duration {
		return time.Duration(bytes-headersBurst) * time.Second / headersRate
	}
	large := "\x00\x01\x00\x00\x00\x00\x00\x00\x01" + strings.Repeat("x", 256)
	for _, c := range []struct {
		name, sent string
		want       time.Duration
	}{
		{"those of a request", headers + strings.Repeat(small, 16), 0},
		{"more", headers + strings.Repeat(small, 16+10*16), 10 * pause},
		{"between large ones", headers + strings.Repeat(small+large, 16+10*16), 10 * pause},
		{"large ones", headers + strings.Repeat(large, 1000), 0},
		{"headers of many requests", blocks(50, 128) + large, 0},
		{"larger ones within the burst", blocks(4, 4096) + large, 0},
		{"larger ones beyond it", blocks(50, 4096) + large, ofHeaders(50 * (4096 - 128))},
		{"headers in parts", block(1, "\x01\x00", 16_384) + block(1, "\x09\x00", 16_384) + block(1, "\x09\x04", 16_384) + large, ofHeaders(3*16_384 - 128)},
		{"trailers", block(1, "\x01\x04", 128) + strings.Repeat(block(1, "\x01\x05", 128), 300) + large, ofHeaders(300 * 128)},
	} {
		synctest.Test(t, func(t *testing.T) {
			limits := &http2Limits{streams: limit.NewSemaphore[netip.Addr](limit.SemaphoreBounds{Slots: 100}), unread: limit.NewQuota[netip.Addr](1 << 30), most: 100}
			client, server := net.Pipe()
			wire := newWire()
			conn := &http2Conn{Conn: server, timeout: time.Hour, wire: wire, done: make(chan struct{}), usage: newHTTP2Usage(limits, &net.TCPAddr{}), headers: newHeaderPace()}
			go func() { _, _ = io.WriteString(client, c.sent) }()
			began := time.Now()
			read := func(n int) {
				t.Helper()
				buffer := make([]byte, frameHeaderBytes) // net/http reads a header, and then a payload
				if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(conn, int64(n)), buffer); err != nil {
					t.Errorf("%s: read %d bytes: %v", c.name, n, err)
				}
			}
			read(len(c.sent))
			go func() { _, _ = io.WriteString(client, strings.Repeat(small, 1000)) }()
			for range 1000 { // each in a TLS record, which is counted instead
				wire.small++
				read(len(small))
			}
			if took := time.Since(began); took.Round(time.Microsecond) != c.want.Round(time.Microsecond) {
				t.Errorf("%s: reading took %s, want %s", c.name, took, c.want)
			}
		})
	}
}
