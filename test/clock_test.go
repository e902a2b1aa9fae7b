package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app/apptest"
	"atrium/internal/auth"
	"atrium/internal/store"
)

// A setClock is the system's clock plus an offset, which tests change while the service
// runs.
type setClock struct{ by atomic.Int64 }

func (c *setClock) now() time.Time { return time.Now().Round(0).Add(time.Duration(c.by.Load())) }

func (c *setClock) set(by time.Duration) { c.by.Store(int64(by)) }

// Runs the service twice on one database at the same time. The clock of one is changed
// again and again; both must behave as if they shared one correct clock.
func TestGuaranteesHoldWhenTheClockJumps(t *testing.T) {
	t.Parallel()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			right := start(t, e.open(t))
			clock := &setClock{}
			wrong := *right
			wrong.store = store.New(right.db, clock.now)
			wrong.addr = apptest.Start(t, wrong.store, right.withSecrets)
			key, id := apptest.Key(t, right.store, right.north.id)

			latest := map[string]string{}
			var account string
			var pages []string
			for i, by := range []time.Duration{0, -time.Hour, time.Hour, -2 * time.Hour, 0} {
				clock.set(by)
				for j, s := range []*service{&wrong, right, &wrong} {
					body := fmt.Sprintf(`{"source":"clock","payload":{},"domain":"clock.example","idempotencyKey":"clock-%d-%d"}`, i, j)
					a := s.send(t, post(key, body))
					again := right.send(t, post(key, body))
					if a.status != http.StatusCreated || again.status != http.StatusCreated || string(a.body) != string(again.body) {
						t.Fatalf("by %s: %s, and then %s", by, a, again)
					}
					account = receiptOf(t, a).AccountID
					var shown struct{ CreatedAt, UpdatedAt, LatestActivityAt string }
					got := s.send(t, get("/v0/accounts/"+account, "x-api-key: "+key))
					if err := json.Unmarshal(got.body, &shown); err != nil || shown.UpdatedAt < shown.CreatedAt || shown.LatestActivityAt < latest[account] {
						t.Errorf("by %s, after %s: %s, %v", by, latest[account], got, err)
					}
					latest[account] = shown.LatestActivityAt
				}
				list := wrong.pages(t, key)
				if pages == nil {
					pages = list
				}
				if !slices.Equal(list, pages) {
					t.Errorf("by %s the pages are %v, want %v", by, list, pages)
				}
			}
			if a := right.send(t, get("/manage/v0/accounts/"+account+"/activity?limit=100", "x-api-key: "+right.north.manage)); entriesIn(t, a) != 15 {
				t.Errorf("the activity: %s", a)
			}

			// The result of the key's lookup is cached. It must not keep the revoked key
			// valid.
			clock.set(-time.Hour)
			if _, err := right.store.RevokeKey(t.Context(), atrium.CommandLine(right.north.id), id, func(atrium.APIKey) error { return nil }); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(auth.CacheTime + exchangeTimeout); wrong.send(t, get("/v0/pages", "x-api-key: "+key)).status != http.StatusUnauthorized; time.Sleep(50 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("a revoked key works after the clock was set back")
				}
			}
		})
	}
}

// pages lists all pages, one at a time.
func (s *service) pages(t *testing.T, key string) (ids []string) {
	t.Helper()
	for cursor, first := "", true; first || cursor != ""; first = false {
		target := "/v0/pages?limit=1"
		if cursor != "" {
			target += "&cursor=" + cursor
		}
		var list struct {
			Items      []struct{ PageID string }
			NextCursor string
		}
		a := s.send(t, get(target, "x-api-key: "+key))
		if err := json.Unmarshal(a.body, &list); err != nil || a.status != http.StatusOK || len(list.Items) != 1 {
			t.Fatalf("%s: %s, %v", target, a, err)
		}
		ids, cursor = append(ids, list.Items[0].PageID), list.NextCursor
	}
	return ids
}

// entriesIn counts the distinct entries of a list.
func entriesIn(t *testing.T, a response) int {
	t.Helper()
	var list struct {
		Items []struct{ AccountLogID string }
	}
	if err := json.Unmarshal(a.body, &list); err != nil {
		t.Fatalf("%s: %v", a, err)
	}
	ids := map[string]bool{}
	for _, item := range list.Items {
		ids[item.AccountLogID] = true
	}
	return len(ids)
}
