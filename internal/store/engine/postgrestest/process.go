package postgrestest

// PostgreSQL is one process, the postmaster, with one child per connection and some more.
// Each child has its own process group, so a signal to the postmaster's group reaches only
// the postmaster, and orphaned children cannot be identified. So children are listed only
// while the postmaster is stopped: it then starts no new ones, and the IDs of its dead
// children are not reused.

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func (s *Server) running() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// run starts the server and waits until it accepts connections.
func (s *Server) run() error {
	// A killed postmaster leaves its PID file behind, and the PID may belong to another process by
	// now.
	if err := os.Remove(s.pidFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	args := []string{"-D", "data"}
	for _, setting := range append([]string{
		"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(s.port), "unix_socket_directories=",
		"max_connections=600", "shared_buffers=64MB",
	}, s.settings...) {
		args = append(args, "-c", setting)
	}
	cmd := s.command("postgres", args...)
	cmd.SysProcAttr.Setpgid = true // Ctrl-C reaches only the tests, which stop the server
	dieWithParent(cmd.SysProcAttr)
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log

	started, ended := make(chan error), make(chan struct{})
	go func() {
		// The kernel treats the starting thread as the parent: this thread lives as long as the
		// server.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the log has the cause
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.postmaster, s.ended = cmd.Process, ended
	err = s.until("ready", func() (bool, error) {
		if !s.running() {
			return false, errors.New("the server exited")
		}
		return s.ready(), nil
	})
	if err != nil {
		return fmt.Errorf("run PostgreSQL: %w; last lines of its log:\n%s", errors.Join(err, s.kill()), s.Log())
	}
	return nil
}

func (s *Server) pidFile() string { return filepath.Join(s.dir, "data", "postmaster.pid") }

// ready reports whether the postmaster's PID file says that it accepts connections. A connection to
// the port would not prove which server accepts it.
func (s *Server) ready() bool {
	file, _ := os.ReadFile(s.pidFile()) // not there yet
	lines := strings.Split(string(file), "\n")
	const status = 7 // LOCK_FILE_LINE_PM_STATUS of pidfile.h, from 0
	return len(lines) > status && lines[0] == strconv.Itoa(s.postmaster.Pid) &&
		strings.TrimSpace(lines[status]) == "ready"
}

// stop shuts the server down, or kills it after serverTimeout.
func (s *Server) stop() error {
	_ = s.postmaster.Signal(syscall.SIGINT) // a fast shutdown; fails if the server has ended
	select {
	case <-s.ended:
		return nil
	case <-time.After(serverTimeout):
		return errors.Join(errors.New("stop PostgreSQL: killed after a timeout"), s.kill())
	}
}

// kill kills all processes of the server and waits until they are gone.
func (s *Server) kill() error {
	if !s.running() {
		return nil
	}
	children, err := s.pause()
	if err != nil {
		return err
	}
	signal(syscall.SIGKILL, children)
	err = s.until("killed", func() (bool, error) {
		alive, _, err := s.children()
		return len(alive) == 0, err
	})
	_ = s.postmaster.Kill() // fails only if it has ended
	<-s.ended
	return err
}

// pause stops all processes of the server and returns the children.
func (s *Server) pause() (children []int, err error) {
	if err := s.postmaster.Signal(syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("pause PostgreSQL: %w", err)
	}
	err = s.until("stopped", func() (stopped bool, err error) {
		_, stopped, err = s.children()
		return stopped || !s.running(), err
	})
	if err != nil {
		return nil, err
	}
	if children, _, err = s.children(); err == nil {
		signal(syscall.SIGSTOP, children)
	}
	return children, err
}

// resume resumes a paused server. It has no effect on a running one.
func (s *Server) resume() error {
	if !s.running() {
		return nil
	}
	children, _, err := s.children()
	if err != nil {
		return err
	}
	signal(syscall.SIGCONT, children)
	return s.postmaster.Signal(syscall.SIGCONT)
}

// signal sends a signal to children of a paused postmaster that have not ended.
func signal(number syscall.Signal, children []int) {
	for _, pid := range children {
		_ = syscall.Kill(pid, number) // fails only if the child has ended
	}
}

// children returns the postmaster's living children, and whether the postmaster is stopped.
func (s *Server) children() (pids []int, stopped bool, err error) {
	all, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,stat=").Output()
	if err != nil {
		return nil, false, fmt.Errorf("ps: %w", err)
	}
	for line := range strings.Lines(string(all)) {
		var pid, parent int
		var state string
		if _, err := fmt.Sscan(line, &pid, &parent, &state); err != nil {
			return nil, false, fmt.Errorf("parse output of ps %q: %w", line, err)
		}
		if pid == s.postmaster.Pid {
			stopped = state[0] == 'T'
		} else if parent == s.postmaster.Pid && state[0] != 'Z' {
			pids = append(pids, pid)
		}
	}
	return pids, stopped, nil
}

// until polls a condition for up to serverTimeout.
func (s *Server) until(state string, condition func() (bool, error)) error {
	for deadline := time.Now().Add(serverTimeout); ; time.Sleep(5 * time.Millisecond) {
		if done, err := condition(); done || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not %s after %s", state, serverTimeout)
		}
	}
}
