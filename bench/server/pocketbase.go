package server

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A PocketBase is a process of bench/pocketbase.
type PocketBase struct {
	*Process
	Token string // of a superuser
}

// StartPocketBase starts a binary of bench/pocketbase on new files, which Stop removes,
// and sends it records. It returns once all records are stored.
func StartPocketBase(ctx context.Context, bin string, records io.Reader) (*PocketBase, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "atrium-bench-pocketbase-")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(bin, "-addr", addr, "-dir", dir)
	cmd.Stdin = records
	p, err := start(ctx, cmd, addr, "/api/health", dir)
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		p.Stop()
		return nil, err
	}
	return &PocketBase{p, strings.TrimSpace(string(token))}, nil
}
