package hostile

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium/internal/jsonshape"
	"atrium/test/nodes"
)

const (
	noisyClients  = 16 / perByte // the race detector slows them down
	noisyRequests = 2            // per client
	quietRequests = 20
	expensive     = 1<<20 - 500 // size of a payload in bytes

	// maxMemory is the limit in docs/limits.md with the default settings, in bytes.
	maxMemory = 768 << 20
)

// An attack is a request that is as expensive as the limits allow.
type attack struct {
	name, method, path string
	body               []byte
	media              string // "" for JSON
	token              string // of a receiver; "" for a request with a key
}

func attacks() (all []attack) {
	entry := func(payload []byte) []byte {
		return fmt.Appendf(nil, `{"source":"noisy","domain":"noisy.example","idempotencyKey":"{{n}}","payload":%s}`, payload)
	}
	for _, shape := range []jsonshape.Shape{{Name: "unsorted", Make: jsonshape.Unsorted}, {Name: "deep", Make: jsonshape.Deep}, {Name: "objects", Make: jsonshape.Objects}} {
		all = append(all, attack{shape.Name, http.MethodPost, "/v0/account_logs", entry(shape.Make(expensive)), "", ""})
	}
	unsorted := jsonshape.Unsorted(expensive)
	one := fmt.Appendf(nil, `{"source":"noisy","domain":"noisy.example","payload":%s}`, unsorted)
	batch := fmt.Appendf(nil, `{"entries":[%s]}`, bytes.Join([][]byte{one, one, one, one}, []byte(",")))
	const lines = "application/x-ndjson"
	line := fmt.Appendf(nil, `{"kind":"accountLog","accountId":"account_%026d","source":"noisy","idempotencyKey":"{{n}}","payload":%s}`, 0, unsorted)
	return append(all,
		attack{"batch", http.MethodPost, "/manage/v0/account_logs", batch, "", ""},
		attack{"import", http.MethodPost, "/manage/v0/import", line, lines, ""},
		attack{"unknown members", http.MethodPost, "/manage/v0/import", jsonshape.Wide(8 << 20), lines, ""},
		attack{"a line without an end", http.MethodPost, "/manage/v0/import", bytes.Repeat([]byte(" "), 24<<20), lines, ""},
		attack{"a claim", http.MethodPost, "/v0/account_logs", fmt.Appendf(nil, `{"source":"noisy","domain":%q,"payload":{}}`, strings.Repeat("x", expensive)), "", ""},
		attack{"many unknown members", http.MethodPatch, fmt.Sprintf("/manage/v0/accounts/account_%026d", 0), jsonshape.Unsorted(expensive), "", ""},
	)
}

// One tenant's requests must not stop another from being served, nor exceed the memory
// limit. bench/neighbors measures how much they slow it down.
func TestExpensiveRequestsDoNotLockOutOtherTenants(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *server) {
		for _, a := range attacks() {
			s.withstand(t, a)
		}
	})
}

// withstand sends the requests of an attack beside those of another tenant.
func (s *server) withstand(t *testing.T, a attack) {
	t.Helper()
	client := nodes.Client(t)
	key := s.manage
	if strings.HasPrefix(a.path, "/v0/") {
		key = s.key
	}
	peak := s.watchMemory(t)
	var noisy sync.WaitGroup
	for range noisyClients {
		noisy.Go(func() {
			for range noisyRequests {
				if status := s.attempt(t, client, key, a); status == http.StatusInternalServerError {
					t.Errorf("%s: %d", a.name, status)
				}
			}
		})
	}
	quiet := attack{"quiet", http.MethodPost, "/v0/account_logs", []byte(`{"source":"quiet","idempotencyKey":"{{n}}","payload":{}}`), "", ""}
	for range quietRequests {
		if status := s.attempt(t, client, s.other, quiet); status != http.StatusCreated {
			t.Errorf("%s: another tenant gets %d", a.name, status)
		}
	}
	noisy.Wait()
	memory := peak()
	t.Logf("%s: %d MiB", a.name, memory>>20)
	if memory > maxMemory*perByte {
		t.Errorf("%s: the process took %d MiB, and may take %d", a.name, memory>>20, maxMemory*perByte>>20)
	}
}

// attempt sends a request of an attack, and returns the status of the response; 0 for none.
func (s *server) attempt(t *testing.T, client *http.Client, key string, a attack) (status int) {
	t.Helper()
	body := bytes.Replace(a.body, []byte("{{n}}"), strconv.AppendInt(nil, s.number.Add(1), 10), 1)
	r, err := http.NewRequestWithContext(t.Context(), a.method, "http://"+s.Addr+a.path, bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0
	}
	if a.token != "" {
		r.Header.Set("X-Token", a.token)
	} else {
		r.Header.Set("X-Api-Key", key)
	}
	if a.media != "" {
		r.Header.Set("Content-Type", a.media)
	}
	response, err := client.Do(r)
	if err != nil {
		return 0 // the connection may be cut after a rejected body
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// watchMemory starts to sample the anonymous memory of the process. peak returns the
// maximum so far, in bytes.
func (s *server) watchMemory(t *testing.T) (peak func() int) {
	t.Helper()
	most := make(chan int)
	go func() {
		now := 0
		for {
			select {
			case most <- now:
				return
			case <-time.After(10 * time.Millisecond):
				now = max(now, s.anonymous())
			}
		}
	}()
	return func() int { return <-most }
}

// anonymous returns the anonymous memory of the process, in bytes.
func (s *server) anonymous() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	if err != nil {
		return 0
	}
	_, line, _ := strings.Cut(string(status), "\nRssAnon:")
	kibibytes, _ := strconv.Atoi(strings.TrimSpace(strings.SplitN(line, "kB", 2)[0]))
	return kibibytes << 10
}
