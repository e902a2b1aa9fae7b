// Package cutproxy stands between Atrium and PostgreSQL for tests, and cuts the
// connections of what they choose.
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

// A Proxy stands between Atrium and PostgreSQL. It knows as much of the protocol
// (PostgreSQL documentation, chapter 55) as it needs to choose what becomes of the
// statements that Atrium sends together, and of the connection that they came on.
type Proxy struct {
	listener net.Listener
	to       string
	running  sync.WaitGroup
	silenced atomic.Int64 // how many connections were silenced at once; those before it are

	mu     sync.Mutex
	closed bool                                 // guarded by mu
	conns  map[net.Conn]int64                   // guarded by mu; with their numbers
	number int64                                // guarded by mu; of connections so far
	choose func(query, transaction string) Fate // guarded by mu; nil passes all
	fates  map[Fate]int                         // guarded by mu; how often each was chosen
}

// A Fate is what becomes of a query, and of those that are sent together with it.
type Fate string

// What may become of a query.
const (
	Passes     Fate = "passes"
	Unanswered Fate = "unanswered" // it reaches the database, and the connection is cut before its answer
	Lost       Fate = "lost"       // the connection is cut before it reaches the database
	Late       Fate = "late"       // the connection is cut, and after a while it reaches the database
	Silent     Fate = "silent"     // neither it nor anything that follows on the connection reaches anybody
)

// New returns a Proxy and the URL that leads through it to the database.
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

// close ends all connections.
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

// keep makes close end a connection, and returns its number and what forgets it.
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

// Rule sets what chooses the fate of the queries that follow. It is given the query
// and the text of all statements that came before it in its transaction.
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

// Count returns how often a fate was chosen.
func (p *Proxy) Count(f Fate) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fates[f]
}

// Silence makes the network drop whatever is sent on the connections that there
// are. New ones work.
func (p *Proxy) Silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silenced.Store(p.number)
}

// MaxLate is how late a late query is at most: longer than whoever waits for its locks
// does with a time-out of 2 s, and than the server waits for a transaction to go on.
const MaxLate = 5 * time.Second

// Wake ends the connections that were silenced, and lets the database know.
func (p *Proxy) Wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, number := range p.conns {
		if number <= p.silenced.Load() {
			_ = c.Close()
		}
	}
}

// serve carries a connection.
func (p *Proxy) serve(client net.Conn) {
	_, drop := p.keep(client)
	defer drop()
	db, err := net.Dial("tcp", p.to)
	if err != nil {
		return // as if it had been refused
	}
	number, dropDB := p.keep(db)
	defer dropDB()
	dropped := func() bool { return number <= p.silenced.Load() }

	var cut atomic.Bool // the next answer ends the connection instead
	answered := make(chan struct{})
	p.running.Go(func() {
		defer close(answered)
		buffer := make([]byte, 32<<10)
		for {
			n, err := db.Read(buffer)
			if dropped() {
				n = 0 // not even the end is heard of
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
	statements := map[string]string{} // by their names
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
				dropDB() // it holds nothing that the test is about
			}
			_, _ = io.Copy(io.Discard, in)
			return
		}
	}
}

// readTogether reads what a client sends before it waits for an answer, and the
// queries in it. A statement that is prepared in it is noted under its name.
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
		case 'Q': // a query, whole
			return all, append(queries, texts[0]), nil
		case 'P': // a statement is prepared: its name and its text
			statements[texts[0]] = texts[1]
		case 'B': // it is given its arguments: the name of that, and its own
			queries = append(queries, statements[texts[1]])
		case 'D', 'E', 'C', 'H': // more about it
		default: // among others S, where the server answers
			return all, queries, nil
		}
	}
}

// readMessage reads a whole message of a client, whose first has no kind.
func readMessage(in *bufio.Reader, first bool) (kind byte, message []byte, err error) {
	head := 5
	if first {
		head = 4
	}
	message = make([]byte, head)
	if _, err := io.ReadFull(in, message); err != nil {
		return 0, nil, err
	}
	length := int(binary.BigEndian.Uint32(message[head-4:])) // with its own four bytes
	message = append(message, make([]byte, max(length-4, 0))...)
	_, err = io.ReadFull(in, message[head:])
	return message[0], message, err
}
