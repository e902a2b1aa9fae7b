package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium/internal/store/engine"
)

const crowd = 500

// Paces of storage: at normal speed, or blocked until all requests are queued, so that
// they share a transaction.
const (
	running = "as they come"
	heldUp  = "piled up"
)

func inEveryPace(t *testing.T, test func(t *testing.T, s *service, pace string)) {
	t.Helper()
	t.Parallel()
	for _, e := range engines {
		for _, pace := range []string{running, heldUp} {
			t.Run(e.name+" "+pace, func(t *testing.T) {
				t.Parallel()
				test(t, start(t, e.open(t)), pace)
			})
		}
	}
}

// holdUp blocks commits for a while. An entry that waits for the commit makes the writer
// queue later ones.
func (s *service) holdUp(t *testing.T) (wait func()) {
	t.Helper()
	var once sync.Once
	held, done := make(chan struct{}), make(chan error, 2)
	go func() {
		done <- s.db.Write(context.Background(), func(engine.Tx) error {
			once.Do(func() { close(held) })
			time.Sleep(300 * time.Millisecond)
			return nil
		})
	}()
	<-held
	go func() {
		s.send(t, post(s.north.key, `{"source":"waits","payload":{}}`))
		done <- nil
	}()
	time.Sleep(30 * time.Millisecond)
	return func() {
		if err := errors.Join(<-done, <-done); err != nil {
			t.Error(err)
		}
	}
}

// atOnce sends n concurrent requests, each on a new connection, and returns the responses
// in the order of the requests.
func (s *service) atOnce(t *testing.T, pace string, n int, of func(i int) request) []response {
	t.Helper()
	if pace == heldUp {
		defer s.holdUp(t)()
	}
	client := &http.Client{Timeout: exchangeTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	defer client.CloseIdleConnections()
	responses, errs := make([]response, n), make([]error, n)
	var ready, done sync.WaitGroup
	ready.Add(n)
	for i := range n {
		r := of(i)
		sent, err := http.NewRequest(r.method, "http://"+s.addr+r.target, bytes.NewReader(r.body))
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range r.header {
			name, value, _ := strings.Cut(h, ": ")
			sent.Header.Set(name, value)
		}
		done.Go(func() {
			ready.Done()
			ready.Wait()
			res, err := client.Do(sent)
			if err != nil {
				errs[i] = err
				return
			}
			defer func() { _ = res.Body.Close() }()
			b, err := io.ReadAll(res.Body)
			responses[i], errs[i] = response{res.StatusCode, res.Header, b}, err
		})
	}
	done.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	return responses
}

type receipt struct{ AccountID, AccountLogID, CreatedAt string }

func receiptOf(t *testing.T, a response) (r receipt) {
	t.Helper()
	if err := json.Unmarshal(a.body, &r); err != nil || r.AccountLogID == "" {
		t.Fatalf("%s is not a receipt: %v", a, err)
	}
	return r
}

func TestConcurrentReplaysCreateOneEntry(t *testing.T) {
	inEveryPace(t, func(t *testing.T, s *service, pace string) {
		body := `{"source":"crowd","payload":{"a":1},"domain":"crowd.example","name":"Crowd","idempotencyKey":"crowd"}`
		responses := s.atOnce(t, pace, crowd, func(int) request { return post(s.north.key, body) })
		first := 0
		for i, a := range responses {
			if a.status != 201 || !bytes.Equal(a.body, responses[0].body) || receiptOf(t, a).CreatedAt < "2020" {
				t.Fatalf("response %d is %s, the first %s", i, a, responses[0])
			}
			switch a.header.Get("Idempotency-Replayed") {
			case "":
				first++
			case "true":
			default:
				t.Fatalf("response %d has %v", i, a.header)
			}
		}
		if first != 1 {
			t.Errorf("%d responses are not replays, want 1", first)
		}
		if n := s.count(t, s.north, `"idempotencyKey":"crowd"`); n != 1 {
			t.Errorf("%d entries are stored, want 1", n)
		}
	})
}

func TestConcurrentFirstEntriesCreateOneAccount(t *testing.T) {
	inEveryPace(t, func(t *testing.T, s *service, pace string) {
		responses := s.atOnce(t, pace, crowd, func(i int) request {
			spelling := []string{"new.example", "WWW.New.Example", "https://new.example/a"}[i%3]
			return post(s.north.key, fmt.Sprintf(`{"source":"rush","payload":{"n":%d},"domain":%q,"name":"Name %d"}`, i, spelling, i))
		})
		accounts, entries, newest := map[string]bool{}, map[string]bool{}, ""
		for _, a := range responses {
			if a.status != 201 {
				t.Fatal(a)
			}
			r := receiptOf(t, a)
			accounts[r.AccountID], entries[r.AccountLogID] = true, true
			newest = max(newest, r.CreatedAt)
		}
		if len(accounts) != 1 || len(entries) != crowd {
			t.Errorf("%d accounts and %d entries, want 1 and %d", len(accounts), len(entries), crowd)
		}
		if n := s.count(t, s.north, `"kind":"account"`, `"domain":"new.example"`); n != 1 {
			t.Errorf("%d accounts are stored, want 1", n)
		}
		if n := s.count(t, s.north, `"source":"rush"`); n != crowd {
			t.Errorf("%d entries are stored, want %d", n, crowd)
		}
		for id := range accounts {
			a := s.send(t, get("/v0/accounts/"+id, "x-api-key: "+s.north.key))
			var shown struct{ LatestActivityAt, Name string }
			if err := json.Unmarshal(a.body, &shown); err != nil || shown.LatestActivityAt != newest || !strings.HasPrefix(shown.Name, "Name ") {
				t.Errorf("the account is %s, and its newest entry of %s", a, newest)
			}
		}
	})
}

func TestConcurrentRequestsWithOneKeyHaveOneWinner(t *testing.T) {
	const bodies = 25
	inEveryPace(t, func(t *testing.T, s *service, pace string) {
		for round := range 3 {
			responses := s.atOnce(t, pace, crowd/2, func(i int) request {
				return post(s.north.key, fmt.Sprintf(`{"source":"mixed","payload":{"n":%d},"domain":"d%d.example"}`, i%bodies, i%bodies),
					fmt.Sprintf("Idempotency-Key: mixed %d", round))
			})
			winners := map[int]string{}
			for i, a := range responses {
				if a.status == 201 {
					winners[i%bodies] = string(a.body)
				}
			}
			if len(winners) != 1 {
				t.Fatalf("%d bodies have won: %v", len(winners), winners)
			}
			for i, a := range responses {
				won, ok := winners[i%bodies]
				if ok && (a.status != 201 || string(a.body) != won) || !ok && a.status != 422 {
					t.Fatalf("response %d, of a body that won %v: %s", i, ok, a)
				}
			}
			if n := s.count(t, s.north, fmt.Sprintf(`"idempotencyKey":"mixed %d"`, round)); n != 1 {
				t.Errorf("%d entries are stored, want 1", n)
			}
		}
	})
}

func TestRejectedRequestsLeaveTheKeyFree(t *testing.T) {
	inEveryPace(t, func(t *testing.T, s *service, pace string) {
		responses := s.atOnce(t, pace, crowd/2, func(i int) request {
			account := s.vars["acme"]
			if i%2 == 0 {
				account = "account_" + s.vars["nobody"]
			}
			return post(s.north.key, fmt.Sprintf(`{"source":"half","payload":{},"accountId":%q,"idempotencyKey":"half"}`, account))
		})
		for i, a := range responses {
			if i%2 == 1 && a.status != 201 || i%2 == 0 && a.status != 404 && a.status != 422 {
				t.Fatalf("response %d: %s", i, a)
			}
		}
		if n := s.count(t, s.north, `"idempotencyKey":"half"`); n != 1 {
			t.Errorf("%d entries are stored, want 1", n)
		}
	})
}

func TestConcurrentConditionalRenamesHaveOneWinner(t *testing.T) {
	inEveryPace(t, func(t *testing.T, s *service, pace string) {
		path := "/v0/accounts/" + s.vars["acme"]
		tag := s.send(t, get(path, "x-api-key: "+s.north.key)).header.Get("ETag")
		responses := s.atOnce(t, pace, 100, func(i int) request {
			if i%2 == 0 { // concurrent activity
				return post(s.north.key, fmt.Sprintf(`{"source":"busy","payload":{},"accountId":%q}`, s.vars["acme"]))
			}
			return patch(s, "acme", fmt.Sprintf(`{"name":"Name %d"}`, i), "If-Match: "+tag)
		})
		renamed := ""
		for i, a := range responses {
			switch {
			case i%2 == 0 && a.status == 201, i%2 == 1 && a.status == 412:
			case i%2 == 1 && a.status == 200 && renamed == "":
				renamed = fmt.Sprintf(`"name":"Name %d"`, i)
			default:
				t.Fatalf("response %d: %s", i, a)
			}
		}
		if a := s.send(t, get(path, "x-api-key: "+s.north.key)); renamed == "" || !strings.Contains(string(a.body), renamed) {
			t.Errorf("%q has won, but the account is %s", renamed, a)
		}
	})
}
