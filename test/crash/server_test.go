package crash

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/store"
	"atrium/test/nodes"
)

// startLimit bounds how long a server takes to listen, including recovery. stopLimit is
// the limit that atrium serve documents.
const (
	startLimit = 30 * time.Second
	stopLimit  = 8 * time.Second
)

// A server is a running process of atrium serve.
type server struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *serverLog
	base string          // URL
	done <-chan struct{} // closed at its end
	http *http.Client    // of the test, not of its clients
}

// launch starts a server on a database URL without waiting for it.
func launch(t *testing.T, url string, flags ...string) *server {
	t.Helper()
	return command(t, append([]string{"serve", "--addr", "127.0.0.1:0", "--database", url}, flags...)...)
}

// command starts an atrium command.
func command(t *testing.T, args ...string) *server {
	t.Helper()
	return spawn(t, exec.Command(executable(t), args...))
}

func executable(t *testing.T) string {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// spawn starts a program that is, or execs, this binary. Its stderr is the log, unless the
// command redirects it.
func spawn(t *testing.T, cmd *exec.Cmd) *server {
	t.Helper()
	s := &server{t: t, cmd: cmd, log: &serverLog{}, http: newHTTPClient(t)}
	// It collects garbage as in production, and not by the tests' GOGC.
	s.cmd.Env = append(append(os.Environ(), s.cmd.Env...), serverVariable+"=1", "GORACE=atexit_sleep_ms=0", "ATRIUM_LOG_FORMAT=text", "GOGC=")
	if s.cmd.Stderr == nil {
		s.cmd.Stderr = s.log
	}
	var err error
	if s.done, err = nodes.Begin(s.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("log of the server:\n%s", s.log)
		}
	})
	return s
}

var listens = regexp.MustCompile(`msg=serving addr=(\S+)`)

// start starts a server and waits until it listens.
func start(t *testing.T, url string, flags ...string) *server {
	t.Helper()
	return launch(t, url, flags...).listening()
}

// listening waits until the server listens.
func (s *server) listening() *server {
	s.t.Helper()
	s.base = "http://" + s.waitLog(listens)
	return s
}

// startLimited is start for a process with a hard limit, in the syntax of the shell's
// ulimit.
func startLimited(t *testing.T, limit, url string, flags ...string) *server {
	t.Helper()
	args := append([]string{"-c", "ulimit " + limit + ` && exec "$0" "$@"`, executable(t), "serve", "--addr", "127.0.0.1:0", "--database", url}, flags...)
	return spawn(t, exec.Command("sh", args...)).listening()
}

// waitLog waits for a log line and returns its first submatch.
func (s *server) waitLog(line *regexp.Regexp) string {
	s.t.Helper()
	for deadline := time.Now().Add(startLimit); ; time.Sleep(time.Millisecond) {
		if m := line.FindStringSubmatch(s.log.String()); m != nil {
			return m[len(m)-1]
		}
		select {
		case <-s.done:
			s.t.Fatalf("the server ended: %s", s.cmd.ProcessState)
		default:
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the server did not say %q", line)
		}
	}
}

// kill kills the server, as kill -9 does.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.done
}

func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// signalUntilEnded repeats a signal only if the server was still handling the previous
// one.
func (s *server) signalUntilEnded(sig syscall.Signal) {
	s.t.Helper()
	for limit := time.Now().Add(stopLimit); time.Now().Before(limit); {
		if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			s.t.Fatal(err)
		}
		select {
		case <-s.done:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// wait returns how the server ended. It must end within stopLimit.
func (s *server) wait() *os.ProcessState {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(stopLimit):
		s.t.Fatalf("the server has not ended within %s", stopLimit)
	}
	return s.cmd.ProcessState
}

// stop stops the server gracefully with SIGTERM.
func (s *server) stop() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	if code := s.wait().ExitCode(); code != 0 {
		s.t.Errorf("the server ended with exit code %d", code)
	}
	s.checkLog()
}

// checkLog reports log lines that a server without faults must not write.
func (s *server) checkLog() {
	s.t.Helper()
	for _, bad := range []string{"DATA RACE", "panic", "level=ERROR"} {
		if strings.Contains(s.log.String(), bad) {
			s.t.Errorf("the server logged %q:\n%s", bad, s.log)
		}
	}
}

// A serverLog collects the output of a process.
type serverLog struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *serverLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *serverLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A tenant has a key with all scopes.
type tenant struct {
	id  atrium.TenantID
	key string
}

// createTenants creates n tenants in a store.
func createTenants(t *testing.T, s *store.Store, n int) (tenants []*tenant) {
	t.Helper()
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		made, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "crash")
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 { // the others have no events
			if _, err := s.SetEventSettings(t.Context(), atrium.CommandLine(made.ID), true, func(atrium.EventSettings) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		id, key, hash := auth.NewKey()
		k := atrium.APIKey{ID: id, TenantID: made.ID, Name: "crash", Scopes: atrium.ExternalScopes()}
		if _, _, err := s.CreateKey(t.Context(), atrium.CommandLine(made.ID), k, hash); err != nil {
			t.Fatal(err)
		}
		tenants = append(tenants, &tenant{made.ID, key})
	}
	return tenants
}

// newHTTPClient returns a client with separate connections, which never retries.
func newHTTPClient(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		Timeout:       startLimit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("a redirect") },
	}
}
