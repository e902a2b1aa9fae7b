package postgrestest

// PostgreSQL is one process, the postmaster, and its children, one for every
// connection and some more. Each child makes a process group of its own, so a
// signal to the postmaster's group reaches the postmaster alone, and children
// whose postmaster is gone cannot be told from other processes. Hence the rule
// here: children are looked for while the postmaster is stopped, when it can make
// no more of them and its dead ones keep their numbers.

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
	// One of a killed postmaster: its number may be somebody else's by now.
	if err := os.Remove(s.pidFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	args := []string{"-D", "data"}
	for _, setting := range append([]string{
		"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(s.port), "unix_socket_directories=", "max_connections=300", "shared_buffers=64MB",
	}, s.settings...) {
		args = append(args, "-c", setting)
	}
	cmd := s.command("postgres", args...)
	cmd.SysProcAttr.Setpgid = true // Ctrl-C is for the tests, which end the server
	dieWithParent(cmd.SysProcAttr)
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log

	started, ended := make(chan error), make(chan struct{})
	go func() {
		// For the system, the parent is the thread: this one lives as long as the
		// server does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.postmaster, s.ended = cmd.Process, ended
	err = s.until("ready", func() (bool, error) {
		if !s.running() {
			return false, errors.New("it ended")
		}
		return s.ready(), nil
	})
	if err != nil {
		return fmt.Errorf("run PostgreSQL: %w; the end of its log:\n%s", errors.Join(err, s.kill()), s.Log())
	}
	return nil
}

func (s *Server) pidFile() string { return filepath.Join(s.dir, "data", "postmaster.pid") }

// ready reports whether the postmaster has written that it accepts connections.
// Unlike a connection to the port, that can be nobody else's word.
func (s *Server) ready() bool {
	file, _ := os.ReadFile(s.pidFile()) // not there yet
	lines := strings.Split(string(file), "\n")
	const status = 7 // LOCK_FILE_LINE_PM_STATUS of pidfile.h, from 0
	return len(lines) > status && lines[0] == strconv.Itoa(s.postmaster.Pid) && strings.TrimSpace(lines[status]) == "ready"
}

// stop ends the server in good order, or by force when it does not obey.
func (s *Server) stop() error {
	_ = s.postmaster.Signal(syscall.SIGINT) // a fast shutdown, unless it has ended
	select {
	case <-s.ended:
		return nil
	case <-time.After(patience):
		return errors.Join(errors.New("stop PostgreSQL: it did not obey and was killed"), s.kill())
	}
}

// kill ends all processes of the server and waits until they are gone.
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
	_ = s.postmaster.Kill() // no more than not running
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

// resume undoes pause. It does nothing to a server that is not paused.
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

// signal reaches those of a paused postmaster's children that have not ended.
func signal(number syscall.Signal, children []int) {
	for _, pid := range children {
		_ = syscall.Kill(pid, number) // ended is as good
	}
}

// children returns the postmaster's children that have not ended, and whether the
// postmaster itself was stopped when it was looked at.
func (s *Server) children() (pids []int, stopped bool, err error) {
	all, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,stat=").Output()
	if err != nil {
		return nil, false, fmt.Errorf("ps: %w", err)
	}
	for line := range strings.Lines(string(all)) {
		var pid, parent int
		var state string
		if _, err := fmt.Sscan(line, &pid, &parent, &state); err != nil {
			return nil, false, fmt.Errorf("ps said %q: %w", line, err)
		}
		if pid == s.postmaster.Pid {
			stopped = state[0] == 'T'
		} else if parent == s.postmaster.Pid && state[0] != 'Z' {
			pids = append(pids, pid)
		}
	}
	return pids, stopped, nil
}

// until waits for a condition, within patience.
func (s *Server) until(what string, holds func() (bool, error)) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if done, err := holds(); done || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not %s after %s", what, patience)
		}
	}
}
