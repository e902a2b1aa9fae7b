// Package server starts the measured servers as separate processes and reads their
// resource use from /proc, which needs Linux.
package server

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"atrium/bench/load"
)

// A Process is a server started by this program.
type Process struct {
	cmd   *exec.Cmd
	addr  string
	dir   string // removed by Stop; "" if there is none
	log   *os.File
	ready time.Duration
}

// startTimeout is how long a server may take to start.
const startTimeout = time.Minute

// start runs a server that listens on addr, and waits until GET path returns 200. It takes
// ownership of dir and removes it if the server does not start.
func start(ctx context.Context, cmd *exec.Cmd, addr, path, dir string) (_ *Process, err error) {
	p := &Process{cmd: cmd, addr: addr, dir: dir}
	defer func() {
		if err != nil {
			p.Stop()
		}
	}()
	if p.log, err = os.CreateTemp("", "atrium-bench-log-"); err != nil {
		return nil, err
	}
	_ = os.Remove(p.log.Name()) // stays open
	cmd.Stderr = p.log
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	for time.Since(began) < startTimeout {
		if a, err := load.Once(addr, load.Get(addr, path)); err == nil && a.Status == http.StatusOK {
			p.ready = time.Since(began)
			return p, nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, fmt.Errorf("%s did not respond: %s", cmd, p.Log())
}

// Stop stops the server gracefully and waits for it.
func (p *Process) Stop() {
	if p.cmd.Process != nil {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.cmd.Wait()
	}
	if p.log != nil {
		_ = p.log.Close()
	}
	if p.dir != "" {
		_ = os.RemoveAll(p.dir)
	}
}

// Addr returns the address that it listens on.
func (p *Process) Addr() string { return p.addr }

// Ready returns how long it took to start.
func (p *Process) Ready() time.Duration { return p.ready }

// Log returns the end of its standard error.
func (p *Process) Log() string {
	const most = 4 << 10
	info, err := p.log.Stat()
	if err != nil {
		return ""
	}
	text := make([]byte, min(info.Size(), most))
	n, _ := p.log.ReadAt(text, info.Size()-int64(len(text)))
	return string(text[:n])
}

// CPU returns the CPU time that it has used, to 10 ms.
func (p *Process) CPU() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	return cpuOf(stat)
}

// cpuOf parses the CPU time of a process in /proc/PID/stat (proc(5)).
func cpuOf(stat []byte) time.Duration { return ticksOf(stat, 11) }

// endedCPUOf parses the CPU time of its children that have ended.
func endedCPUOf(stat []byte) time.Duration { return ticksOf(stat, 13) }

// ticksOf returns the sum of two fields, counted from the one after the name.
func ticksOf(stat []byte, first int) time.Duration {
	// The second field is the name in parentheses, which may contain any character.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < first+2 {
		return 0
	}
	user, _ := strconv.Atoi(fields[first])
	system, _ := strconv.Atoi(fields[first+1])
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on Linux
}

// TreeCPU returns the CPU time that a process and its children have used, those that have ended
// included, to 10 ms: that of a PostgreSQL server, by the PID of its postmaster.
func TreeCPU(pid int) time.Duration {
	total := time.Duration(0)
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		total = cpuOf(stat) + endedCPUOf(stat)
	}
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for child := range strings.FieldsSeq(string(children)) {
		if stat, err := os.ReadFile("/proc/" + child + "/stat"); err == nil {
			total += cpuOf(stat)
		}
	}
	return total
}

// Anonymous returns its resident anonymous memory in bytes.
func (p *Process) Anonymous() (bytes int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return statusBytes(status, "RssAnon")
}

// statusBytes parses an amount in /proc/PID/status (proc(5)).
func statusBytes(status []byte, field string) (bytes int64, err error) {
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, field+":"); found {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, fmt.Errorf("/proc has no %s", field)
}

// freeAddr returns a free loopback address. Another process may take it.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}
