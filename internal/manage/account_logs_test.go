package manage_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
	"atrium/internal/manage"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

// logs records nothing. It counts and orders the entries that are submitted.
type logs struct {
	mu      sync.Mutex
	at      map[string]int // guarded by mu; entries in flight, by key
	most    int            // guarded by mu; the maximum number in flight
	order   []string       // guarded by mu; sources
	arrived chan struct{}  // receives one value per entry, if not nil
	hold    chan struct{}  // if not nil, submissions wait until it is closed
}

func (l *logs) Submit(_ context.Context, d *atrium.Draft) (atrium.Receipt, error) {
	l.mu.Lock()
	l.at[""]++
	l.most = max(l.most, l.at[""])
	l.order = append(l.order, d.Source)
	if d.IdempotencyKey != "" {
		l.at[d.IdempotencyKey]++
	}
	together := l.at[d.IdempotencyKey]
	l.mu.Unlock()
	if l.arrived != nil {
		l.arrived <- struct{}{}
		<-l.hold
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at[""]--
	if d.IdempotencyKey != "" {
		l.at[d.IdempotencyKey]--
	}
	switch {
	case d.Source == "full":
		return atrium.Receipt{}, atrium.Unavailable(errors.New("the write queue is full"))
	case d.Source == "bug":
		return atrium.Receipt{}, errors.New("a bug")
	case d.Source == "panic":
		panic("out of order")
	case d.IdempotencyKey != "" && together > 1:
		return atrium.Receipt{}, atrium.Errorf(atrium.CodeConflict, "two concurrent submissions with one key")
	}
	return atrium.Receipt{EntryID: atrium.NewID[atrium.EntryID](), Source: d.Source, Type: d.Type}, nil
}

// key is a principal with every scope, in a new tenant.
type key struct{}

func (key) Authenticate(context.Context, netip.Addr, string) (auth.Principal, error) {
	return auth.Principal{TenantID: atrium.NewID[atrium.TenantID](), KeyID: atrium.NewID[atrium.KeyID](), Scopes: atrium.ManageScopes()}, nil
}

// record sends entries and returns the status and the source of each outcome.
func (l *logs) record(t *testing.T, log *slog.Logger, entries ...string) (outcomes []string) {
	t.Helper()
	l.at = map[string]int{}
	server := &rest.API{Keys: key{}, Log: log}
	w := httptest.NewRecorder()
	body := `{"entries":[` + strings.Join(entries, ",") + `]}`
	server.Handler((&manage.API{Logs: l}).Routes(), nil).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/manage/v0/account_logs", strings.NewReader(body)))
	var response struct {
		Outcomes []struct {
			Status       int
			Source, Code string
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &response); err != nil || w.Code != http.StatusOK || len(response.Outcomes) != len(entries) {
		t.Fatalf("%d entries: %d %s", len(entries), w.Code, w.Body)
	}
	for _, o := range response.Outcomes {
		outcomes = append(outcomes, fmt.Sprint(o.Status, o.Source, o.Code))
	}
	return outcomes
}

func TestFailedEntryDoesNotAffectOthers(t *testing.T) {
	var log bytes.Buffer
	l := &logs{}
	entry := func(source string) string { return fmt.Sprintf(`{"source":%q,"payload":{}}`, source) }
	got := l.record(t, slog.New(slog.NewTextHandler(&log, nil)), entry("a"), entry("full"), entry(""), entry("bug"), entry("panic"), entry("b"))
	if want := "[201a 503unavailable 400invalid_request 500internal 500internal 201b]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	for _, text := range []string{"a bug", "panic: out of order", "the write queue is full"} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("the log does not contain %s: %s", text, log.String())
		}
	}
}

func TestNestingLimitAppliesPerEntry(t *testing.T) {
	entry := func(levels int) string {
		return `{"source":"s","payload":` + strings.Repeat(`{"a":`, levels-1) + "1" + strings.Repeat("}", levels)
	}
	got := (&logs{}).record(t, slog.New(slog.DiscardHandler), entry(63), entry(strictjson.MaxDepth), entry(strictjson.MaxDepth+1), entry(9000), entry(2))
	if want := "[201s 201s 400invalid_request 400invalid_request 201s]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// The batch as a whole must be JSON, at any depth: entries cannot be told apart in a body
// that is not.
func TestInvalidJSONRejectsTheWholeBatch(t *testing.T) {
	for body, where := range map[string]string{
		`{"entries":[{"source":"a","payload":{}},{"source":"b","payload":{"x":1,"x":2}}]}`: "/entries/1/payload/x",
		`{"entries":[{"source":"a","payload":{}},{"source":"\ud800","payload":{}}]}`:       "/entries/1/source",
		`{"entries":[{"source":"a","payload":{}},{"source":"b" "payload":{}}]}`:            "/entries/1",
		`{"entries":` + strings.Repeat("[", 20_000):                                        "/entries" + strings.Repeat("/0", 124),
	} {
		w := httptest.NewRecorder()
		server := &rest.API{Keys: key{}, Log: slog.New(slog.DiscardHandler)}
		server.Handler((&manage.API{Logs: &logs{at: map[string]int{}}}).Routes(), nil).
			ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/manage/v0/account_logs", strings.NewReader(body)))
		var problem struct{ Errors []struct{ Pointer string } }
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || w.Code != http.StatusBadRequest || len(problem.Errors) != 1 || problem.Errors[0].Pointer != where {
			t.Errorf("%.90s: %d %s, want 400 at %s", body, w.Code, w.Body, where)
		}
	}
}

// Many invalid entries fit in a small body, and each takes longer than a valid one.
func TestABatchOfManyEntriesIsHeavyWork(t *testing.T) {
	send := func(entries int, busy bool) (status, submitted int) {
		l := &logs{at: map[string]int{}}
		heavy := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 1})
		if busy {
			if err := heavy.Acquire(t.Context(), "another"); err != nil {
				t.Fatal(err)
			}
		}
		server := &rest.API{Keys: key{}, Log: slog.New(slog.DiscardHandler), Limits: rest.Limits{Heavy: heavy}}
		w := httptest.NewRecorder()
		body := `{"entries":[{"source":"s","payload":{}}` + strings.Repeat(",{}", entries-1) + `]}`
		server.Handler((&manage.API{Logs: l}).Routes(), nil).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/manage/v0/account_logs", strings.NewReader(body)))
		return w.Code, len(l.order)
	}
	for _, c := range []struct {
		entries, status, submitted int
		busy                       bool
	}{{1000, 200, 1, false}, {1000, 503, 0, true}, {2, 200, 1, true}} {
		if status, submitted := send(c.entries, c.busy); status != c.status || submitted != c.submitted {
			t.Errorf("%d entries while others do heavy work, %v: status %d, %d submitted", c.entries, c.busy, status, submitted)
		}
	}
}

// Otherwise a response could be a hundred times as long as its request.
func TestABatchHasABoundedNumberOfFaults(t *testing.T) {
	const entries = 200
	body := `{"entries":[` + strings.Repeat(`{"a":1,"b":2,"c":3},`, entries-1) + `{"a":1}]}`
	server := &rest.API{Keys: key{}, Log: slog.New(slog.DiscardHandler)}
	w := httptest.NewRecorder()
	server.Handler((&manage.API{Logs: &logs{at: map[string]int{}}}).Routes(), nil).
		ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/manage/v0/account_logs", strings.NewReader(body)))
	var response struct{ Outcomes []struct{ Errors []any } }
	if err := json.Unmarshal(w.Body.Bytes(), &response); err != nil || len(response.Outcomes) != entries {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	faults := 0
	for i, o := range response.Outcomes {
		if faults += len(o.Errors); len(o.Errors) == 0 {
			t.Errorf("entry %d has no fault", i)
		}
	}
	if faults != entries+atrium.MaxFaults {
		t.Errorf("%d faults", faults)
	}
}

func TestConcurrentSubmitsAreBounded(t *testing.T) {
	const sent, together = 600, 256
	l := &logs{arrived: make(chan struct{}), hold: make(chan struct{})}
	go func() {
		for i := range sent {
			<-l.arrived
			if i == together-1 {
				close(l.hold)
			}
		}
	}()
	entries := make([]string, sent)
	for i := range entries {
		entries[i] = fmt.Sprintf(`{"source":"s%d","payload":{}}`, i)
	}
	for i, outcome := range l.record(t, slog.New(slog.DiscardHandler), entries...) {
		if want := fmt.Sprintf("201s%d", i); outcome != want {
			t.Errorf("outcome %d is %s, want %s", i, outcome, want)
		}
	}
	if l.most != together {
		t.Errorf("%d were submitted at once, want %d", l.most, together)
	}
}

func TestEntriesWithTheSameKeyKeepTheirOrder(t *testing.T) {
	l := &logs{}
	var entries []string
	var want []string
	for i := range 300 {
		entries = append(entries, fmt.Sprintf(`{"source":"s%d","payload":{},"idempotencyKey":"k"}`, i))
		want = append(want, fmt.Sprintf("s%d", i))
	}
	for i, outcome := range l.record(t, slog.New(slog.DiscardHandler), entries...) {
		if outcome != "201"+want[i] {
			t.Errorf("outcome %d is %s", i, outcome)
		}
	}
	if fmt.Sprint(l.order) != fmt.Sprint(want) {
		t.Errorf("they were submitted as %v", l.order)
	}
}
