package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/engine/sqlite"
)

// countVariable makes this binary count the entries of the database that it names, with a clock that is ahead.
const countVariable = "ATRIUM_CRASH_TEST_COUNT"

// aheadBy is long enough for all entries of now to be counted.
const aheadBy = 10 * time.Minute

const (
	countRounds  = 3     // servers that are killed
	countClients = 4     // of each server
	oldEntries   = 8_000 // in the database before the first server, which counts them
	countedHours = 40    // age of the oldest entry
)

// Servers that are killed while they count entries, and while these are appended, imported, moved and erased, leave
// counts in which each stored entry is counted once.
func TestKilledServersCountEachEntryOnce(t *testing.T) {
	for name, newDatabase := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng, db := random(t), newDatabase(t)
			c := newCounted(t, db, rng)
			for round := range countRounds {
				s, before := start(t, db.url), c.acknowledged()
				ctx, cancel := context.WithCancel(t.Context())
				wait := c.load(ctx, s.base)
				waitUntil(t, "a server acknowledges changes", startLimit, func() bool {
					now := c.acknowledged()
					return now != before && (round < countRounds-1 || now.appended*now.imported*now.moved*now.erased > 0)
				})
				time.Sleep(time.Duration(rng.IntN(int(200 * time.Millisecond))))
				s.kill()
				cancel()
				wait()
				s.checkLog()
				if name == "postgres" {
					db.waitForNobody(t)
				}
			}
			killed := 0 // the last entries are not settled for the clock of a server
			for limit := 100 * time.Millisecond; ; killed++ {
				job := counting(t, db.url)
				select {
				case <-job.done:
				case <-time.After(limit/2 + time.Duration(rng.Int64N(int64(limit)))):
					job.kill()
				}
				if job.cmd.ProcessState.Success() {
					break
				}
				if job.checkLog(); t.Failed() {
					return
				}
				if limit = limit * 3 / 2; limit > startLimit {
					t.Fatal("the counting does not end")
				}
			}
			if name == "postgres" {
				db.waitForNobody(t)
			}
			c.compare(t)
			t.Logf("killed %d servers and %d counting processes: acknowledged %+v", countRounds, killed, c.acknowledged())
		})
	}
}

// counting starts a process that counts all entries and then ends.
func counting(t *testing.T, url string) *server {
	t.Helper()
	cmd := exec.Command(executable(t))
	cmd.Env = []string{countVariable + "=" + url}
	return spawn(t, cmd)
}

// countAhead is what the process does.
func countAhead(url string) error {
	ctx := context.Background()
	s, err := openAhead(ctx, url)
	if err != nil {
		return err
	}
	if _, err := s.SweepCounts(ctx, ""); err != nil {
		return err
	}
	// What killed servers have left of an erased account is counted until it is deleted.
	for _, job := range []func(context.Context) (more bool, err error){s.UpdateCounts, s.ContinueErasures, s.UpdateCounts} {
		for more := true; more && err == nil; {
			more, err = job(ctx)
		}
	}
	return errors.Join(err, s.Close())
}

// openAhead opens a store with a clock that is aheadBy ahead.
func openAhead(ctx context.Context, url string) (*store.Store, error) {
	var db engine.DB
	var err error
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		db, err = sqlite.Open(path, sqlite.Options{})
	} else {
		db, err = postgres.Open(ctx, url, postgres.Options{})
	}
	if err != nil {
		return nil, err
	}
	return store.New(db, func() time.Time { return time.Now().Add(aheadBy) }), nil
}

// counted is a tenant whose entries are counted while its clients change them.
type counted struct {
	tenant *tenant
	key    string // with every scope
	url    string
	rngs   []*rand.Rand // of each client

	appended, imported, moved, erased atomic.Int64

	mu      sync.Mutex
	entries []atrium.EntryID // acknowledged ones, some of which are erased; guarded by mu
	n       int              // of domains; guarded by mu
}

// An acknowledgment has the numbers of changes that servers have acknowledged.
type acknowledgment struct{ appended, imported, moved, erased int64 }

func (c *counted) acknowledged() acknowledgment {
	return acknowledgment{c.appended.Load(), c.imported.Load(), c.moved.Load(), c.erased.Load()}
}

// newCounted returns the first tenant of a database, with old entries.
func newCounted(t *testing.T, db *database, rng *rand.Rand) *counted {
	t.Helper()
	c := &counted{tenant: db.tenants[0], url: db.url}
	for range countClients {
		c.rngs = append(c.rngs, rand.New(rand.NewPCG(rng.Uint64(), 0)))
	}
	withStore(t, db.url, func(s *store.Store) {
		id, key, hash := auth.NewKey()
		k := atrium.APIKey{ID: id, TenantID: c.tenant.id, Name: "manage", Scopes: atrium.Scopes{atrium.ScopeManage}}
		if _, _, err := s.CreateKey(t.Context(), atrium.CommandLine(c.tenant.id), k, hash); err != nil {
			t.Fatal(err)
		}
		c.key = key
		account := &atrium.Account{ID: atrium.NewID[atrium.AccountID](), Domain: "old.example"}
		chunk := []store.Import{{Record: account}}
		for n := range oldEntries {
			chunk = append(chunk, store.Import{Record: oldEntry(account.ID, rng), Created: true})
			if len(chunk) < 1000 && n < oldEntries-1 {
				continue
			}
			if _, err := s.Import(t.Context(), atrium.CommandLine(c.tenant.id), chunk); err != nil {
				t.Fatal(err)
			}
			chunk = nil
		}
	})
	return c
}

// kindOf returns a random source and type.
func kindOf(rng *rand.Rand) (source, kind string) {
	return []string{"crm", "ads", "web"}[rng.IntN(3)], []string{"webhook", "deal"}[rng.IntN(2)]
}

// oldEntry returns an entry of the last hours, whose identifier often has the time at which it was stored.
func oldEntry(account atrium.AccountID, rng *rand.Rand) *atrium.Entry {
	at := time.Now().Add(-time.Hour - time.Duration(rng.Int64N(int64((countedHours-2)*time.Hour))))
	e := &atrium.Entry{ID: atrium.NewID[atrium.EntryID](), AccountID: account, CreatedAt: atrium.At(at)}
	e.Source, e.Type = kindOf(rng)
	e.Payload = []byte("{}")
	if rng.IntN(4) > 0 {
		const random = 16 // characters at the end of an identifier
		first := atrium.FirstID[atrium.EntryID](at)
		e.ID = first[:len(first)-random] + e.ID[len(e.ID)-random:]
	}
	return e
}

// load makes clients change the entries until ctx ends. wait returns when they have ended.
func (c *counted) load(ctx context.Context, base string) (wait func()) {
	var running sync.WaitGroup
	for _, rng := range c.rngs {
		running.Go(func() {
			client := &http.Client{Timeout: startLimit}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				c.change(ctx, client, base, rng)
			}
		})
	}
	return running.Wait
}

// change makes one change. Its response is lost if the server is killed.
func (c *counted) change(ctx context.Context, client *http.Client, base string, rng *rand.Rand) {
	send := func(method, path, body, contentType string, into any) bool {
		r, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
		if err != nil {
			return false
		}
		r.Header.Set("x-api-key", c.key)
		r.Header.Set("If-Match", "*")
		if contentType != "" {
			r.Header.Set("Content-Type", contentType)
		}
		response, err := client.Do(r)
		if err != nil {
			return false
		}
		defer func() { _ = response.Body.Close() }()
		b, err := io.ReadAll(response.Body)
		ok := err == nil && response.StatusCode/100 == 2
		return ok && (into == nil || json.Unmarshal(b, into) == nil)
	}
	var outcomes struct {
		Outcomes []struct {
			ID      atrium.EntryID   `json:"accountLogId"`
			Account atrium.AccountID `json:"accountId"`
		} `json:"outcomes"`
	}
	appendTo := func(domain string) bool {
		var entries []string
		for n := range 1 + rng.IntN(20) {
			source, kind := kindOf(rng)
			entries = append(entries, fmt.Sprintf(`{"source":%q,"type":%q,"payload":{},"domain":%q,"idempotencyKey":"%s-%d-%d"}`,
				source, kind, domain, domain, n, rng.IntN(200)))
		}
		if !send(http.MethodPost, "/manage/v0/account_logs", `{"entries":[`+strings.Join(entries, ",")+"]}", "application/json", &outcomes) {
			return false
		}
		c.appended.Add(1)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, o := range outcomes.Outcomes {
			c.entries = append(c.entries, o.ID)
		}
		return len(outcomes.Outcomes) > 0
	}
	switch rng.IntN(8) {
	case 0, 1, 2:
		appendTo(fmt.Sprintf("a%d.example", rng.IntN(10)))
	case 3, 4:
		var lines bytes.Buffer
		account := atrium.NewID[atrium.AccountID]()
		c.mu.Lock()
		c.n++
		fmt.Fprintf(&lines, `{"kind":"account","accountId":%q,"domain":"imported%d.example"}`+"\n", account, c.n)
		c.mu.Unlock()
		n := 1 + rng.IntN(50)
		for range n {
			e := oldEntry(account, rng)
			fmt.Fprintf(&lines, `{"kind":"accountLog","accountLogId":%q,"accountId":%q,"source":%q,"type":%q,"payload":{},"createdAt":%q}`+"\n",
				e.ID, account, e.Source, e.Type, e.CreatedAt)
		}
		if send(http.MethodPost, "/manage/v0/import", lines.String(), "application/x-ndjson", nil) {
			c.imported.Add(int64(n))
		}
	case 5, 6:
		c.mu.Lock()
		var entry atrium.EntryID
		if len(c.entries) > 0 {
			entry = c.entries[rng.IntN(len(c.entries))]
		}
		c.mu.Unlock()
		var target struct {
			Items []struct {
				ID atrium.AccountID `json:"accountId"`
			} `json:"items"`
		}
		if entry == "" || !send(http.MethodGet, "/manage/v0/accounts?limit=20", "", "", &target) || len(target.Items) == 0 {
			return
		}
		to := target.Items[rng.IntN(len(target.Items))].ID
		if send(http.MethodPost, "/manage/v0/account_logs/"+string(entry)+"/move", fmt.Sprintf(`{"accountId":%q}`, to), "application/json", nil) {
			c.moved.Add(1)
		}
	case 7:
		c.mu.Lock()
		c.n++
		domain := fmt.Sprintf("erased%d.example", c.n)
		c.mu.Unlock()
		if appendTo(domain) && send(http.MethodDelete, "/manage/v0/accounts/"+string(outcomes.Outcomes[0].Account), "", "", nil) {
			c.erased.Add(1)
		}
	}
}

// compare fails the test unless the counts of the tenant are those of its stored entries, by hour, source and type.
func (c *counted) compare(t *testing.T) {
	t.Helper()
	s, err := openAhead(t.Context(), c.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	want := map[string]int64{}
	if err := s.Export(t.Context(), c.tenant.id, func(r store.Record) error {
		if e, ok := r.(*atrium.Entry); ok {
			want[fmt.Sprint(atrium.At(e.CreatedAt.Std().Truncate(time.Hour)), " ", e.Source, " ", e.Type)]++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	until := atrium.At(time.Now().Add(aheadBy).Truncate(time.Hour).Add(time.Hour))
	q := atrium.CountQuery{Interval: atrium.Hourly, Since: until - (countedHours+1)*atrium.Hourly.Micros(), Until: until, Series: atrium.MaxCountSeries}
	found, err := s.EntryCounts(t.Context(), c.tenant.id, q)
	if err != nil {
		t.Fatal(err)
	}
	if found.CompleteUntil == nil || found.CompleteUntil.Std().Before(time.Now()) {
		t.Errorf("the counts are complete until %v", found.CompleteUntil)
	}
	got := map[string]int64{}
	for _, series := range found.Series {
		for i, n := range series.Counts {
			if n != 0 {
				got[fmt.Sprint(q.Since+atrium.Time(i)*q.Interval.Micros(), " ", series.Source, " ", series.Type)] = n
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if got[k] != want[k] {
			t.Errorf("%s: %d entries are counted, %d are stored", k, got[k], want[k])
		}
		delete(got, k)
	}
	if len(got) > 0 || found.Other.Total != 0 {
		t.Errorf("entries that are not stored are counted: %v, and %d others", got, found.Other.Total)
	}
}
