package app

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// The rules of this file.
//
// net/http applies ReadHeaderTimeout to HTTP/1.1 only. An HTTP/2 client that begins a header
// block (RFC 9113, section 4.3) and does not end it keeps its connection until IdleTimeout.
// SendPingTimeout is no remedy: it also closes connections whose clients are merely slow to
// send, or wait for the source of an upload.
//
// So the frames are watched as they are read, between TLS and HTTP/2. The server of the API
// still makes the TLS connections, and hands those with HTTP/2 over through TLSNextProto to
// a second server, which takes them for unencrypted.

// An http2Server serves the connections of another server that have negotiated HTTP/2. It is
// the listener of its own server.
type http2Server struct {
	server *http.Server
	addr   net.Addr
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// newHTTP2Server takes over HTTP/2 from main. Its own server has the same handler and limits,
// and stops with main.
func newHTTP2Server(main *http.Server, addr net.Addr, config *http.HTTP2Config) *http2Server {
	s := &http2Server{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
	s.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.TLS, _ = r.Context().Value(tlsStateKey{}).(*tls.ConnectionState)
			main.Handler.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout:            main.ReadHeaderTimeout,
		ReadTimeout:                  main.ReadTimeout,
		WriteTimeout:                 main.WriteTimeout,
		IdleTimeout:                  main.IdleTimeout,
		MaxHeaderBytes:               main.MaxHeaderBytes,
		DisableGeneralOptionsHandler: main.DisableGeneralOptionsHandler,
		ErrorLog:                     main.ErrorLog,
		HTTP2:                        config,
		Protocols:                    new(http.Protocols),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, tlsStateKey{}, c.(*http2Conn).state)
		},
	}
	s.server.Protocols.SetUnencryptedHTTP2(true)
	main.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) {
			state := c.ConnectionState()
			s.handOver(c, &state)
		},
	}
	main.RegisterOnShutdown(func() { _ = s.server.Shutdown(context.Background()) }) // main waits for the connections
	return s
}

type tlsStateKey struct{}

// handOver returns when the connection is closed.
func (s *http2Server) handOver(c net.Conn, state *tls.ConnectionState) {
	conn := &http2Conn{
		Conn: c, state: state, timeout: s.server.ReadHeaderTimeout, done: make(chan struct{}),
		frames: frameScanner{skip: prefaceBytes},
	}
	select {
	case s.conns <- conn:
		<-conn.done
	case <-s.closed:
	}
}

func (s *http2Server) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *http2Server) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func (s *http2Server) Addr() net.Addr { return s.addr }

// An http2Conn is a connection whose header blocks must end in time. It hides that it is one
// with TLS, which net/http would not serve here.
type http2Conn struct {
	net.Conn
	state   *tls.ConnectionState
	timeout time.Duration // from the beginning of a header block to its end
	once    sync.Once
	done    chan struct{} // closed when the connection is

	frames frameScanner // of the reader
}

func (c *http2Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	before := c.frames.inHeaders
	c.frames.scan(b[:n])
	if c.frames.inHeaders == before {
		return n, err
	}
	deadline := time.Time{} // net/http has none while it serves HTTP/2
	if c.frames.inHeaders {
		deadline = time.Now().Add(c.timeout)
	}
	if e := c.SetReadDeadline(deadline); err == nil {
		err = e
	}
	return n, err
}

func (c *http2Conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.done) })
	return err
}

// Constants of RFC 9113, sections 3.4, 4.1, 6.2 and 6.10.
const (
	prefaceBytes     = 24 // that a client sends before its first frame
	frameHeaderBytes = 9
	typeHeaders      = 0x1
	typeContinuation = 0x9
	flagEndOfHeaders = 0x4 // of both types
)

// A frameScanner finds the header blocks in what an HTTP/2 client sends.
type frameScanner struct {
	inHeaders bool // a header block has begun and has not ended

	skip   int  // bytes of the preface or of a frame's payload that are still to come
	last   bool // the header block ends with this payload
	header [frameHeaderBytes]byte
	have   int // bytes in header, of the next frame
}

func (s *frameScanner) scan(b []byte) {
	for len(b) > 0 {
		if s.skip > 0 {
			n := min(s.skip, len(b))
			s.skip, b = s.skip-n, b[n:]
		} else {
			n := copy(s.header[s.have:], b)
			s.have, b = s.have+n, b[n:]
			if s.have < frameHeaderBytes {
				return
			}
			s.begin()
		}
		if s.skip == 0 && s.last {
			s.inHeaders, s.last = false, false
		}
	}
}

// begin takes the header of a frame, which is whole.
func (s *frameScanner) begin() {
	s.have = 0
	s.skip = int(s.header[0])<<16 | int(s.header[1])<<8 | int(s.header[2])
	if kind := s.header[3]; kind == typeHeaders || kind == typeContinuation {
		s.inHeaders, s.last = true, s.header[4]&flagEndOfHeaders != 0
	}
}
