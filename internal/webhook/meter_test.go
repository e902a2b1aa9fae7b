package webhook

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"atrium/internal/tlstest"
)

// A TLS record with one byte of data has 21 bytes more, as one with a KeyUpdate has.
func TestBytesOfTLSCountAsReceived(t *testing.T) {
	now := time.Now()
	certificate, trusted := certificateFor(t, "good.example", now.Add(-time.Hour), now.Add(time.Hour))
	resolver := newDNS(t, func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
	for name, c := range map[string]struct {
		head    string
		result  Result
		failure Failure
	}{
		"in the body":    {"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n", Succeeded, NoFailure},
		"in the headers": {"HTTP/1.1 200 OK\r\nX: ", Retry, Protocol},
	} {
		url := listen(t, func(plain net.Conn) {
			conn := tls.Server(plain, &tls.Config{Certificates: []tls.Certificate{certificate}})
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, c.head)
			write(conn, "a")
		})
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
		a := newTestSender(t, Config{Allow: loopback, Resolver: resolver, RootCAs: trusted}).Send(t.Context(), endpoint("https://good.example:"+port), message, now)
		if a.Result != c.result || a.Failure != c.failure || a.Received < maxReceived || a.Received >= maxReceived+minRead {
			t.Errorf("%s: %d bytes were received: %+v", name, a.Received, a)
		}
	}
}

// An endpoint may request a key update now and then, not all the time: each reply takes longer than the request.
func TestTooManyKeyUpdateRequestsOfAnEndpointCloseTheConnection(t *testing.T) {
	now := time.Now()
	certificate, trusted := certificateFor(t, "good.example", now.Add(-time.Hour), now.Add(time.Hour))
	resolver := newDNS(t, func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
	for updates, result := range map[int]Result{maxKeyUpdates: Succeeded, maxKeyUpdates + 1: Retry} {
		url := listen(t, func(plain net.Conn) {
			keys := &tlstest.KeyLog{}
			conn := tls.Server(plain, &tls.Config{Certificates: []tls.Certificate{certificate}, KeyLogWriter: keys, SessionTicketsDisabled: true})
			_, _ = conn.Read(make([]byte, 4096))
			records, err := keys.Records(tlstest.ServerSecret, 0, conn.ConnectionState())
			for i := 0; err == nil && i < updates; i++ {
				var update []byte
				data := records.Data([]byte("HTTP/1.1 200 OK\r\nX-Long: a"[i : i+1]))
				if update, err = records.KeyUpdate(); err == nil {
					_, err = plain.Write(append(data, update...))
				}
			}
			if err == nil {
				_, err = plain.Write(records.Data([]byte("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"[updates:])))
			}
			_, _ = io.Copy(io.Discard, plain) // until the sender closes the connection
			if err != nil && result == Succeeded {
				t.Error(err)
			}
		})
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
		a := newTestSender(t, Config{Allow: loopback, Resolver: resolver, RootCAs: trusted}).Send(t.Context(), endpoint("https://good.example:"+port), message, now)
		if a.Result != result {
			t.Errorf("%d key update requests: %+v", updates, a)
		}
	}
}

func TestEachReadCountsAsReceived(t *testing.T) {
	client, server := net.Pipe()
	defer func() { _ = client.Close() }()
	go func() {
		for {
			if _, err := server.Write([]byte("a")); err != nil {
				return
			}
		}
	}()
	m := newMeter(client, maxIdle)
	reads := 0
	var err error
	for ; err == nil; reads++ {
		_, err = m.Read(make([]byte, 4096))
	}
	if reads != maxIdle/minRead+1 || !errors.Is(err, errReceived) {
		t.Errorf("%d reads: %v", reads, err)
	}
}

func TestResponsesAreCountedOneByOne(t *testing.T) {
	sizes := []int{10, 40_000, 60_000, 60_000, 1} // more than maxReceived together
	n := 0
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, sizes[n]))
		n++
	})
	s := newTestSender(t, Config{Allow: loopback})
	for _, size := range sizes {
		if a := s.Send(t.Context(), endpoint(url), message, time.Now()); a.Result != Succeeded || a.Received < int64(size) || a.Received > int64(size)+1000 {
			t.Errorf("of a response with a body of %d bytes, %d were received: %+v", size, a.Received, a)
		}
	}
}

func TestIdleConnectionIsLimited(t *testing.T) {
	client, server := net.Pipe()
	defer func() { _ = client.Close() }()
	go func() {
		write(server, strings.Repeat("a", 1000))
		_ = server.Close()
	}()
	m := newMeter(client, maxHandshake)
	first, _ := m.begin()
	second, before := m.begin()
	_ = m.end(first) // late: the second one has begun
	if _, err := io.ReadFull(m, make([]byte, maxIdle+1)); err != nil {
		t.Fatalf("a response cannot be read: %v", err)
	}
	if n := m.end(second) - before; n != maxIdle+1 {
		t.Errorf("%d bytes were received, want %d", n, maxIdle+1)
	}
	if n, err := io.Copy(io.Discard, m); n != maxIdle || !errors.Is(err, errReceived) {
		t.Errorf("after the response, %d bytes can be read (%v), want %d", n, err, maxIdle)
	}
}

// Tenants can have webhooks at the same host.
func TestSlowResponsesOfAHostLeaveConnectionsForOthers(t *testing.T) {
	const slow = 200
	arrived, ended, served := make(chan struct{}, slow), make(chan Attempt, slow), make(chan struct{})
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			<-served
		}
	})
	defer close(served)
	s := newTestSender(t, Config{Allow: loopback})
	for range slow {
		go func() { ended <- s.Send(t.Context(), endpoint(url+"/slow"), message, time.Now()) }()
	}
	for range slow {
		select {
		case <-arrived:
		case a := <-ended:
			t.Fatalf("a request did not arrive: %+v", a)
		}
	}
	if a := s.Send(t.Context(), endpoint(url+"/fast"), message, time.Now()); a.Result != Succeeded {
		t.Errorf("%+v", a)
	}
}
