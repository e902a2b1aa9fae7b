//go:build linux && !race

package secure // RssAnon is of Linux; the race detector multiplies memory

import (
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The parts of the sum in docs/limits.md, in bytes, with the settings of the test.
const (
	memoryOfSettings   = 4<<20/2*3 + 2<<20 + 1<<20 // body-memory, queue-bytes, response-cache
	memoryOfProcess    = 96 << 20
	memoryOfGarbage    = 192 << 20
	memoryOfConnection = 80 << 10
)

func TestMemoryOfConnectionsIsWithinTheDocumentedBound(t *testing.T) {
	const many = 2000
	s := start(t, "--body-memory", "4MiB", "--batch-max-body", "1MiB", "--queue-bytes", "2MiB", "--response-cache", "1MiB")
	var headers strings.Builder
	headers.WriteString("POST /v0/account_logs HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX-Api-Key: " + s.key + "\r\n")
	for i := range 80 {
		fmt.Fprintf(&headers, "X-%d: %s\r\n", i, strings.Repeat("x", 180))
	}
	unfinished := headers.String() + "\r\n4000\r\n" + strings.Repeat("x", 16_000)
	var sending sync.WaitGroup
	slots := make(chan bool, 16)
	for range many {
		slots <- true
		sending.Go(func() {
			defer func() { <-slots }()
			c, err := tls.Dial("tcp", s.Addr, &tls.Config{RootCAs: s.trust, NextProtos: []string{"http/1.1"}})
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			// Some are refused, and close the connection.
			_, _ = io.WriteString(c, unfinished)
		})
	}
	sending.Wait()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(status), "\nRssAnon:")
	kibibytes, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(line, "kB", 2)[0]))
	if err != nil {
		t.Fatal(err)
	}
	const bound = memoryOfSettings + memoryOfProcess + memoryOfGarbage + many*memoryOfConnection
	t.Logf("%d MiB with %d connections", kibibytes>>10, many)
	if kibibytes<<10 > bound {
		t.Errorf("the process takes %d MiB, above %d MiB", kibibytes>>10, bound>>20)
	}
}
