package rest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
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
