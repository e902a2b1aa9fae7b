package rest

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/limit"
	"atrium/internal/telemetry"
)

func TestAStreamAsksAboutItsKeyEveryFewSeconds(t *testing.T) {
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
		time.Sleep(recheckEvery)
		if err := c.check(t.Context()); err != nil {
			t.Errorf("the store is away: %v", err)
		}
		answer = atrium.Errorf(atrium.CodeUnauthenticated, "revoked")
		time.Sleep(recheckEvery)
		if err := c.check(t.Context()); atrium.CodeOf(err) != atrium.CodeUnauthenticated {
			t.Errorf("the key was revoked: %v", err)
		}
	})
}

// requestOf returns a request of a tenant with a body, and what is noted of it.
func requestOf(limits *Limits, tenant atrium.TenantID, body string) (*Request, *telemetry.Exchange) {
	w := &recorder{httptest.NewRecorder(), telemetry.Exchange{}}
	return &Request{Body: []byte(body), session: session{limits: limits, writer: w, tenant: tenant}}, &w.Exchange
}

func TestOnlyLargeBodiesWaitForHeavyWork(t *testing.T) {
	limits := &Limits{Heavy: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Places: 2})}
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
	if _, err := large.EncodeBody(t.Context(), heavyBody+1, "text"); atrium.CodeOf(err) != atrium.CodeUnavailable {
		t.Errorf("a large answer: %v", err)
	}
	if body, err := large.EncodeBody(t.Context(), 10, "text"); err != nil || body != "text" {
		t.Errorf("a small answer: %v, %v", body, err)
	}
	release()
	if body, err := large.EncodeBody(t.Context(), heavyBody+1, "text"); err != nil || string(body.(Encoded)) != `"text"` {
		t.Errorf("a large answer: %v, %v", body, err)
	}
	if limits.Heavy.Held() != 0 {
		t.Errorf("%d places are held at the end", limits.Heavy.Held())
	}
}

func TestReservedMemoryIsGivenBack(t *testing.T) {
	limits := &Limits{Bodies: limit.NewPool[atrium.TenantID](100)}
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
