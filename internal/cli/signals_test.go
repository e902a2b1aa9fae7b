package cli_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startCommand prepares a command of the binary, which is killed when the test ends.
func startCommand(t *testing.T, dir string, args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	cmd, stderr = exec.CommandContext(t.Context(), "atrium", args...), new(bytes.Buffer)
	cmd.Dir, cmd.Stderr = dir, stderr
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "ATRIUM_LOG_FORMAT=text")
	return cmd, stderr
}

// runCommand runs a command to its end and returns its output.
func runCommand(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd, stderr := startCommand(t, dir, args...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s", args, err, stderr)
	}
	return strings.TrimSpace(string(out))
}

// wantInterrupted checks that a signal, sent twice like timeout does, ends the command with exit
// code 1 and one line on stderr. If the test itself took too long to send both, the second may
// rightly have killed the command.
func wantInterrupted(t *testing.T, cmd *exec.Cmd, stderr *bytes.Buffer, s os.Signal, want string) {
	t.Helper()
	began := time.Now()
	for range 2 {
		if err := cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
	}
	atOnce := time.Since(began) < 100*time.Millisecond
	hung := time.AfterFunc(waitTimeout, func() { _ = cmd.Process.Kill() })
	defer hung.Stop()
	err := cmd.Wait()
	ended, ok := errors.AsType[*exec.ExitError](err)
	if ok && ended.ExitCode() == -1 && !atOnce {
		return
	}
	if !ok || ended.ExitCode() != 1 {
		t.Errorf("%v: %v", s, err)
	}
	if stderr.String() != "atrium: "+want+"\n" {
		t.Errorf("%v: %q", s, stderr)
	}
}

// receiveHangups makes SIGHUP end the commands that a test starts, even if the tests run with
// SIGHUP ignored, such as under nohup: child processes inherit that.
func receiveHangups(t *testing.T) {
	t.Helper()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(signals) })
}

// largeTenant creates a database with a tenant whose export exceeds the buffer of a pipe.
func largeTenant(t *testing.T, dir string) (tenant string) {
	t.Helper()
	runCommand(t, dir, "migrate")
	tenant = regexp.MustCompile(`tenant_\w+`).FindString(runCommand(t, dir, "tenants", "create", "--name",
		"Example Corp"))
	var lines strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&lines, `{"kind":"account","domain":"company-%d.example","name":%q}`+"\n", i,
			strings.Repeat("n", 200))
	}
	if err := os.WriteFile(filepath.Join(dir, "data.ndjson"), []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	runCommand(t, dir, "import", "--tenant", tenant, "data.ndjson")
	return tenant
}

func TestSignalEndsExportWhoseOutputIsNotRead(t *testing.T) {
	receiveHangups(t)
	dir := t.TempDir()
	tenant := largeTenant(t, dir)
	key := regexp.MustCompile(`Key +(\S+)`).FindStringSubmatch(runCommand(t, dir, "keys", "create", "--tenant", tenant,
		"--name", "k", "--scope", "manage"))
	server, log := startCommand(t, dir, "serve", "--addr", "127.0.0.1:0")
	server.Stderr = nil
	read, err := server.StderrPipe()
	if err != nil || server.Start() != nil {
		t.Fatal(err, log)
	}
	defer func() { _ = server.Wait() }()
	defer func() { _ = server.Process.Signal(os.Interrupt) }()
	addr := address(t, read)
	for _, target := range [][]string{
		{"--tenant", tenant, "--database", "sqlite:atrium.db"},
		{"--server", "http://" + addr},
	} {
		for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
			cmd, stderr := startCommand(t, dir, append([]string{"export"}, target...)...)
			cmd.Env = append(cmd.Env, "ATRIUM_KEY="+key[1])
			out, err := cmd.StdoutPipe()
			if err != nil || cmd.Start() != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
				t.Fatal(err, stderr)
			}
			wantInterrupted(t, cmd, stderr, s, "interrupted: the output is incomplete")
		}
	}
}

func TestSignalEndsRestoreWithoutCreatingFiles(t *testing.T) {
	receiveHangups(t)
	dir := t.TempDir()
	largeTenant(t, dir)
	runCommand(t, dir, "backup", "copy.db")
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		cmd, stderr := startCommand(t, dir, "restore", "copy.db", "--database", "sqlite:new.db", "--rate", "1KiB")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(waitTimeout); ; time.Sleep(5 * time.Millisecond) {
			if partial, _ := filepath.Glob(filepath.Join(dir, ".new.db.*")); len(partial) > 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the restore does not start")
			}
		}
		wantInterrupted(t, cmd, stderr, s, "interrupted: nothing was created")
		if left, _ := filepath.Glob(filepath.Join(dir, "*new.db*")); len(left) > 0 {
			t.Errorf("%v left %v", s, left)
		}
	}
}

// address returns the address of a server from its log, and discards the rest of the log.
func address(t *testing.T, log io.Reader) string {
	t.Helper()
	var text []byte
	for {
		b := make([]byte, 1<<10)
		n, err := log.Read(b)
		text = append(text, b[:n]...)
		if m := servingLine.FindSubmatch(text); m != nil && bytes.HasSuffix(text, []byte("\n")) {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return string(m[1])
		}
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
}

// A supervisor's reload keeps a server running also without a certificate to reload.
func TestHangupKeepsServerWithoutTLSRunning(t *testing.T) {
	receiveHangups(t)
	server, _ := startCommand(t, t.TempDir(), "serve", "--addr", "127.0.0.1:0")
	server.Stderr = nil
	log, err := server.StderrPipe()
	if err != nil || server.Start() != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(waitTimeout, func() { _ = server.Process.Kill() })
	defer hung.Stop()
	lines := bufio.NewScanner(log)
	waitLog := func(text string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatalf("the server ended without logging %q", text)
	}
	waitLog("msg=serving")
	for range 2 {
		if err := server.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		waitLog("no certificate to reload")
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitLog("msg=stopped")
	if err := server.Wait(); err != nil {
		t.Error(err)
	}
}

// The demo belongs to a terminal, whose end is a SIGHUP.
func TestHangupEndsDemo(t *testing.T) {
	receiveHangups(t)
	demo, stderr := startCommand(t, t.TempDir(), "demo", "--addr", "127.0.0.1:0")
	out, err := demo.StdoutPipe()
	if err != nil || demo.Start() != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(waitTimeout, func() { _ = demo.Process.Kill() })
	defer hung.Stop()
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil { // printed once it serves
		t.Fatal(err, stderr)
	}
	if err := demo.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Fatal(err)
	}
	if err := demo.Wait(); err != nil {
		t.Errorf("%v: %s", err, stderr)
	}
}
