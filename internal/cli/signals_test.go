package cli_test

import (
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

// start begins a command of the binary, with a time in which it must be over.
func start(t *testing.T, dir string, args ...string) (cmd *exec.Cmd, said *bytes.Buffer) {
	t.Helper()
	cmd, said = exec.CommandContext(t.Context(), "atrium", args...), new(bytes.Buffer)
	cmd.Dir, cmd.Stderr = dir, said
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "ATRIUM_LOG_FORMAT=text")
	return cmd, said
}

// output runs a command to its end and returns what it prints.
func output(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd, said := start(t, dir, args...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s", args, err, said)
	}
	return strings.TrimSpace(string(out))
}

// wantInterrupted holds that the signal, which comes twice as it does from timeout, ends the command at once, as a failure that is
// told in a line.
func wantInterrupted(t *testing.T, cmd *exec.Cmd, said *bytes.Buffer, s os.Signal, want string) {
	t.Helper()
	for range 2 {
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	hung := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer hung.Stop()
	err := cmd.Wait()
	if ended, ok := errors.AsType[*exec.ExitError](err); !ok || ended.ExitCode() != 1 {
		t.Errorf("%v: %v", s, err)
	}
	if said.String() != "atrium: "+want+"\n" {
		t.Errorf("%v: %q", s, said)
	}
}

// hearHangups has the commands that a test starts end at SIGHUP, also when whoever runs the
// tests has it ignored, as nohup does: who is started inherits that.
func hearHangups(t *testing.T) {
	t.Helper()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(signals) })
}

// tenantWithMuch makes a database with a tenant that has more than a pipe does.
func tenantWithMuch(t *testing.T, dir string) (tenant string) {
	t.Helper()
	tenant = regexp.MustCompile(`tenant_\w+`).FindString(output(t, dir, "tenants", "create", "--name", "Example Corp"))
	var lines strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&lines, `{"kind":"account","domain":"company-%d.example","name":%q}`+"\n", i, strings.Repeat("n", 200))
	}
	if err := os.WriteFile(filepath.Join(dir, "data.ndjson"), []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	output(t, dir, "import", "--tenant", tenant, "data.ndjson")
	return tenant
}

func TestASignalEndsAnExportAtOnceAlsoWhileNobodyReadsIt(t *testing.T) {
	hearHangups(t)
	dir := t.TempDir()
	tenant := tenantWithMuch(t, dir)
	key := regexp.MustCompile(`Key +(\S+)`).FindStringSubmatch(output(t, dir, "keys", "create", "--tenant", tenant, "--name", "k", "--scope", "manage"))
	server, log := start(t, dir, "serve", "--addr", "127.0.0.1:0")
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
			cmd, said := start(t, dir, append([]string{"export"}, target...)...)
			cmd.Env = append(cmd.Env, "ATRIUM_KEY="+key[1])
			out, err := cmd.StdoutPipe()
			if err != nil || cmd.Start() != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
				t.Fatal(err, said)
			}
			wantInterrupted(t, cmd, said, s, "interrupted: the output is incomplete")
		}
	}
}

func TestASignalEndsARestoreAndNothingIsMade(t *testing.T) {
	hearHangups(t)
	dir := t.TempDir()
	tenantWithMuch(t, dir)
	output(t, dir, "backup", "copy.db")
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		cmd, said := start(t, dir, "restore", "copy.db", "--database", "sqlite:new.db", "--rate", "1KiB")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
			if begun, _ := filepath.Glob(filepath.Join(dir, ".new.db.*")); len(begun) > 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("it does not begin")
			}
		}
		wantInterrupted(t, cmd, said, s, "interrupted: nothing was created")
		if left, _ := filepath.Glob(filepath.Join(dir, "*new.db*")); len(left) > 0 {
			t.Errorf("%v left %v", s, left)
		}
	}
}

// address returns where a server listens, from its log, the rest of which it discards.
func address(t *testing.T, log io.Reader) string {
	t.Helper()
	var text []byte
	for {
		b := make([]byte, 1<<10)
		n, err := log.Read(b)
		text = append(text, b[:n]...)
		if m := serving.FindSubmatch(text); m != nil && bytes.HasSuffix(text, []byte("\n")) {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return string(m[1])
		}
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
}
