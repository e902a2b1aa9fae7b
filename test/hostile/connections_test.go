package hostile

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium/test/nodes"
)

// impatient are the lowest timeouts that a server accepts.
var impatient = []string{"--read-header-timeout", "1s", "--read-timeout", "2s", "--write-timeout", "2s", "--idle-timeout", "2s"}

// drip sends a text byte by byte, very slowly. It reports whether the server closed the
// connection.
func (c *conn) drip(text string) (cutOff bool) {
	for deadline := time.Now().Add(exchangeTimeout); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if text == "" {
			return false
		}
		if _, err := io.WriteString(c, text[:1]); err != nil {
			return true
		}
		text = text[1:]
	}
	return false
}

// many calls do concurrently on n connections.
func (s *server) many(t *testing.T, n int, do func(c *conn)) (wait func()) {
	t.Helper()
	var all sync.WaitGroup
	for range n {
		c := s.dial(t)
		all.Go(func() {
			defer c.end()
			do(c)
		})
	}
	return all.Wait
}

func TestSlowSendersAreCutOffAndBlockNobody(t *testing.T) {
	const each = 50
	onEveryEngine(t, func(t *testing.T, s *server) {
		endless := strings.Repeat("x", 10_000)
		s.outlives(t, func() {
			var waits []func()
			for _, head := range []string{ // none gets a response
				"G", s.get("/v0/pages", "X: ")[:100], "GET /" + endless,
			} {
				waits = append(waits, s.many(t, each, func(c *conn) {
					c.send(head)
					if !c.drip(endless) {
						t.Errorf("the head %.40q… is still waited for", head)
					}
				}))
			}
			for name, head := range map[string]string{
				"a body":                    s.head("Content-Length: 5000\r\n\r\n"),
				"a body that nobody reads":  "POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n",
				"a chunk":                   s.head("Transfer-Encoding: chunked\r\n\r\nfff\r\n"),
				"the size of a chunk":       s.head("Transfer-Encoding: chunked\r\n\r\n1;"),
				"a trailer":                 s.head("Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: "),
				"a body that is waited for": s.head("Content-Length: 5000\r\nExpect: 100-continue\r\n\r\n"),
			} {
				waits = append(waits, s.many(t, each, func(c *conn) {
					c.send(head)
					if !c.drip(endless) {
						t.Errorf("%s is still waited for", name)
					}
					if a, err := c.response(http.MethodPost); err == nil && a.status != 100 && (a.status < 400 || a.status >= 500) {
						t.Errorf("%s gets %v", name, a)
					}
				}))
			}
			for range 20 {
				c := s.dial(t)
				c.send(s.post("quick", ""))
				if a := c.must(http.MethodPost); a.status != 201 {
					t.Errorf("another request at that time: %v", a)
				}
				c.end()
			}
			for _, wait := range waits {
				wait()
			}
		})
	}, impatient...)
}

func TestClientsThatDoNotReadAreCutOffWithoutMemoryGrowth(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *server) {
		c := s.dial(t)
		defer c.end()
		body := `{"source":"large","payload":{"s":"` + strings.Repeat("x", 1<<20-100) + `"}}`
		c.send(s.head(fmt.Sprintf("Connection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)))
		a := c.must(http.MethodPost)
		_, id, _ := strings.Cut(a.body, `"accountLogId":"`)
		id, _, _ = strings.Cut(id, `"`)
		payload := "GET /manage/v0/account_logs/" + id + "/payload HTTP/1.1\r\nHost: a\r\nx-api-key: " + s.manage + "\r\n\r\n"
		s.outlives(t, func() {
			wait := s.many(t, 20, func(c *conn) {
				if err := c.SetReadBuffer(4096); err != nil {
					t.Error(err)
				}
				if _, err := io.WriteString(c, strings.Repeat(payload, 20)); err != nil {
					t.Error(err)
				}
				// The server writes until its buffer is full, and then blocks until it
				// closes the connection, which makes a write fail.
				for deadline := time.Now().Add(exchangeTimeout); ; time.Sleep(50 * time.Millisecond) {
					if _, err := io.WriteString(c, "x"); err != nil {
						return
					}
					if time.Now().After(deadline) {
						t.Error("the server is still sending an unread response")
						return
					}
				}
			})
			other := s.dial(t)
			defer other.end()
			other.usable("while clients do not read responses")
			wait()
		})
	}, impatient...)
}

func TestIdleConnectionsDoNotSlowOthersDown(t *testing.T) {
	const (
		idle     = 2000
		requests = 500
		bound    = 2 * time.Second
	)
	onEveryEngine(t, func(t *testing.T, s *server) {
		s.outlives(t, func() {
			before := s.vitals(t)
			conns := make([]*conn, idle)
			for i := range conns {
				conns[i] = s.dial(t)
				defer conns[i].end()
				if i%2 == 0 { // the others send nothing
					conns[i].usable("before it is idle")
				}
			}
			during := s.vitals(t)
			t.Logf("before: %s; with %d idle connections: %s", before, idle, during)
			if during.memory > before.memory+spareMemory {
				t.Errorf("%d idle connections took it from %s to %s", idle, before, during)
			}
			times := make([]time.Duration, requests)
			var all sync.WaitGroup
			const clients = 4
			for client := range clients {
				all.Go(func() {
					c := s.dial(t)
					defer c.end()
					for i := client; i < requests; i += clients {
						begun := time.Now()
						want := 200
						if i%2 == 0 {
							c.send(s.get("/v0/pages", ""))
						} else {
							want = 201
							c.send(s.post("other", ""))
						}
						if a := c.must(http.MethodGet); a.status != want {
							t.Errorf("%v, want %d", a, want)
						}
						times[i] = time.Since(begun)
					}
				})
			}
			all.Wait()
			slices.Sort(times)
			p99 := times[requests*99/100]
			t.Logf("with %d idle connections: p50 %s, p99 %s, of %d requests", idle, times[requests/2], p99, requests)
			if p99 > bound {
				t.Errorf("p99 is %s", p99)
			}
		})
	}, "--idle-timeout", "1m", "--read-header-timeout", "1m", "--read-timeout", "1m")
}

func TestPipelinedRequestsGetOrderedResponses(t *testing.T) {
	const n = 100
	onEveryEngine(t, func(t *testing.T, s *server) {
		var all strings.Builder
		want := make([]int, n)
		for i := range n {
			id := fmt.Sprintf("X-Request-Id: r%d\r\n", i)
			switch i % 5 {
			case 0:
				all.WriteString(s.get("/v0/pages", id))
				want[i] = 200
			case 1:
				all.WriteString(s.post("together", id))
				want[i] = 201
			case 2:
				all.WriteString(s.get("/nowhere", id))
				want[i] = 404
			case 3:
				all.WriteString(s.head(id) + "Content-Length: 2\r\n\r\n{}")
				want[i] = 400
			case 4:
				all.WriteString("POST /v0/account_logs HTTP/1.1\r\nHost: a\r\n" + id + "Content-Length: 5\r\n\r\nGET /")
				want[i] = 401
			}
		}
		c := s.dial(t)
		defer c.end()
		c.send(all.String())
		for i := range n {
			if a, err := c.response(http.MethodGet); err != nil || a.status != want[i] || a.header.Get("X-Request-Id") != fmt.Sprintf("r%d", i) {
				t.Fatalf("response %d: %v %v, want %d", i, a, err, want[i])
			}
		}
		c.usable("after all of them")
		if got := s.stored(t, "together"); got != n/5 {
			t.Errorf("%d entries are stored, want %d", got, n/5)
		}
	})
}

func TestHalfClosedConnectionGetsItsResponse(t *testing.T) {
	const n = 100
	onEveryEngine(t, func(t *testing.T, s *server) {
		for i := range n {
			c := s.dial(t)
			request, want := s.post("half", ""), 201
			if i%2 == 0 {
				request, want = s.get([]string{"/v0/pages", "/readyz"}[i/2%2], ""), 200
			}
			if _, err := io.WriteString(c, request); err != nil {
				t.Fatal(err)
			}
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if a := c.must(http.MethodGet); a.status != want {
				t.Errorf("request %d: %v, want %d", i, a, want)
			}
			c.ended("after the only response")
			c.end()
		}
		if got := s.stored(t, "half"); got != n/2 {
			t.Errorf("%d entries are stored, want %d", got, n/2)
		}
	})
}

func TestBrokenConnectionsLeakNothing(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *server) {
		const (
			each  = 50
			entry = `{"source":"broken","payload":{}}` // complete, except for what should follow
		)
		s.outlives(t, func() {
			for _, sent := range []string{
				"", "GET", s.get("/v0/pages", "")[:60], s.head("Content-Length: 500\r\n\r\n" + entry),
				s.head("Transfer-Encoding: chunked\r\n\r\nff\r\n" + entry), s.head("Transfer-Encoding: chunked\r\n\r\n20\r\n" + entry + "\r\n"), s.head("Content-Length: 500\r\nExpect: 100-continue\r\n\r\n"),
				"POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n{", strings.Repeat(s.get("/v0/pages", ""), 20),
				"POST /manage/v0/import HTTP/1.1\r\nHost: a\r\nx-api-key: " + s.manage + "\r\nContent-Length: 500\r\n\r\n{",
			} {
				n := each
				if strings.Contains(sent, "/manage/") {
					n = 1 // a tenant has at most two streams: this one, and the export below
				}
				s.many(t, n, func(c *conn) {
					if _, err := io.WriteString(c, sent); err != nil && !errors.Is(err, net.ErrClosed) {
						t.Error(err)
					}
					if err := c.SetLinger(0); err != nil { // makes Close reset the connection
						t.Error(err)
					}
				})()
			}
		})
		if n := s.stored(t, "broken"); n != 0 {
			t.Errorf("%d entries are stored", n)
		}
	})
}

func TestEndlessBodiesUseNoMemory(t *testing.T) {
	const (
		clients = 10
		whole   = 64 << 20 // sent by each, more than the network buffers
	)
	// Half of what the clients of a round would send. The race detector multiplies the
	// memory of each byte, but the server needs less than half of this even with it.
	const bound = clients * whole / 2
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat(" ", 64<<10))
	onEveryEngine(t, func(t *testing.T, s *server) {
		before := s.peak(t)
		s.outlives(t, func() {
			for name, head := range map[string]string{
				"an entry":            s.head("Transfer-Encoding: chunked\r\n\r\n"),
				"without a key":       "POST /v0/account_logs HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
				"to nowhere":          "POST /nowhere HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
				"a GET":               s.get("/healthz", "Transfer-Encoding: chunked\r\n"),
				"with another method": strings.Replace(s.head("Transfer-Encoding: chunked\r\n\r\n"), "POST", "DELETE", 1),
			} {
				s.many(t, clients, func(c *conn) {
					sent := make(chan int, 1)
					go func() {
						n, err := io.WriteString(c, head)
						for err == nil && n < whole {
							var more int
							more, err = io.WriteString(c, chunk)
							n += more
						}
						sent <- n
					}()
					if a, err := c.response(http.MethodPost); err == nil && (a.status < 200 || a.status >= 500) {
						t.Errorf("%s: %v", name, a)
					}
					c.end()
					if n := <-sent; n >= whole {
						t.Errorf("%s: the server took %d bytes", name, n)
					}
				})()
			}
		})
		more := s.peak(t) - before
		t.Logf("the server had %d MiB more than before at most", more>>20)
		if more > bound {
			t.Errorf("that is above %d MiB", bound>>20)
		}
	})
}

func Test100ContinueIsSentOnlyIfTheBodyIsNeeded(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *server) {
		const body = `{"source":"expected","payload":{}}`
		expect := fmt.Sprintf("Expect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
		c := s.dial(t)
		defer c.end()
		c.send(s.head(expect))
		nodes.Until(t, "the server to ask for the body", exchangeTimeout, func() bool {
			line, err := c.in.ReadString('\n')
			return err != nil || line == "HTTP/1.1 100 Continue\r\n"
		})
		if line, err := c.in.ReadString('\n'); line != "\r\n" {
			t.Fatalf("unexpected line %q, %v", line, err)
		}
		c.send(body)
		if a := c.must(http.MethodPost); a.status != 201 {
			t.Error(a)
		}
		c.usable("after a body that was waited for")
		for name, refused := range map[string]struct {
			head   string
			status int
		}{
			"no key":     {"POST /v0/account_logs HTTP/1.1\r\nHost: a\r\n" + expect, 401},
			"nowhere":    {"POST /nowhere HTTP/1.1\r\nHost: a\r\n" + expect, 404},
			"too large":  {s.head("Expect: 100-continue\r\nContent-Length: 1048577\r\n\r\n"), 413},
			"compressed": {s.head("Content-Encoding: gzip\r\n" + expect), 415},
		} {
			c := s.dial(t)
			c.send(refused.head)
			if a := c.must(http.MethodPost); a.status != refused.status {
				t.Errorf("%s: %v, want %d", name, a, refused.status)
			}
			c.send(s.post("smuggled", "")) // instead of the body
			c.ended(name)
			c.end()
		}
		if n := s.stored(t, "smuggled"); n != 0 {
			t.Errorf("%d requests were smuggled", n)
		}
	})
}
