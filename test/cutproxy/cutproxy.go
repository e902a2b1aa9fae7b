// Package cutproxy is a proxy between Atrium and PostgreSQL for tests. It cuts connections
// at chosen queries.
package cutproxy

import (
	"bufio"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Proxy is a proxy between Atrium and PostgreSQL. It parses as much of the protocol
// (PostgreSQL documentation, chapter 55) as it needs to find the queries that Atrium sends
// in one pipeline, and to decide the fate of their connection.
type Proxy struct {
	listener net.Listener
	to       string
	running  sync.WaitGroup
	silenced atomic.Int64 // connections up to this number are silenced

	mu     sync.Mutex
	closed bool                                 // guarded by mu
	conns  map[net.Conn]int64                   // guarded by mu; with their numbers
	number int64                                // guarded by mu; of the newest connection
	choose func(query, transaction string) Fate // guarded by mu; nil passes everything
	fates  map[Fate]int                         // guarded by mu; how many times each was chosen
}

// A Fate decides what happens to a query and to those in the same pipeline.
type Fate string

// The fates of a query.
const (
	Passes     Fate = "passes"
	Unanswered Fate = "unanswered" // it reaches the database, but the connection is cut before the response
	Lost       Fate = "lost"       // the connection is cut before it reaches the database
	Late       Fate = "late"       // the connection is cut, and it reaches the database later
	Silent     Fate = "silent"     // from this query on, nothing gets through in either direction
)

// New returns a Proxy and the URL of the database through it.
func New(tb testing.TB, database string) (p *Proxy, through string) {
	tb.Helper()
	u, err := url.Parse(database)
	if err != nil {
		tb.Fatal(err)
	}
	p = &Proxy{to: u.Host, conns: map[net.Conn]int64{}, fates: map[Fate]int{}}
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		tb.Fatal(err)
	}
	p.running.Go(p.accept)
	tb.Cleanup(p.close)
	u.Host = p.listener.Addr().String()
	return p, u.String()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// close closes all connections.
func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// keep registers a connection for close, and returns its number and a function that
// unregisters it.
func (p *Proxy) keep(c net.Conn) (number int64, drop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.number++
	p.conns[c] = p.number
	if p.closed {
		_ = c.Close()
	}
	return p.number, func() {
		_ = c.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, c)
	}
}

// Rule sets the function that chooses the fate of later queries. It gets the query and the
// text of all earlier statements in its transaction.
func (p *Proxy) Rule(choose func(query, transaction string) Fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.choose = choose
}

func (p *Proxy) fateOf(query, transaction string) Fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := Passes
	if p.choose != nil {
		f = p.choose(query, transaction)
	}
	p.fates[f]++
	return f
}

// Count returns how many times a fate was chosen.
func (p *Proxy) Count(f Fate) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fates[f]
}

// Silence drops all traffic on the existing connections. New ones work.
func (p *Proxy) Silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silenced.Store(p.number)
}

// Replaced reports whether a connection was opened after the last Silence.
func (p *Proxy) Replaced() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.number > p.silenced.Load()
}

// MaxLate is the maximum delay of a late query. It exceeds the 2 s timeout for its locks
// and the time that the server waits for an idle transaction.
const MaxLate = 5 * time.Second

// Wake closes the silenced connections, and tells the database.
func (p *Proxy) Wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, number := range p.conns {
		if number <= p.silenced.Load() {
			_ = c.Close()
		}
	}
}

// serve proxies a connection.
func (p *Proxy) serve(client net.Conn) {
	_, drop := p.keep(client)
	defer drop()
	db, err := net.Dial("tcp", p.to)
	if err != nil {
		return // looks like a refused connection
	}
	number, dropDB := p.keep(db)
	defer dropDB()
	dropped := func() bool { return number <= p.silenced.Load() }

	var cut atomic.Bool // close the connection instead of forwarding the next response
	answered := make(chan struct{})
	p.running.Go(func() {
		defer close(answered)
		buffer := make([]byte, 32<<10)
		for {
			n, err := db.Read(buffer)
			if dropped() {
				n = 0 // not even the end of the connection gets through
			} else if err != nil || cut.Load() {
				_ = client.Close()
				return
			}
			if err != nil {
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	})

	in := bufio.NewReader(client)
	statements := map[string]string{} // by name
	var transaction strings.Builder
	for first := true; ; first = false {
		message, queries, err := readTogether(in, first, statements)
		if err != nil {
			return
		}
		f := Passes
		if dropped() {
			f = Silent
		}
		for _, query := range queries {
			if strings.HasPrefix(query, "BEGIN") {
				transaction.Reset()
			}
			if f == Passes {
				f = p.fateOf(query, transaction.String())
			}
			transaction.WriteString(query)
		}
		switch f {
		case Passes:
			if _, err := db.Write(message); err != nil {
				return
			}
		case Unanswered:
			cut.Store(true)
			_, _ = db.Write(message)
			<-answered
			return
		case Lost:
			return
		case Late:
			cut.Store(true)
			_ = client.Close()
			time.Sleep(rand.N(MaxLate))
			_, _ = db.Write(message)
			<-answered
			return
		case Silent:
			if !dropped() {
				dropDB() // the database side matters no longer
			}
			_, _ = io.Copy(io.Discard, in)
			return
		}
	}
}

// readTogether reads everything that a client sends before it waits for a response, and
// the queries in it. It records prepared statements by name.
func readTogether(in *bufio.Reader, first bool, statements map[string]string) (all []byte, queries []string, err error) {
	for {
		kind, message, err := readMessage(in, first)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, message...)
		if first {
			return all, nil, nil
		}
		texts := strings.Split(string(message[5:]), "\x00")
		switch kind {
		case 'Q': // simple query
			return all, append(queries, texts[0]), nil
		case 'P': // Parse: statement name and text
			statements[texts[0]] = texts[1]
		case 'B': // Bind: portal name and statement name
			queries = append(queries, statements[texts[1]])
		case 'D', 'E', 'C', 'H': // Describe, Execute, Close, Flush
		default: // including Sync, to which the server responds
			return all, queries, nil
		}
	}
}

// readMessage reads a complete message of a client. The first one has no type byte.
func readMessage(in *bufio.Reader, first bool) (kind byte, message []byte, err error) {
	head := 5
	if first {
		head = 4
	}
	message = make([]byte, head)
	if _, err := io.ReadFull(in, message); err != nil {
		return 0, nil, err
	}
	length := int(binary.BigEndian.Uint32(message[head-4:])) // including its own four bytes
	message = append(message, make([]byte, max(length-4, 0))...)
	_, err = io.ReadFull(in, message[head:])
	return message[0], message, err
}
