package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"atrium/bench/load"
)

// An Atrium is a running node of the service.
type Atrium struct {
	*Process
	bin     string
	env     []string
	metrics string // address of its metrics
}

// StartAtrium starts a binary of the service with additional flags of serve. If database
// is "", it uses a new SQLite file and removes it afterwards. Flags may change the address
// of the metrics, but Metric fails then.
func StartAtrium(ctx context.Context, bin, database string, flags ...string) (*Atrium, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	metrics, err := freeAddr()
	if err != nil {
		return nil, err
	}
	dir := ""
	if database == "" {
		if dir, err = os.MkdirTemp("", "atrium-bench-"); err != nil {
			return nil, err
		}
		database = "sqlite:" + filepath.Join(dir, "bench.db")
	}
	a := &Atrium{bin: bin, env: append(os.Environ(), "ATRIUM_DATABASE="+database, "ATRIUM_ANONYMOUS_RATE=0"), metrics: metrics} // one client sends all
	cmd := exec.Command(bin, slices.Concat([]string{"serve", "--addr", addr, "--metrics-addr", metrics}, flags)...)
	cmd.Env = a.env
	a.Process, err = start(ctx, cmd, addr, "/healthz", dir)
	return a, err
}

// Command runs a command of the binary on the same database, and decodes its output unless into is nil.
func (a *Atrium) Command(ctx context.Context, into any, stdin io.Reader, args ...string) error {
	if into != nil {
		args = append(args, "-o", "json")
	}
	cmd := exec.CommandContext(ctx, a.bin, args...)
	cmd.Env, cmd.Stdin = a.env, stdin
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(out, into)
}

// Metric returns the value of a metric without labels.
func (a *Atrium) Metric(name string) (float64, error) {
	response, err := load.Once(a.metrics, load.Get(a.metrics, "/metrics"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(response.Body)) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("no metric %s", name)
}
