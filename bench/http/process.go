package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A process is a server that this command started.
type process struct {
	cmd  *exec.Cmd
	addr string
	dir  string // its own, removed when it stops
	env  []string
	bin  string
}

// freeAddr returns a loopback address that was free a moment ago.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}

func startAtrium(ctx context.Context, o options) (*process, error) {
	bin, err := filepath.Abs(o.atrium)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "atrium-bench-")
	if err != nil {
		return nil, err
	}
	p := &process{dir: dir, bin: bin}
	database := o.database
	if database == "" {
		database = "sqlite:" + filepath.Join(dir, "bench.db")
	}
	if p.addr, err = freeAddr(); err != nil {
		return nil, err
	}
	p.env = append(os.Environ(), "ATRIUM_DATABASE="+database)
	args := append([]string{"serve", "--addr", p.addr}, strings.Fields(o.serverFlags)...)
	return p, p.start(ctx, exec.Command(bin, args...), "/healthz")
}

func startBare(ctx context.Context) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p := &process{addr: addr, env: os.Environ()}
	return p, p.start(ctx, exec.Command(os.Args[0], "-bare", addr), "/0")
}

// start runs a server and waits until it answers.
func (p *process) start(ctx context.Context, cmd *exec.Cmd, path string) error {
	log, err := os.CreateTemp("", "atrium-bench-log-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(log.Name()) }()
	p.cmd, cmd.Env, cmd.Stderr = cmd, p.env, log
	if err := cmd.Start(); err != nil {
		return err
	}
	for range 200 {
		if a, err := once(p.addr, get(p.addr, path, "")); err == nil && a.status == http.StatusOK {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			p.stop()
			return ctx.Err()
		}
	}
	p.stop()
	text, _ := os.ReadFile(log.Name())
	return fmt.Errorf("%s does not answer: %s", cmd, text)
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
	if p.dir != "" {
		_ = os.RemoveAll(p.dir)
	}
}

// cpuTime returns the processor time that the process has used.
func (p *process) cpuTime() time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	// The second field is the name in brackets, which may hold anything.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on Linux
}

// atrium runs a command of the binary on the same database and decodes what it
// prints.
func (p *process) atrium(ctx context.Context, into any, stdin *bytes.Buffer, args ...string) error {
	cmd := exec.CommandContext(ctx, p.bin, append(args, "-o", "json")...)
	cmd.Env = p.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if stdin != nil {
		cmd.Stdin = stdin
	}
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return json.Unmarshal(out, into)
}

// serveBare answers GET /N with N bytes, by as little code as net/http allows.
func serveBare(ctx context.Context, addr string) error {
	server := &http.Server{Addr: addr, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(n))
		_, _ = w.Write(filler[:min(n, len(filler))])
	})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

var filler = bytes.Repeat([]byte("x"), 1<<20)

func bareRequest(addr string, size int) func(int) []byte {
	request := get(addr, "/"+strconv.Itoa(size), "")
	return func(int) []byte { return request }
}

func get(addr, path, key string) []byte {
	return head("GET", addr, path, key, nil)
}

func head(method, addr, path, key string, body []byte) []byte {
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	fmt.Fprintf(w, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, addr)
	if key != "" {
		fmt.Fprintf(w, "x-api-key: %s\r\n", key)
	}
	if body != nil {
		fmt.Fprintf(w, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	_, _ = w.WriteString("\r\n")
	_, _ = w.Write(body)
	_ = w.Flush()
	return b.Bytes()
}
