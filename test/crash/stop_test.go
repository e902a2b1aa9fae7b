package crash

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"atrium/internal/store/engine/postgrestest"
)

var stopping = regexp.MustCompile(`msg="stopping: `)

// A stopping server responds to every request that it accepted: no entry is stored without
// an acknowledgement, and none is lost.
func TestStopRespondsToAcceptedRequests(t *testing.T) {
	for name, newDatabase := range engines {
		t.Run(name, func(t *testing.T) { stopUnderLoad(t, newDatabase(t)) })
	}
}

func stopUnderLoad(t *testing.T, db *database) {
	rng := random(t)
	clients, l := newClients(t, rng, clientCount, db.tenants)
	lost := 0
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGTERM} {
		s := start(t, db.url)
		wait := load(t.Context(), clients, s.base)
		slow := openPosting(t, s, db.tenants[0])
		time.Sleep(time.Duration(rng.IntN(int(200 * time.Millisecond))))
		s.signal(sig)
		s.waitLog(stopping)
		slow.finish()
		if code := s.wait().ExitCode(); code != 0 {
			t.Errorf("after %s: exit code %d", sig, code)
		}
		wait()
		l.ended()
		s.checkLog()
		l.posted(slow.posting)

		stored := db.read(t)
		entries := 0
		for _, c := range stored {
			entries += len(c.entries)
		}
		v := l.audit(stored, forever)
		if entries != l.acks() {
			v.fault("after %s: %d entries, acknowledged %d", sig, entries, l.acks())
		}
		lost += v.lost
		if v.report(t); t.Failed() {
			return
		}
	}
	f := l.figures
	t.Logf("stopped 3 times: sent %d, acknowledged %d, not accepted %d, lost %d", f.sent, f.acknowledged, f.unanswered, lost)
}

// A second signal stops the service immediately.
func TestSecondSignalStopsTheServerImmediately(t *testing.T) {
	for _, second := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(second.String(), func(t *testing.T) {
			db := newFile(t)
			s := start(t, db.url)
			openPosting(t, s, db.tenants[0]) // never finished, so the server waits
			s.signal(syscall.SIGTERM)
			s.waitLog(stopping)
			s.signalUntilEnded(second)
			// A server that kept waiting would end with an exit code.
			if status := s.wait().Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != second {
				t.Errorf("the server ended with %s", s.cmd.ProcessState)
			}
			db.read(t)
		})
	}
}

// A client that never finishes its request does not prevent the stop. The log says that it
// was not graceful.
func TestStopHasATimeoutForClients(t *testing.T) {
	t.Parallel() // it mostly waits
	db := newFile(t)
	s := start(t, db.url)
	openPosting(t, s, db.tenants[0])
	s.signal(syscall.SIGTERM)
	if code := s.wait().ExitCode(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	db.read(t)
}

// A halfPosting is a request with an incomplete body, which the server has begun to read.
type halfPosting struct {
	t       *testing.T
	posting *posting
	conn    net.Conn
	in      *bufio.Reader
	rest    []byte
}

func openPosting(t *testing.T, s *server, to *tenant) *halfPosting {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	p := &posting{tenant: to, source: "slow", marker: "slow-" + s.base}
	p.data = fmt.Sprintf(`{"marker":%q}`, p.marker)
	p.body = p.encode(p.data)
	_, err = fmt.Fprintf(conn, "POST /v0/account_logs HTTP/1.1\r\nHost: atrium\r\nx-api-key: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		to.key, len(p.body))
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != http.StatusContinue {
		t.Fatalf("the server did not ask for the body: %v, %v", res, err)
	}
	if _, err := conn.Write(p.body[:10]); err != nil {
		t.Fatal(err)
	}
	return &halfPosting{t, p, conn, in, p.body[10:]}
}

// finish sends the rest of the request and reads the response.
func (h *halfPosting) finish() {
	h.t.Helper()
	if _, err := h.conn.Write(h.rest); err != nil {
		h.t.Fatal(err)
	}
	res, err := http.ReadResponse(h.in, nil)
	if err != nil {
		h.t.Fatalf("an accepted request got no response: %v", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusCreated {
		h.t.Fatalf("a request that was accepted: %s", res.Status)
	}
	if err := json.NewDecoder(res.Body).Decode(&h.posting.receipt); err != nil {
		h.t.Fatal(err)
	}
}

// posted records a posting that was acknowledged outside the ledger.
func (l *ledger) posted(p *posting) {
	l.sending(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	p.response, p.ackedAt, p.fresh = []byte(p.marker), l.tick(), 1
	l.figures.acknowledged++
}

// A server stops within its time limit even if its database hangs and a statement may take
// longer than that.
func TestStopDoesNotWaitForAHangingDatabase(t *testing.T) {
	t.Parallel() // it mostly waits
	server := postgrestest.Start(t)
	db := newRemote(t, server)
	clients, l := newClients(t, random(t), clientCount, db.tenants)
	s := start(t, db.url)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, c := range clients {
		c.patient = true
	}
	wait := load(ctx, clients, s.base)
	waitUntil(t, "entries are acknowledged", startLimit, func() bool { return l.acks() > 2*clientCount })
	server.Pause(t)
	s.signal(syscall.SIGTERM)
	began := time.Now()
	code := s.wait().ExitCode()
	t.Logf("ended with exit code %d after %s", code, time.Since(began).Round(time.Millisecond))
	s.checkRefusals()
	wait()
	l.ended()
	server.Resume(t)
	l.audit(db.read(t), forever).report(t)
}
