package server

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"atrium/bench/load"
)

// bareVariable marks a process of this program as the reference.
const bareVariable = "ATRIUM_BENCH_BARE"

// BeBare must be called first in main or TestMain of a program that calls StartBare. In
// the process that StartBare starts, it does not return.
func BeBare() {
	addr, bare := os.LookupEnv(bareVariable)
	if !bare {
		return
	}
	fmt.Fprintln(os.Stderr, http.ListenAndServe(addr, http.HandlerFunc(response)))
	os.Exit(1)
}

// StartBare starts the least expensive HTTP service in Go: net/http with a handler that
// responds to GET /N with N bytes.
func StartBare(ctx context.Context) (*Process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), bareVariable+"="+addr)
	return start(ctx, cmd, addr, "/0", "")
}

// BareKind is a request to which the reference responds with size bytes, at most 1 MiB.
func BareKind(addr string, size int) load.Kind {
	request := load.Get(addr, "/"+strconv.Itoa(size))
	return load.Kind{Name: "bare", Status: http.StatusOK, Request: func(int) []byte { return request }}
}

var filler = bytes.Repeat([]byte("x"), 1<<20)

func response(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(n))
	_, _ = w.Write(filler[:min(max(n, 0), len(filler))])
}
