package secure

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"atrium/test/nodes"
)

// Requests a core dump of the process in every way, with limits that allow one, and its
// stacks. A control program proves that this machine would write a core file.
func TestNoCoreDumpsAndNoSecretsInStacks(t *testing.T) {
	var former syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &former); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{Cur: former.Max, Max: former.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_CORE, &former) }()
	t.Chdir(t.TempDir()) // core files are written there by default
	control := exec.Command("sh", "-c", "kill -ABRT $$")
	_ = control.Run()
	if status := control.ProcessState.Sys().(syscall.WaitStatus); !status.CoreDump() {
		t.Logf("this machine writes no core files (limit %d): what follows proves less", former.Max)
	}
	t.Setenv("GOTRACEBACK", "crash")
	for _, signal := range []syscall.Signal{syscall.SIGABRT, syscall.SIGQUIT, syscall.SIGSEGV} {
		s := start(t)
		if _, err := s.send(t.Context(), s.client(t, true), "POST", "/v0/account_logs", `{"source":"crm","domain":"acme.example","payload":{"a":"`+canaries["payload"]+`"}}`); err != nil {
			t.Fatal(err)
		}
		proc := fmt.Sprintf("/proc/%d", s.PID())
		limits, err := os.ReadFile(proc + "/limits")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(limits)) {
			if words := strings.Fields(line); strings.HasPrefix(line, "Max core file size") && (words[4] != "0" || words[5] != "0") {
				t.Errorf("%s", line)
			}
		}
		s.Signal(t, signal)
		code := s.ExitCode(t, exchangeTimeout)
		if status := s.Status(); status.CoreDump() {
			t.Errorf("%s: the process left a core file (exit code %d)", signal, code)
		}
		if !strings.Contains(s.Log(), "goroutine ") {
			t.Errorf("%s: there are no stacks:\n%s", signal, s.Log())
		}
		search(t, signal.String()+" stacks", s.Log(), s.key)
	}
	if found, _ := filepath.Glob("core*"); len(found) > 1 { // the control's
		t.Errorf("core files: %q", found)
	}
}

// Other processes of the same user cannot read the arguments or the memory of the service.
// The service can still read its own metrics.
func TestProcFilesAreOwnedByRoot(t *testing.T) {
	n := nodes.Unprivileged(t, "--metrics-addr", "127.0.0.1:0")
	for _, name := range []string{"environ", "mem", "maps", "fd"} {
		info, err := os.Stat(fmt.Sprintf("/proc/%d/%s", n.PID(), name))
		if err != nil {
			t.Fatal(err)
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 {
			t.Errorf("%s belongs to the user %d", name, owner)
		}
	}
	text := metrics(t, n)
	for _, name := range []string{"process_open_fds", "process_max_fds", "process_resident_memory_bytes", "process_cpu_seconds_total", "process_start_time_seconds"} {
		if !strings.Contains(text, "\n"+name+" ") {
			t.Errorf("the metrics have no %s", name)
		}
	}
}
