package nodes

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"atrium/internal/store/engine/postgrestest"
)

// waitLimit bounds every wait for a process, which usually takes much less.
const waitLimit = 30 * time.Second

// A process is a running program, which ends with the test at the latest.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *output
	done <-chan struct{} // closed at its end
}

// run starts a program. Its log has its stderr, and its stdout unless the command
// redirects it.
func run(tb testing.TB, name string, cmd *exec.Cmd) *process {
	tb.Helper()
	p := &process{name: name, cmd: cmd, log: &output{}}
	cmd.Stderr = p.log
	if cmd.Stdout == nil {
		cmd.Stdout = p.log
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true // Ctrl-C reaches only the tests, which stop the process
	var err error
	if p.done, err = Begin(cmd); err != nil {
		tb.Fatalf("start %s: %v", name, err)
	}
	tb.Cleanup(func() {
		p.Kill()
		if tb.Failed() {
			tb.Logf("the end of the log of %s:\n%s", name, p.log.tail())
		}
	})
	return p
}

// Begin starts a program that ends with this process at the latest, for any reason. ended
// is closed when it has ended; its ProcessState has the result.
func Begin(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	dieWithParent(cmd.SysProcAttr)
	started, done := make(chan error), make(chan struct{})
	go func() {
		// The parent-death signal is tied to the thread, so this thread must live as long
		// as the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(done)
		}
	}()
	return done, <-started
}

// Kill kills the process, as kill -9 does, and waits for its end.
func (p *process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// Signal sends the process a signal.
func (p *process) Signal(tb testing.TB, s syscall.Signal) {
	tb.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		tb.Fatalf("%s to %s: %v", s, p.name, err)
	}
}

// ExitCode waits for the process to end.
func (p *process) ExitCode(tb testing.TB, limit time.Duration) int {
	tb.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		tb.Fatalf("%s has not ended within %s", p.name, limit)
		return 0
	}
}

// ended reports whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// logged waits for a log line and returns its last submatch, or "" if the process ends
// without it.
func (p *process) logged(tb testing.TB, line *regexp.Regexp) (match string) {
	tb.Helper()
	Until(tb, p.name+" to say "+line.String(), waitLimit, func() bool {
		ended := p.ended()
		if m := line.FindStringSubmatch(p.log.String()); m != nil {
			match = m[len(m)-1]
			return true
		}
		return ended
	})
	return match
}

// Until waits until a condition holds, and fails the test after the limit.
func Until(tb testing.TB, what string, limit time.Duration, holds func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(limit); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("waited %s for %s", limit, what)
		}
	}
}

// An output collects the output of a process.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) tail() string {
	lines := strings.SplitAfter(o.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "")
}

// servers are directories of server programs that are not in the PATH of most users.
var servers = []string{"/usr/local/sbin", "/usr/sbin", "/sbin"}

// command returns a command for a program that scripts/prepare installs. It runs as a user
// other than root, in a new directory with the files.
func command(tb testing.TB, program string, files map[string][]byte, args ...string) *exec.Cmd {
	tb.Helper()
	path, err := exec.LookPath(program)
	for _, dir := range servers {
		if err != nil {
			path, err = exec.LookPath(filepath.Join(dir, program))
		}
	}
	if err != nil {
		tb.Fatalf("%s is not installed: run `make prepare`", program)
	}
	owner, _, err := postgrestest.Unprivileged()
	if err != nil {
		tb.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "atrium-"+program+"-") // other users cannot read tb.TempDir
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	if owner != nil {
		if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
			tb.Fatal(err)
		}
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	return cmd
}

// given are the ports that freeAddr has returned. They may not be in use yet.
var given struct {
	sync.Mutex
	ports map[int]bool
}

// freeAddr returns a free address of this machine, each only once.
func freeAddr(tb testing.TB) string {
	tb.Helper()
	given.Lock()
	defer given.Unlock()
	for {
		port, err := postgrestest.FreePort()
		if err != nil {
			tb.Fatal(err)
		}
		if given.ports == nil {
			given.ports = map[int]bool{}
		}
		if !given.ports[port] {
			given.ports[port] = true
			return fmt.Sprintf("127.0.0.1:%d", port)
		}
	}
}

// Deployed returns a file of the directory deploy.
func Deployed(tb testing.TB, name string) []byte {
	tb.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			break
		}
		if filepath.Dir(dir) == dir {
			tb.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
	if err != nil {
		tb.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "deploy", name))
	if err != nil {
		tb.Fatal(err)
	}
	return content
}
