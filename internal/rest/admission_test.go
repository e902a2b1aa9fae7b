package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
	"atrium/internal/telemetry"
)

func TestStreamRechecksItsKeyPeriodically(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		var answer error
		c := rechecker{func(context.Context) error { asked++; return answer }, time.Now()}
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			if err := c.check(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if asked != 2 {
			t.Errorf("asked %d times in ten seconds, want 2", asked)
		}
		answer = atrium.Unavailable(errors.New("the store is away"))
		time.Sleep(recheckInterval)
		if err := c.check(t.Context()); err != nil {
			t.Errorf("the store is away: %v", err)
		}
		answer = atrium.Errorf(atrium.CodeUnauthenticated, "revoked")
		time.Sleep(recheckInterval)
		if err := c.check(t.Context()); atrium.CodeOf(err) != atrium.CodeUnauthenticated {
			t.Errorf("the key was revoked: %v", err)
		}
	})
}

// requestOf returns a request of a tenant with a body, and what is noted of it.
func requestOf(limits *Limits, tenant atrium.TenantID, body string) (*Request, *telemetry.Exchange) {
	w := &recorder{ResponseWriter: httptest.NewRecorder()}
	return &Request{Body: []byte(body), requestLimits: requestLimits{limits: limits, writer: w, tenant: tenant}}, &w.Exchange
}

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

func TestReservedMemoryIsGivenBack(t *testing.T) {
	limits := &Limits{Bodies: limit.NewQuota[atrium.TenantID](100)}
	r, noted := requestOf(limits, "a", "")
	release, err := r.Reserve(50)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reserve(10); atrium.CodeOf(err) != atrium.CodeUnavailable || noted.Refused != telemetry.ByBodyMemory {
		t.Errorf("more than the share of a tenant: %v", err)
	}
	release()
	if release, err = r.Reserve(50); err != nil {
		t.Fatal(err)
	}
	release()
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

// A revokedKeys accepts every key until it is revoked.
type revokedKeys struct{ revoked atomic.Bool }

func (k *revokedKeys) Authenticate(ctx context.Context, from netip.Addr, key string) (auth.Principal, error) {
	if k.revoked.Load() {
		return auth.Principal{}, auth.Unauthenticated()
	}
	return tenantKeys{}.Authenticate(ctx, from, key)
}

func TestChangeThatHasWaitedIsRefusedIfItsKeyWasRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2, Waiting: 1, Timeout: time.Minute})
		keys := new(revokedKeys)
		a := &API{Keys: keys, Log: slog.New(slog.DiscardHandler), Limits: Limits{LargeChanges: slots}}
		h := a.Handler([]Route{{Method: http.MethodPost, Pattern: "/things", Scope: atrium.ScopeManage, Handle: func(ctx context.Context, who auth.Principal, r *Request) (Response, error) {
			release, err := r.NewChange(who).Admit(ctx, true)
			if err != nil {
				return Response{}, err
			}
			release()
			return NoContent, nil
		}}}, nil)
		ask := func() int {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/things", http.NoBody)
			r.Header.Set("X-API-Key", "a")
			h.ServeHTTP(w, r)
			return w.Code
		}
		if status := ask(); status != http.StatusNoContent {
			t.Fatal(status)
		}
		who, err := keys.Authenticate(t.Context(), netip.Addr{}, "a")
		if err != nil {
			t.Fatal(err)
		}
		if err := slots.Acquire(t.Context(), who.TenantID); err != nil { // the share of the tenant
			t.Fatal(err)
		}
		var status int
		var waiting sync.WaitGroup
		waiting.Go(func() { status = ask() })
		synctest.Wait()
		keys.revoked.Store(true)
		slots.Release(who.TenantID)
		waiting.Wait()
		if status != http.StatusUnauthorized || slots.Held() != 0 {
			t.Errorf("status %d, %d slots are held", status, slots.Held())
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
				t.Errorf("heavy by itself %v: %v", whole, err)
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

func TestRefusedChangeIsUnavailableAndHoldsNothing(t *testing.T) {
	one := func() *limit.Semaphore[atrium.TenantID] {
		return limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2})
	}
	limits := &Limits{Heavy: one(), Changes: one(), LargeChanges: one()}
	if err := limits.LargeChanges.Acquire(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	run := func(tenant atrium.TenantID, large bool) (*telemetry.Exchange, error) {
		r, noted := requestOf(limits, tenant, "")
		release, err := r.NewChange(auth.Principal{}).Admit(t.Context(), large)
		if err == nil {
			release()
		}
		return noted, err
	}
	if noted, err := run("a", true); atrium.CodeOf(err) != atrium.CodeUnavailable || noted.Refused != telemetry.ByOverload {
		t.Errorf("a second large change of the tenant: %v, refused by %q", err, noted.Refused)
	}
	if limits.Changes.Held() != 0 {
		t.Error("it holds a slot")
	}
	_, small := run("a", false)
	_, other := run("b", true)
	for name, err := range map[string]error{"a small change": small, "a large change of another": other} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHTTP2BodyUsesQuotaFromItsFirstByte(t *testing.T) {
	for major, refused := range map[int]bool{1: false, 2: true} {
		m := &memory{quota: limit.NewQuota[atrium.TenantID](100), tenant: "a"}
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", 60)))
		r.ProtoMajor = major
		b := newBody(&recorder{ResponseWriter: httptest.NewRecorder()}, r, m)
		if _, err := b.read(1000); (err != nil) != refused || refused && atrium.CodeOf(err) != atrium.CodeUnavailable {
			t.Errorf("HTTP/%d: %v", major, err)
		}
		m.release()
	}
}

func TestBodyUsesQuotaForTheCapacityOfItsBuffer(t *testing.T) {
	const most = 1 << 20
	for _, size := range []int{0, 1, smallBody - 1, smallBody, smallBody + 1, 10_000, 16_000, 555_000, most} {
		for _, declared := range []bool{true, false} {
			m := &memory{quota: limit.NewQuota[atrium.TenantID](8 << 20), tenant: "a"}
			r := httptest.NewRequest(http.MethodPost, "/", iotest.OneByteReader(strings.NewReader(strings.Repeat("x", size))))
			if declared {
				r.ContentLength = int64(size)
			}
			text, err := newBody(&recorder{ResponseWriter: httptest.NewRecorder()}, r, m).read(most)
			if err != nil || len(text) != size {
				t.Fatalf("a body of %d bytes: %d bytes, %v", size, len(text), err)
			}
			if counted := m.taken + smallBody; int64(cap(text)) > counted || m.taken > most {
				t.Errorf("a body of %d bytes, declared %t: %d bytes are allocated, %d are counted", size, declared, cap(text), counted)
			}
			if declared && cap(text) > size+1 || cap(text) > max(2*size, smallBody) {
				t.Errorf("a body of %d bytes, declared %t: %d bytes are allocated", size, declared, cap(text))
			}
			m.release()
		}
	}
}

func TestDeclaredLengthAllocatesNothingBeforeTheBodyArrives(t *testing.T) {
	m := &memory{quota: limit.NewQuota[atrium.TenantID](8 << 20), tenant: "a"}
	r := httptest.NewRequest(http.MethodPost, "/", iotest.ErrReader(io.ErrUnexpectedEOF))
	r.ContentLength = 1 << 20
	if _, err := newBody(&recorder{ResponseWriter: httptest.NewRecorder()}, r, m).read(1 << 20); err == nil || m.taken != 0 {
		t.Errorf("%d bytes are taken from the quota, %v", m.taken, err)
	}
}

func TestDocumentYieldsBetweenWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 1, Waiting: 1})
		work := heavyWork{ctx: t.Context(), w: httptest.NewRecorder(), slots: slots, tenant: "a"}
		if err := work.resume(); err != nil {
			t.Fatal(err)
		}
		other := make(chan error, 1)
		go func() { other <- slots.Do(t.Context(), "b", func() error { return nil }) }()
		synctest.Wait()
		counter := byteCounter{work: &work}
		if _, err := counter.Write([]byte("text")); err != nil || counter.bytes != 4 {
			t.Fatalf("%d bytes, %v", counter.bytes, err)
		}
		synctest.Wait()
		select {
		case err := <-other:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("another tenant still waits")
		}
		if work.pause(); slots.Held() != 0 {
			t.Error("a slot is held at the end")
		}
	})
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

// tenantKeys are keys whose text is the tenant's identifier.
type tenantKeys struct{}

func (tenantKeys) Authenticate(_ context.Context, _ netip.Addr, text string) (auth.Principal, error) {
	return auth.Principal{TenantID: atrium.TenantID(text), Scopes: atrium.Scopes{atrium.ScopeManage}}, nil
}

func TestTenantPausesAfterALongChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := func() *limit.Semaphore[atrium.TenantID] {
			return limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2, Waiting: 1})
		}
		r := &Request{requestLimits: requestLimits{limits: &Limits{Changes: slots(), LargeChanges: slots()}, tenant: "a", writer: httptest.NewRecorder()}}
		for _, c := range []struct {
			large bool
			takes time.Duration
			pause time.Duration
		}{{true, time.Second, 3 * time.Second}, {true, 5 * time.Millisecond, 0}, {false, time.Second, 0}} {
			// Changes of resources are admitted by one of these, chunks of imports by the other.
			for name, admit := range map[string]func(context.Context, bool) (func(), error){"admitChange": r.admitChange, "AcquireChange": r.AcquireChange} {
				release, err := admit(t.Context(), c.large)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(c.takes)
				release()
				ended := time.Now()
				if release, err = admit(t.Context(), c.large); err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(ended); waited != c.pause {
					t.Errorf("%s: after a change of %v, large: %v, the next one waited for %v, want %v", name, c.takes, c.large, waited, c.pause)
				}
				release()
			}
		}
	})
}

func TestOnlyALoadOfACachedResponseReadsItsRows(t *testing.T) {
	cache := &ResponseCache{Version: func(string) ([2]uint64, bool) { return [2]uint64{1}, true }, Bytes: 1 << 20}
	for _, want := range []int{50, 0} {
		response, err := cache.GetByKey("a", "key", func() (Response, error) { return Response{Body: "text", Rows: 50}, nil })
		if err != nil || response.Rows != want {
			t.Errorf("%d rows, %v, want %d", response.Rows, err, want)
		}
	}
}
