package nodes

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
)

// A Binary is the path of an atrium binary, such as that of another release, or "" for the command of
// this test binary.
type Binary string

// Start starts a node of the binary as Start does, and waits until it serves.
func (b Binary) Start(tb testing.TB, database string, flags ...string) *Node {
	tb.Helper()
	n := launch(tb, b, database, flags...)
	n.wait(tb)
	return n
}

// Command runs a command of the binary and returns its output and exit code.
func (b Binary) Command(tb testing.TB, args ...string) (stdout, stderr string, code int) {
	tb.Helper()
	cmd := b.command(tb, args...)
	var out bytes.Buffer
	cmd.Stdout = &out
	p := run(tb, "atrium "+args[0], cmd)
	code = p.ExitCode(tb, waitLimit)
	return out.String(), p.log.String(), code
}

func (b Binary) command(tb testing.TB, args ...string) *exec.Cmd {
	tb.Helper()
	if b != "" {
		return exec.Command(string(b), args...)
	}
	binary, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), variable+"=1", "GORACE=atexit_sleep_ms=0", "GOGC=") // not the tests' GOGC
	return cmd
}

// Replace stops a node, and starts the binary in its place at the same address.
func (n *Node) Replace(tb testing.TB, by Binary) {
	tb.Helper()
	n.Stop(tb)
	n.binary = by
	n.Restart(tb)
}
