package nodes_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"atrium/internal/store/engine/postgrestest"
	"atrium/test/nodes"
)

const (
	crowd  = 90 // concurrent requests, a third of them to each node
	rounds = 3
)

// entriesAtOnce sends concurrent entries to the nodes in turn, and returns the responses in the order of the requests.
func (s *service) entriesAtOnce(t *testing.T, body func(i int) string) []response {
	t.Helper()
	return s.atOnce(t, "/v0/account_logs", s.key, body)
}

// atOnce is entriesAtOnce for POST requests to any path, which all have the same key and headers.
func (s *service) atOnce(t *testing.T, path, key string, body func(i int) string, headers ...string) []response {
	t.Helper()
	client := &http.Client{Timeout: settled, Transport: &http.Transport{MaxIdleConnsPerHost: crowd}}
	defer client.CloseIdleConnections()
	responses := make([]response, crowd)
	var ready, done sync.WaitGroup
	ready.Add(crowd)
	for i := range responses {
		url := "http://" + s.nodes[i%len(s.nodes)].Addr + path
		done.Go(func() {
			ready.Done()
			ready.Wait()
			responses[i] = send(client, "POST", url, key, body(i), headers...)
		})
	}
	done.Wait()
	return responses
}

// onEveryWay runs a test on nodes with direct connections to the database, and on nodes
// behind a pool.
func onEveryWay(t *testing.T, test func(t *testing.T, s *service)) {
	t.Helper()
	t.Run("directly", func(t *testing.T) { test(t, newService(t)) })
	t.Run("through a pool", func(t *testing.T) { test(t, newPooledService(t)) })
}

func newPooledService(t *testing.T) *service {
	t.Helper()
	server := postgrestest.Shared(t)
	return serviceAt(t, nodes.Pool(t, server, server.NewDatabase(t)), "--database-statements", "unprepared")
}

func TestConcurrentReplaysOnAllNodesCreateOneEntry(t *testing.T) {
	onEveryWay(t, func(t *testing.T, s *service) {
		for round := range rounds {
			responses := s.entriesAtOnce(t, func(int) string {
				return fmt.Sprintf(`{"source":"crowd","payload":{"a":1},"domain":"crowd%d.example","idempotencyKey":"crowd %d"}`, round, round)
			})
			first := 0
			for i, a := range responses {
				if a.status != 201 || a.body != responses[0].body {
					t.Fatalf("response %d is %s, the first %s", i, a, responses[0])
				}
				if a.header.Get("Idempotency-Replayed") == "" {
					first++
				}
			}
			if first != 1 {
				t.Errorf("%d responses are not replays, want 1", first)
			}
		}
		if accounts, entries := s.export(t); len(accounts) != rounds || len(entries) != rounds {
			t.Errorf("%d accounts and %d entries are stored, want %d of each", len(accounts), len(entries), rounds)
		}
	})
}

func TestRequestsWithOneKeyOnAllNodesHaveOneWinner(t *testing.T) {
	const bodies = 10 // not a multiple of the number of nodes, so that each node gets all of them
	onEveryWay(t, func(t *testing.T, s *service) {
		for round := range rounds {
			responses := s.entriesAtOnce(t, func(i int) string {
				return fmt.Sprintf(`{"source":"mixed","payload":{"n":%d},"domain":"d%d.example","idempotencyKey":"mixed %d"}`, i%bodies, i%bodies, round)
			})
			winners := map[int]string{}
			for i, a := range responses {
				if a.status == 201 {
					winners[i%bodies] = a.body
				}
			}
			if len(winners) != 1 {
				t.Fatalf("%d bodies have won: %v", len(winners), winners)
			}
			for i, a := range responses {
				won, ok := winners[i%bodies]
				if ok && (a.status != 201 || a.body != won) || !ok && a.status != 422 {
					t.Fatalf("response %d, of a body that won %v: %s", i, ok, a)
				}
			}
		}
		if _, entries := s.export(t); len(entries) != rounds {
			t.Errorf("%d entries are stored, want %d", len(entries), rounds)
		}
	})
}

func TestFirstEntriesOnAllNodesCreateOneAccount(t *testing.T) {
	onEveryWay(t, func(t *testing.T, s *service) {
		for round := range rounds {
			responses := s.entriesAtOnce(t, func(i int) string {
				spelling := fmt.Sprintf([]string{"new%d.example", "WWW.New%d.Example", "https://new%d.example/a"}[i/3%3], round)
				return fmt.Sprintf(`{"source":"rush","payload":{"n":%d},"domain":%q,"name":"Name %d"}`, i, spelling, i)
			})
			seen := map[string]bool{}
			for _, a := range responses {
				var r struct{ AccountID string }
				if err := json.Unmarshal([]byte(a.body), &r); err != nil || a.status != 201 {
					t.Fatal(a, err)
				}
				seen[r.AccountID] = true
			}
			if len(seen) != 1 {
				t.Errorf("the responses have %d accounts, want 1", len(seen))
			}
		}
		accounts, entries := s.export(t)
		if len(accounts) != rounds || len(entries) != rounds*crowd {
			t.Errorf("%d accounts and %d entries are stored, want %d and %d", len(accounts), len(entries), rounds, rounds*crowd)
		}
		for _, a := range accounts {
			if !strings.HasPrefix(a.Domain, "new") {
				t.Errorf("an account of %s", a.Domain)
			}
		}
	})
}
