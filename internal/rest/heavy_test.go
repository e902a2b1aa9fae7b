package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
	"atrium/internal/telemetry"
)

func TestOnlyLargeBodiesWaitForHeavyWork(t *testing.T) {
	limits := &Limits{Heavy: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2})}
	small, _ := requestOf(limits, "a", "{}")
	large, noted := requestOf(limits, "a", strings.Repeat("x", heavyBody+1))
	others, _ := requestOf(limits, "b", strings.Repeat("x", heavyBody+1))
	ran := 0
	count := func() error { ran++; return nil }
	release, err := large.AcquireHeavy(t.Context()) // all that the tenant may hold
	if err != nil {
		t.Fatal(err)
	}
	if err := small.DecodeBody(t.Context(), count); err != nil || ran != 1 {
		t.Errorf("a small body: %v", err)
	}
	if err := large.DecodeBody(t.Context(), count); atrium.CodeOf(err) != atrium.CodeUnavailable || ran != 1 || noted.Refused != telemetry.ByOverload {
		t.Errorf("a second large body: %v, refused by %q", err, noted.Refused)
	}
	if err := others.DecodeBody(t.Context(), count); err != nil || ran != 2 {
		t.Errorf("a large body of another tenant: %v", err)
	}
	encode := func() (Encoded, error) { return Encoded("text"), nil }
	if _, err := large.EncodeBody(t.Context(), heavyResponse+1, encode); atrium.CodeOf(err) != atrium.CodeUnavailable {
		t.Errorf("a large answer: %v", err)
	}
	if body, err := large.EncodeBody(t.Context(), 10, encode); err != nil || string(body) != "text" {
		t.Errorf("a small answer: %v, %v", body, err)
	}
	release()
	if body, err := large.EncodeBody(t.Context(), heavyResponse+1, encode); err != nil || string(body) != "text" {
		t.Errorf("a large answer: %v, %v", body, err)
	}
	if limits.Heavy.Held() != 0 {
		t.Errorf("%d slots are held at the end", limits.Heavy.Held())
	}
}

func TestHeavyRequestDoesNotWaitForItself(t *testing.T) {
	slots := func(n int) *limit.Semaphore[atrium.TenantID] {
		return limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: n})
	}
	limits := Limits{Heavy: slots(2), Changes: slots(2), LargeChanges: slots(2)}
	serve := func(get bool, f func(r *Request)) {
		t.Helper()
		method := map[bool]string{true: http.MethodGet, false: http.MethodPost}[get]
		a := &API{Keys: tenantKeys{}, Log: slog.New(slog.DiscardHandler), Limits: limits}
		h := a.Handler([]Route{{Method: method, Pattern: "/things", Scope: atrium.ScopeManage, Heavy: true, Handle: func(_ context.Context, _ auth.Principal, r *Request) (Response, error) {
			if limits.Heavy.Held() != 1 {
				t.Errorf("%d slots for heavy work are held", limits.Heavy.Held())
			}
			f(r)
			return NoContent, nil
		}}}, nil)
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, "/things", strings.NewReader(strings.Repeat(" ", heavyBody+1)))
		r.Header.Set("X-API-Key", "a")
		r.Header.Set("Content-Type", "application/json")
		if h.ServeHTTP(w, r); w.Code != http.StatusNoContent {
			t.Error(w.Code, w.Body)
		}
		for name, held := range map[string]int{"heavy": limits.Heavy.Held(), "changes": limits.Changes.Held(), "large": limits.LargeChanges.Held()} {
			if held != 0 {
				t.Errorf("%s: %d slots are held at the end", name, held)
			}
		}
	}
	serve(true, func(*Request) {})
	serve(false, func(r *Request) {
		if err := r.DecodeBody(t.Context(), func() error { return nil }); err != nil {
			t.Error(err)
		}
		for _, large := range []bool{false, true} {
			release, err := r.AcquireChange(t.Context(), large)
			if err != nil {
				t.Fatal(err)
			}
			if held := limits.Heavy.Held() + limits.Changes.Held() + limits.LargeChanges.Held(); held != 1 {
				t.Errorf("%d slots are held", held)
			}
			release()
		}
	})
}

func TestRequestReleasesHeavyWorkBeforeItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := func() *limit.Semaphore[atrium.TenantID] {
			return limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2, Waiting: 1})
		}
		limits := Limits{Heavy: slots(), Changes: slots(), LargeChanges: slots()}
		a := &API{Keys: tenantKeys{}, Log: slog.New(slog.DiscardHandler), Limits: limits}
		h := a.Handler([]Route{{Method: http.MethodPost, Pattern: "/things", Scope: atrium.ScopeManage, Handle: func(ctx context.Context, who auth.Principal, r *Request) (Response, error) {
			c, err := r.DecodeChange(who, nil)
			if err != nil {
				return Response{}, err
			}
			release, err := c.Admit(ctx, true)
			if err == nil {
				release()
			}
			return NoContent, err
		}}}, nil)
		waits := map[string]*limit.Semaphore[atrium.TenantID]{"heavy work": limits.Heavy, "large changes": limits.LargeChanges}
		for name, waited := range waits {
			if err := waited.Acquire(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			done := make(chan int)
			go func() {
				w := httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodPost, "/things", strings.NewReader("{"+strings.Repeat(" ", heavyBody)+"}"))
				r.Header.Set("X-API-Key", "a")
				r.Header.Set("Content-Type", "application/json")
				h.ServeHTTP(w, r)
				done <- w.Code
			}()
			synctest.Wait()
			for other, slots := range map[string]*limit.Semaphore[atrium.TenantID]{"changes": limits.Changes, "heavy work": limits.Heavy, "large changes": limits.LargeChanges} {
				if slots != waited && slots.Held() != 0 {
					t.Errorf("a request that waits for %s holds a slot of %s", name, other)
				}
			}
			waited.Release("a")
			if status := <-done; status != http.StatusNoContent {
				t.Errorf("the status is %d", status)
			}
		}
	})
}

func TestHeavyWorkPausesForOthers(t *testing.T) {
	for _, whole := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			heavy := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 1, Waiting: 1, Timeout: time.Minute})
			r, _ := requestOf(&Limits{Heavy: heavy}, "a", "")
			if whole {
				if err := r.beginHeavy(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			other := make(chan error)
			paused := false
			err := r.HeavilyPausing(t.Context(), func(pause func() error) error {
				go func() {
					err := heavy.Acquire(t.Context(), "b")
					if err == nil && paused {
						err = errors.New("after the pause")
					}
					heavy.Release("b")
					other <- err
				}()
				synctest.Wait()
				err := pause()
				paused = true
				return err
			})
			if err := errors.Join(err, <-other); err != nil {
				t.Errorf("heavy as a whole %v: %v", whole, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			err = r.HeavilyPausing(ctx, func(pause func() error) error {
				go func() { _ = heavy.Acquire(t.Context(), "b") }()
				synctest.Wait()
				cancel()
				return pause()
			})
			if atrium.CodeOf(err) != atrium.CodeUnavailable {
				t.Errorf("a pause that does not end: %v", err)
			}
			r.endHeavy()
			heavy.Release("b")
			if held := heavy.Held(); held != 0 {
				t.Errorf("%d slots are held", held)
			}
		})
	}
}

func TestHeavyWorkThatHasBegunEndsBeforeMoreBegins(t *testing.T) {
	for _, whole := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			slots := func(n int) *limit.Semaphore[atrium.TenantID] {
				return limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: n, Waiting: 10, Timeout: time.Minute})
			}
			limits := &Limits{Heavy: slots(1), Pausing: slots(4)} // two of a tenant
			var running, most, ended int
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					r, _ := requestOf(limits, "a", "")
					if whole {
						if err := r.beginHeavy(t.Context()); err != nil {
							t.Error(err)
							return
						}
					}
					err := r.HeavilyPausing(t.Context(), func(pause func() error) error { // one at a time, apart from pauses
						running++
						most = max(most, running)
						for range 3 {
							synctest.Wait() // until the others wait
							if err := pause(); err != nil {
								return err
							}
						}
						running--
						ended++
						return nil
					})
					r.endHeavy()
					if err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if most != 2 || ended != 10 || limits.Heavy.Held() != 0 || limits.Pausing.Held() != 0 {
				t.Errorf("with requests that are heavy as a whole (%v), at most %d ran or paused at a time, want 2; %d ended; %d slots of Heavy and %d of Pausing are held", whole, most, ended, limits.Heavy.Held(), limits.Pausing.Held())
			}
		})
	}
}

func TestTenantWithLargeReadsWaitsForHeavyWork(t *testing.T) {
	limits := Limits{Heavy: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2})}
	var held []int
	a := &API{Keys: tenantKeys{}, Log: slog.New(slog.DiscardHandler), Limits: limits}
	h := a.Handler([]Route{{Method: http.MethodGet, Pattern: "/things", Scope: atrium.ScopeManage, Handle: func(_ context.Context, _ auth.Principal, r *Request) (Response, error) {
		held = append(held, limits.Heavy.Held())
		size, err := strconv.Atoi(r.http.URL.RawQuery)
		if size < 0 {
			return Response{Rows: -size}, err
		}
		return Response{Body: strings.Repeat("x", size)}, err
	}}}, nil)
	get := func(method, tenant string, size int) {
		t.Helper()
		r := httptest.NewRequest(method, fmt.Sprintf("/things?%d", size), nil)
		r.Header.Set("X-API-Key", tenant)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Fatal(w.Code, w.Body)
		}
	}
	synctest.Test(t, func(*testing.T) {
		get("GET", "a", maxMedium)
		get("GET", "a", 10)
		get("GET", "a", 10)
		get("HEAD", "b", maxMedium)
		get("GET", "b", 10)
		time.Sleep(recentReadMemory)
		get("GET", "a", 10)
		time.Sleep(time.Nanosecond)
		get("GET", "a", maxMedium)
		get("GET", "a", 10)
		get("GET", "c", -40)
		get("GET", "c", -41)
		get("GET", "c", 10)
		if want := []int{0, 1, 1, 0, 1, 1, 0, 1, 0, 0, 1}; !slices.Equal(held, want) {
			t.Errorf("slots held: %d, want %d", held, want)
		}
	})
	if limits.Heavy.Held() != 0 {
		t.Errorf("%d slots are held at the end", limits.Heavy.Held())
	}
}

func TestRequestThatMayWaitIsNotHeavyWorkAsAWhole(t *testing.T) {
	limits := Limits{Heavy: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2})}
	a := &API{Keys: tenantKeys{}, Log: slog.New(slog.DiscardHandler), Limits: limits}
	h := a.Handler([]Route{{Method: http.MethodGet, Pattern: "/things", Scope: atrium.ScopeManage, Wait: time.Second, Handle: func(context.Context, auth.Principal, *Request) (Response, error) {
		if held := limits.Heavy.Held(); held != 0 {
			t.Errorf("%d slots are held while the request may wait", held)
		}
		return Response{Body: strings.Repeat("x", maxMedium)}, nil
	}}}, nil)
	for range 2 {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/things", nil)
		r.Header.Set("X-API-Key", "a")
		if h.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Fatal(w.Code, w.Body)
		}
	}
}

// A countedBody is a body of a size that is encoded while a number of slots are held.
type countedBody struct {
	size  int
	slots *limit.Semaphore[atrium.TenantID]
	held  *atomic.Int32 // the maximum
}

func (b countedBody) MarshalJSON() ([]byte, error) {
	b.held.Store(max(b.held.Load(), int32(b.slots.Held())))
	return []byte(`"` + strings.Repeat("x", b.size-2) + `"`), nil
}

func TestOnlySomeMediumReadsOfATenantAreMadeAtATime(t *testing.T) {
	for _, c := range []struct {
		name       string
		size, rows int
		running    int // of ten reads of the tenant
	}{
		{"a small response", 10, maxSmallRows, 10},
		{"a response of one row", maxMedium, 1, 10},
		{"a medium response", 10, maxSmallRows + 1, 3},
		{"an almost large response", maxMedium, maxMedium / rowCostBytes, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			slots := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 6, Waiting: 10})
			limits := Limits{MediumReads: slots, Heavy: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2})}
			var gate chan struct{}
			var heldToEncode atomic.Int32
			running := map[atrium.TenantID]*atomic.Int32{"a": {}, "b": {}}
			a := &API{Keys: tenantKeys{}, Log: slog.New(slog.DiscardHandler), Limits: limits}
			h := a.Handler([]Route{{Method: http.MethodGet, Pattern: "/things", Scope: atrium.ScopeManage, Handle: func(_ context.Context, who auth.Principal, _ *Request) (Response, error) {
				running[who.TenantID].Add(1)
				defer running[who.TenantID].Add(-1)
				if limits.Heavy.Held() != 0 {
					t.Error("a medium read is heavy work")
				}
				<-gate
				return Response{Body: countedBody{c.size, slots, &heldToEncode}, Rows: c.rows}, nil
			}}}, nil)
			var all sync.WaitGroup
			get := func(tenant string, times int) {
				for range times {
					all.Go(func() {
						r := httptest.NewRequest(http.MethodGet, "/things", nil)
						r.Header.Set("X-API-Key", tenant)
						w := httptest.NewRecorder()
						if h.ServeHTTP(w, r); w.Code != http.StatusOK {
							t.Errorf("%s: status %d", tenant, w.Code)
						}
					})
				}
			}
			expect := func(a, b int) {
				t.Helper()
				synctest.Wait()
				if gotA, gotB := int(running["a"].Load()), int(running["b"].Load()); gotA != a || gotB != b {
					t.Errorf("%s: %d reads of a tenant run, want %d, and %d of another, want %d", c.name, gotA, a, gotB, b)
				}
				close(gate)
				all.Wait()
			}
			gate = make(chan struct{})
			get("a", 1)
			get("b", 1)
			expect(1, 1)
			gate = make(chan struct{})
			get("a", 10)
			synctest.Wait()
			get("b", 1)
			expect(c.running, 1)
			if held := int(heldToEncode.Load()); (held > 0) != (c.running < 10) {
				t.Errorf("%s: responses are encoded while %d slots are held", c.name, held)
			}
			time.Sleep(recentReadMemory + time.Nanosecond)
			gate = make(chan struct{})
			get("a", 10)
			expect(10, 0)
			if held := slots.Held(); held != 0 {
				t.Errorf("%s: %d slots are held at the end", c.name, held)
			}
		})
	}
}
