//go:build citus

package nodes_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium/internal/store/engine/postgrestest"
	"atrium/test/nodes"
)

// TestCitusCostOfRequests prints the processor time of a POST and of a GET with 16 clients on one
// node: of the node, of a plain server, and of the servers of a cluster.
func TestCitusCostOfRequests(t *testing.T) {
	c := newCluster(t)
	plain := serviceAt(t, postgrestest.Shared(t).NewDatabase(t))
	pid := func(server string) int {
		n, err := strconv.Atoi(strings.Fields(c.query(t, server, "SELECT pg_read_file('postmaster.pid')"))[0])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var workers []int
	for _, w := range c.workers {
		workers = append(workers, pid(w))
	}
	account := map[*service]string{}
	for _, request := range []string{"POST", "GET"} {
		for round := range 3 {
			for _, on := range []struct {
				name    string
				service *service
				pids    map[string][]int
			}{
				{"PostgreSQL", plain, map[string][]int{"server": {pid(plain.database)}}},
				{"Citus", c.service, map[string][]int{"coordinator": {pid(c.coordinator)}, "workers": workers}},
			} {
				on.pids["node"] = []int{on.service.nodes[0].PID()}
				before := map[string]time.Duration{}
				for name, pids := range on.pids {
					before[name] = processorTime(pids)
				}
				n := sendFor(t, on.service, request, round, account, 4*time.Second)
				var costs []string
				for _, name := range []string{"node", "server", "coordinator", "workers"} {
					if pids := on.pids[name]; pids != nil {
						costs = append(costs, fmt.Sprintf("%s %d µs", name, (processorTime(pids)-before[name]).Microseconds()/int64(max(1, n))))
					}
				}
				t.Logf("%s on %s: %d requests, %s", request, on.name, n, strings.Join(costs, ", "))
			}
		}
	}
}

// sendFor sends requests of 16 clients to the first node of a service, and returns their number.
func sendFor(t *testing.T, s *service, method string, round int, account map[*service]string, d time.Duration) (n int) {
	t.Helper()
	client := nodes.Client(t)
	url, counts := "http://"+s.nodes[0].Addr+"/v0/", make([]int, clients)
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for end := time.Now().Add(d); time.Now().Before(end); counts[c]++ {
				var a response
				if method == "GET" {
					a = send(client, method, url+"accounts/"+account[s], s.key, "")
				} else {
					a = send(client, method, url+"account_logs", s.key, fmt.Sprintf(
						`{"source":"cost","payload":{"text":%q},"domain":"d%d.example"}`, strings.Repeat("x", 900), counts[c]%100),
						fmt.Sprintf("Idempotency-Key: %d-%d-%d", round, c, counts[c]))
				}
				if a.status != 200 && a.status != 201 {
					t.Error(a)
					return
				}
				if c == 0 && method == "POST" {
					var r struct{ AccountID string }
					if err := json.Unmarshal([]byte(a.body), &r); err != nil {
						t.Error(err)
					}
					account[s] = r.AccountID
				}
			}
		})
	}
	all.Wait()
	for _, count := range counts {
		n += count
	}
	return n
}

// processorTime returns the processor time of processes, of their children, and of the children
// that have ended.
func processorTime(pids []int) (sum time.Duration) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // from the state on
		tick := func(i int) time.Duration {
			n, _ := strconv.Atoi(fields[i])
			return time.Duration(n) * time.Second / 100
		}
		parent, _ := strconv.Atoi(fields[1])
		switch {
		case slices.Contains(pids, pid):
			sum += tick(11) + tick(12) + tick(13) + tick(14)
		case slices.Contains(pids, parent):
			sum += tick(11) + tick(12)
		}
	}
	return sum
}
