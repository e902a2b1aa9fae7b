package crash

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/store"
)

// operatorKey creates a management key of the tenant.
func (db *database) operatorKey(t *testing.T, of *tenant) string {
	t.Helper()
	s, err := store.Open(t.Context(), db.url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	id, text, hash := auth.NewKey()
	k := atrium.APIKey{ID: id, TenantID: of.id, Name: "operator", Scopes: atrium.ManageScopes()}
	if _, _, err := s.CreateKey(t.Context(), atrium.CommandLine(of.id), k, hash); err != nil {
		t.Fatal(err)
	}
	return text
}

// dial opens a connection and sends the headers of a request.
func (s *server) dial(t *testing.T, head string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, strings.ReplaceAll(head, "\n", "\r\n")); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// A slow import, and an export that is not read, may take as long as they like, but end
// with the server: within its time limit, and an import at the boundary of a chunk.
func TestStopEndsRunningImportsAndExports(t *testing.T) {
	for name, newDatabase := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			db := newDatabase(t)
			key := db.operatorKey(t, db.tenants[0])
			s := start(t, db.url)
			clients, l := newClients(t, random(t), 1, db.tenants[:1])
			c := clients[0]
			c.base, c.bulk = s.base, 900_000
			for range 14 { // more than the buffers of an unread connection hold
				p := c.newPosting(db.tenants[0], true)
				p.data = fmt.Sprintf(`{"marker":%q,"fill":%q}`, p.marker, strings.Repeat("x", c.bulk))
				p.body = p.encode(p.data)
				if !c.post(p) || p.response == nil {
					t.Fatal("the service does not work")
				}
			}
			_, exported := s.dial(t, "GET /manage/v0/export HTTP/1.1\nHost: atrium\nx-api-key: "+key+"\n\n")
			download, err := http.ReadResponse(exported, nil)
			if err != nil || download.StatusCode != http.StatusOK {
				t.Fatalf("the export: %v, %v", download, err)
			}
			defer func() { _ = download.Body.Close() }()
			importing, response := s.dial(t, "POST /manage/v0/import HTTP/1.1\nHost: atrium\nx-api-key: "+key+
				"\nContent-Type: application/x-ndjson\nTransfer-Encoding: chunked\nExpect: 100-continue\n\n")
			if res, err := http.ReadResponse(response, nil); err != nil || res.StatusCode != http.StatusContinue {
				t.Fatalf("the server did not ask for the body: %v, %v", res, err)
			}
			line := `{"kind":"brand","brandId":"brand_0000000000000000000000000a","name":"A","createdAt":"2026-01-01T00:00:00Z"}` + "\n"
			if _, err := fmt.Fprintf(importing, "%x\r\n%s\r\n", len(line), line); err != nil {
				t.Fatal(err)
			}
			s.signal(syscall.SIGTERM)
			began := time.Now()
			s.wait()
			t.Logf("ended with exit code %d after %s", s.cmd.ProcessState.ExitCode(), time.Since(began).Round(time.Millisecond))
			if res, err := http.ReadResponse(response, nil); err == nil && res.StatusCode < 400 {
				t.Errorf("an interrupted import got %s", res.Status)
			}
			if _, err := io.Copy(io.Discard, download.Body); err == nil {
				t.Error("an interrupted export looks complete")
			}
			for _, bad := range []string{"DATA RACE", "panic"} {
				if strings.Contains(s.log.String(), bad) {
					t.Errorf("the server logged %q:\n%s", bad, s.log)
				}
			}
			l.ended()
			l.audit(db.read(t), forever).report(t)
		})
	}
}

// A server whose database is unreachable stops at once, and waiting requests get a
// response.
func TestStopDoesNotWaitForAnUnreachableDatabase(t *testing.T) {
	t.Parallel() // it mostly waits
	o := newOutage(t, clientCount, nil)
	o.server.Kill(t)
	waitUntil(t, "the service to be not ready", startLimit, func() bool { return o.atrium.status("/readyz") == http.StatusServiceUnavailable })
	o.atrium.signalAndWait()
	o.atrium.checkRefusals()
	o.stop()
	o.ledger.ended()
	o.server.Restart(t)
	o.ledger.audit(o.db.read(t), forever).report(t)
}

// A second signal also skips the shutdown delay.
func TestSecondSignalEndsTheShutdownDelay(t *testing.T) {
	db := newFile(t)
	s := start(t, db.url, "--shutdown-delay", "5s")
	s.signal(syscall.SIGTERM)
	s.waitLog(stopping)
	s.signalUntilEnded(syscall.SIGTERM)
	if status := s.wait().Sys().(syscall.WaitStatus); !status.Signaled() || strings.Contains(s.log.String(), "completing requests in flight") {
		t.Errorf("the server ended with %s:\n%s", s.cmd.ProcessState, s.log)
	}
	db.read(t)
}

// A server that waits for its database at the start stops on a signal.
func TestStopEndsAHangingStart(t *testing.T) {
	hanging, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hanging.Close() }()
	s := launch(t, "postgres://me@"+hanging.Addr().String()+"/test?sslmode=disable")
	conn, err := hanging.Accept() // and never responds
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	s.signal(syscall.SIGTERM)
	began := time.Now()
	if state := s.wait(); state.Success() || !state.Exited() {
		t.Errorf("the server ended with %s", state)
	}
	t.Logf("ended after %s", time.Since(began).Round(time.Millisecond))
}

// The reader of the log may exit. The service continues.
func TestServerSurvivesTheReaderOfItsLog(t *testing.T) {
	db := newFile(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	cmd := exec.Command(executable(t), "serve", "--addr", "127.0.0.1:0", "--database", db.url)
	cmd.Stdout, cmd.Stderr = write, write
	s := spawn(t, cmd)
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(read); s.base == ""; {
		if !lines.Scan() {
			t.Fatalf("the server ended and did not say where it listens: %v", lines.Err())
		}
		if m := listens.FindStringSubmatch(lines.Text()); m != nil {
			s.base = "http://" + m[1]
		}
	}
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	clients, l := newClients(t, random(t), clientCount, db.tenants)
	ctx, cancel := context.WithCancel(t.Context())
	wait := load(ctx, clients, s.base)
	waitUntil(t, "entries are acknowledged", startLimit, func() bool { return l.acks() > 2*clientCount })
	cancel()
	wait()
	s.signalAndWait()
	l.ended()
	l.audit(db.read(t), forever).report(t)
}
