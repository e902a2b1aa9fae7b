package app

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"net"
	"net/http"
	"sync"
	"time"

	"atrium/internal/limit"
)

// net/http applies ReadHeaderTimeout to HTTP/1.1 only. An HTTP/2 client that begins a header
// block (RFC 9113, section 4.3) and does not end it keeps its connection until IdleTimeout.
// SendPingTimeout does not help: it also closes connections of clients that only send slowly or
// wait for the source of an upload.
//
// Nor does net/http limit the total of open streams, with their headers and unread responses,
// and of bodies that no handler reads.
//
// This file therefore inspects the frames between TLS and HTTP/2. The server of the API makes
// the TLS connections and passes those with HTTP/2 through TLSNextProto to a second server,
// which treats them as unencrypted.

// An http2Server serves the connections of another server that have negotiated HTTP/2. It is
// also the listener of its http.Server.
type http2Server struct {
	server *http.Server
	limits http2Limits
	addr   net.Addr
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// newHTTP2Server takes over HTTP/2 from main. Its own server has the same handler and limits,
// and stops with main.
func newHTTP2Server(main *http.Server, addr net.Addr, config *http.HTTP2Config, limits http2Limits) *http2Server {
	s := &http2Server{addr: addr, limits: limits, conns: make(chan net.Conn), closed: make(chan struct{})}
	s.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c := r.Context().Value(http2ConnKey{}).(*http2Conn)
			r.TLS = c.state
			defer c.usage.begin()()
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
			return context.WithValue(ctx, http2ConnKey{}, c)
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

type http2ConnKey struct{}

// handOver returns when the connection is closed.
func (s *http2Server) handOver(c net.Conn, state *tls.ConnectionState) {
	conn := &http2Conn{
		Conn: c, state: state, timeout: s.server.ReadHeaderTimeout, done: make(chan struct{}),
		read:  frameScanner{skip: prefaceBytes},
		usage: newHTTP2Usage(&s.limits, c.RemoteAddr()), wire: uncounted{},
		headers: newHeaderPace(),
	}
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		if below, ok := secure.NetConn().(transport); ok {
			conn.wire, conn.matched = below, below.SmallRecords()
		}
	}
	defer conn.usage.end()
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

// An http2Conn is a connection with a timeout for header blocks, whose streams and bodies are
// counted. It does not show that it uses TLS, because net/http would not serve it here.
type http2Conn struct {
	net.Conn
	state   *tls.ConnectionState
	timeout time.Duration // from the beginning of a header block to its end
	once    sync.Once
	done    chan struct{} // closed when the connection is

	read  frameScanner // of the reader
	wrote frameScanner // of the writer
	usage *http2Usage

	// Of the reader.
	parts   limit.Parts
	matched int           // small TLS records of which a small frame was not counted again
	last    uint32        // the highest stream that has begun
	usual   int           // bytes of free headers that are left to it
	headers headerPace    // of other bytes of header blocks
	wait    time.Duration // before Read returns

	wire transport
}

// A transport is the connection below TLS: that of a *limit.Listener.
type transport interface {
	// SmallRecords returns how many small TLS records have arrived.
	SmallRecords() int

	// AllowRecords allows the small TLS records of another request.
	AllowRecords()

	// OfProxy reports whether a trusted proxy has made the connection.
	OfProxy() bool

	// Spend spends n bytes of the Pace of the client, and returns how long the connection has to wait.
	Spend(n int) time.Duration
}

type uncounted struct{}

func (uncounted) SmallRecords() int { return 0 }

func (uncounted) AllowRecords() {}

func (uncounted) OfProxy() bool { return false }

func (uncounted) Spend(int) time.Duration { return 0 }

const (
	// usualContent is the content in bytes from which a DATA frame is not small.
	usualContent = 256

	// Decoding a header block takes longer than other bytes (RFC 7541): a byte can be a field. net/http
	// also decodes blocks that it then refuses. usualHeaders bytes of each request are free.
	usualHeaders = 128
)

// A headerPace limits the bytes of header blocks that a connection sends beyond the free ones.
type headerPace struct {
	all limit.Pace

	// The connections of a client also share a Pace. A connection within few skips it, so it never waits for other
	// connections.
	few limit.Pace
}

const (
	headersRate  = 256 << 10
	headersBurst = 16 << 10

	fewHeadersRate  = 128
	fewHeadersBurst = 4 << 10
	fewHeadersReset = time.Minute // without large header blocks, after which a connection is within few again

	clientHeadersRate  = 1 << 20
	clientHeadersBurst = 64 << 10
)

func newHeaderPace() headerPace {
	return headerPace{limit.NewPace(headersRate, headersBurst), limit.NewPace(fewHeadersRate, fewHeadersBurst)}
}

// spend counts n bytes on a connection, and returns how long it has to wait.
func (p *headerPace) spend(n int, wire transport) time.Duration {
	if n == 0 || wire.OfProxy() {
		return 0
	}
	wait := p.all.Spend(n)
	if p.few.Spend(n) > 0 {
		p.few.Forget(fewHeadersReset)
		wait = max(wait, wire.Spend(n))
	}
	return wait
}

func (c *http2Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	before := c.read.inHeaders
	if e := c.read.scan(b[:n], c.received); e != nil {
		return 0, e // net/http closes the connection
	}
	c.parts.Pause()
	if c.wait > 0 {
		began := time.Now()
		timer := time.NewTimer(c.wait)
		select {
		case <-timer.C:
		case <-c.done:
		}
		timer.Stop()
		if paused := c.usage.limits.paused; paused != nil {
			paused(time.Since(began))
		}
		c.wait = 0
	}
	if c.read.inHeaders == before {
		return n, err
	}
	deadline := time.Time{} // net/http has none while it serves HTTP/2
	if c.read.inHeaders {
		deadline = time.Now().Add(c.timeout)
	}
	if e := c.SetReadDeadline(deadline); err == nil {
		err = e
	}
	return n, err
}

// received counts a frame of the client. Its error closes the connection.
func (c *http2Conn) received(f frame) error {
	switch {
	case f.kind == typeHeaders, f.kind == typeContinuation:
		if f.kind == typeHeaders && f.stream > c.last { // not trailers
			c.last, c.usual = f.stream, usualHeaders
			c.parts.Allow(1)
			c.wire.AllowRecords()
		}
		length := min(f.length, maxFrame) // net/http refuses a longer frame
		free := min(c.usual, length)
		c.usual -= free
		c.wait = max(c.wait, c.headers.spend(length-free, c.wire))
	case f.kind == typeData && f.content() < usualContent:
		if c.wire.SmallRecords() > c.matched {
			c.matched++ // its record is counted
		} else {
			c.parts.Add(1)
		}
	}
	return c.usage.received(f)
}

func (c *http2Conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if e := c.wrote.scan(b[:n], c.sent); err == nil {
		err = e
	}
	return n, err
}

// sent counts a frame of the server. A client sends window updates for those with content.
func (c *http2Conn) sent(f frame) error {
	if f.kind == typeData {
		c.wire.AllowRecords()
	}
	return c.usage.sent(f)
}

func (c *http2Conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.done) })
	return err
}

// Constants of RFC 9113, sections 3.4, 4.1, 6, 6.1 and 6.9.2.
const (
	prefaceBytes     = 24 // that a client sends before its first frame
	frameHeaderBytes = 9
	incrementBytes   = 4 // the payload of a WINDOW_UPDATE
	paddingBytes     = 1 // the length of the padding, at the beginning of a padded DATA
	firstWindow      = 65_535

	typeData         = 0x0
	typeHeaders      = 0x1
	typeReset        = 0x3
	typeWindowUpdate = 0x8
	typeContinuation = 0x9
	flagEndOfStream  = 0x1 // of DATA and HEADERS
	flagEndOfHeaders = 0x4 // of HEADERS and CONTINUATION
	flagPadded       = 0x8 // of DATA and HEADERS
)

// A frame has the fields of an HTTP/2 frame that are counted.
type frame struct {
	kind, flags byte
	stream      uint32
	length      int // of the payload
	increment   int // of a WINDOW_UPDATE
	padding     int // bytes of a DATA frame that are not content
}

// content returns the length of the content of a DATA frame.
func (f frame) content() int { return max(0, f.length-f.padding) }

// fields returns how many bytes at the beginning of the payload the frame has fields of.
func (f frame) fields() int {
	switch {
	case f.kind == typeWindowUpdate && f.length == incrementBytes:
		return incrementBytes
	case f.kind == typeData && f.flags&flagPadded != 0 && f.length >= paddingBytes:
		return paddingBytes
	}
	return 0
}

// A frameScanner finds the frames in the bytes of one direction of an HTTP/2 connection.
type frameScanner struct {
	inHeaders bool // a header block has begun and has not ended

	skip   int  // bytes of the preface or of a frame's payload that are still to come
	last   bool // the header block ends with this payload
	header [frameHeaderBytes + incrementBytes]byte
	have   int // bytes in header, of the next frame
}

// scan calls each for every frame whose header ends in b, until each returns an error.
func (s *frameScanner) scan(b []byte, each func(frame) error) error {
	for len(b) > 0 {
		if s.skip > 0 {
			n := min(s.skip, len(b))
			s.skip, b = s.skip-n, b[n:]
		} else {
			need := frameHeaderBytes
			if s.have >= need { // the payload follows
				need += s.frame().fields()
			}
			n := copy(s.header[s.have:need], b)
			s.have, b = s.have+n, b[n:]
			if s.have < need {
				return nil
			}
			if f := s.frame(); s.have == frameHeaderBytes+f.fields() {
				if err := s.begin(f, each); err != nil {
					return err
				}
			}
		}
		if s.skip == 0 && s.last {
			s.inHeaders, s.last = false, false
		}
	}
	return nil
}

// frame decodes the header that was read, and the fields of the payload if they were.
func (s *frameScanner) frame() frame {
	f := frame{
		kind: s.header[3], flags: s.header[4], stream: binary.BigEndian.Uint32(s.header[5:]) &^ (1 << 31),
		length: int(s.header[0])<<16 | int(s.header[1])<<8 | int(s.header[2]),
	}
	switch f.fields() {
	case incrementBytes:
		f.increment = int(binary.BigEndian.Uint32(s.header[frameHeaderBytes:]) &^ (1 << 31))
	case paddingBytes:
		f.padding = paddingBytes + int(s.header[frameHeaderBytes])
	}
	return f
}

func (s *frameScanner) begin(f frame, each func(frame) error) error {
	s.skip = f.length - (s.have - frameHeaderBytes)
	s.have = 0
	if f.kind == typeHeaders || f.kind == typeContinuation {
		s.inHeaders, s.last = true, f.flags&flagEndOfHeaders != 0
	}
	return each(f)
}
