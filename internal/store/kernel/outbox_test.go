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
