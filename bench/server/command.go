package server

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Usage is the time and memory that a command took.
type Usage struct {
	Time   time.Duration
	Memory int64 // peak resident memory in bytes
}

// Run runs a command of the service and returns its usage, also after an error.
func Run(ctx context.Context, bin string, args ...string) (used Usage, err error) {
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Stderr = os.Stderr
	start := time.Now()
	err = cmd.Run()
	used.Time = time.Since(start)
	if cmd.ProcessState != nil {
		usage, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		used.Memory = usage.Maxrss << 10
	}
	return used, err
}

// NewTenant creates a database and a tenant in it, and returns the identifier of the tenant.
func NewTenant(ctx context.Context, bin, database string) (string, error) {
	if out, err := exec.CommandContext(ctx, bin, "migrate", "--database", database).CombinedOutput(); err != nil {
		return "", fmt.Errorf("create the database: %w: %s", err, out)
	}
	out, err := exec.CommandContext(ctx, bin, "tenants", "create", "--name", "Bench", "--database", database, "-o", "json").Output()
	if err != nil {
		return "", fmt.Errorf("create a tenant: %w", err)
	}
	var t struct {
		TenantID string `json:"tenantId"`
	}
	err = json.Unmarshal(out, &t)
	return t.TenantID, err
}
