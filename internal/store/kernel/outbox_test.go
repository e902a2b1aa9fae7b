package kernel

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
)

func TestWaitingForEventsEndsWithTheFirstOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p PendingEvents
		take := func(ctx context.Context) (tenants []atrium.TenantID, waited time.Duration) {
			began := time.Now()
			tenants = p.Take(ctx, time.Hour)
			slices.Sort(tenants)
			return tenants, time.Since(began)
		}
		if tenants, waited := take(t.Context()); len(tenants) > 0 || waited != time.Hour {
			t.Errorf("without events: %v after %v", tenants, waited)
		}
		p.Add("b")
		p.Add("a")
		p.Add("b")
		if tenants, waited := take(t.Context()); !slices.Equal(tenants, []atrium.TenantID{"a", "b"}) || waited != 0 {
			t.Errorf("with events: %v after %v", tenants, waited)
		}
		go func() {
			time.Sleep(time.Minute)
			p.Add("c")
		}()
		if tenants, waited := take(t.Context()); !slices.Equal(tenants, []atrium.TenantID{"c"}) || waited != time.Minute {
			t.Errorf("with an event after a minute: %v after %v", tenants, waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if tenants, waited := take(ctx); len(tenants) > 0 || waited != time.Second {
			t.Errorf("stopped after a second: %v after %v", tenants, waited)
		}
	})
}

func TestOnlyTheEventsOfATenantInCooldownWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p PendingEvents
		began := time.Now()
		take := func(want atrium.TenantID, at time.Duration) {
			t.Helper()
			tenants := p.Take(t.Context(), time.Hour)
			if !slices.Equal(tenants, []atrium.TenantID{want}) || time.Since(began) != at {
				t.Errorf("%v after %v, want %s after %v", tenants, time.Since(began), want, at)
			}
		}
		p.Cooldown("a", time.Minute)
		p.Cooldown("b", time.Second)
		p.Add("a")
		p.Add("c")
		take("c", 0)
		p.Add("b")
		take("b", time.Second)
		go func() {
			time.Sleep(time.Second)
			p.Add("b")
		}()
		take("b", 2*time.Second)
		take("a", time.Minute)
		p.Add("a")
		take("a", time.Minute)
		p.Cooldown("a", 2*time.Hour)
		p.Add("a")
		if tenants := p.Take(t.Context(), time.Hour); len(tenants) > 0 {
			t.Errorf("%v during the cooldown", tenants)
		}
	})
}
