package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/store/engine"
)

// An engineWith is a database of which only the traits are used.
type engineWith struct {
	engine.DB
	traits engine.Traits
}

func (e engineWith) Traits() engine.Traits { return e.traits }

// runInTurn runs transactions of tenants that take as long as given, and returns when each began.
func runInTurn(t *testing.T, db *DB, took map[atrium.TenantID][]time.Duration, tenants ...atrium.TenantID) (began []string) {
	t.Helper()
	start := time.Now()
	if err := db.InTurn(t.Context(), tenants, func(_ context.Context, tenant atrium.TenantID) (bool, error) {
		began = append(began, fmt.Sprint(tenant, " ", time.Since(start)))
		time.Sleep(took[tenant][0])
		took[tenant] = took[tenant][1:]
		return len(took[tenant]) > 0, nil
	}); err != nil {
		t.Error(err)
	}
	return began
}

func TestBackgroundWorkOfATenantPausesAfterALongTransaction(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name   string
		remote bool
		want   []string
	}{
		{"embedded", false, []string{"a 0s", "b 20ms", "c 21ms", "b 41ms", "b 42ms", "a 80ms", "c 101ms"}},
		{"server", true, []string{"a 0s", "b 20ms", "c 21ms", "a 41ms", "b 42ms", "c 43ms", "b 44ms"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := &DB{Engine: engineWith{traits: engine.Traits{Remote: c.remote}}}
				took := map[atrium.TenantID][]time.Duration{"a": {20 * ms, ms}, "b": {ms, ms, ms}, "c": {20 * ms, ms}}
				if began := runInTurn(t, db, took, "a", "b", "c"); !slices.Equal(began, c.want) {
					t.Errorf("began %v, want %v", began, c.want)
				}
			})
		})
	}
}

func TestJobsAndRequestsShareThePausesOfATenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &DB{Engine: engineWith{}}
		held := 0
		c := atrium.Change{TenantID: "a", Admit: func(_ context.Context, large bool) (func(), error) {
			if held++; !large {
				t.Error("admitted as a small change")
			}
			return func() { held-- }, nil
		}}
		admit := func(tenant atrium.TenantID) (release func(), waited time.Duration) {
			began := time.Now()
			c.TenantID = tenant
			release, err := db.admitLater(c)(t.Context(), false)
			if err != nil || held != 1 {
				t.Fatalf("%d held, %v", held, err)
			}
			return release, time.Since(began)
		}
		runInTurn(t, db, map[atrium.TenantID][]time.Duration{"a": {time.Second}}, "a")
		if release, waited := admit("b"); waited != 0 {
			t.Errorf("another tenant waited for %v", waited)
		} else {
			release()
		}
		release, waited := admit("a")
		if waited != 3*time.Second {
			t.Errorf("a request waited for %v", waited)
		}
		time.Sleep(time.Second)
		if release(); held != 0 {
			t.Error("the slot is held during the pause")
		}
		if began := runInTurn(t, db, map[atrium.TenantID][]time.Duration{"a": {0}}, "a"); began[0] != "a 3s" {
			t.Errorf("a job waited: %v", began)
		}
	})
}

func TestARequestGivesItsSlotBackDuringAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &DB{Engine: engineWith{}}
		slot := make(chan struct{}, 1)
		c := atrium.Change{TenantID: "a", Admit: func(context.Context, bool) (func(), error) {
			slot <- struct{}{}
			return func() { <-slot }, nil
		}}
		var mu sync.Mutex
		var began []time.Duration // guarded by mu
		start := time.Now()
		for range 3 {
			go func() {
				release, err := db.admitLater(c)(t.Context(), true)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				began = append(began, time.Since(start))
				mu.Unlock()
				time.Sleep(time.Second)
				release()
			}()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(slot) != 0 {
			t.Error("a request that waits for a pause holds a slot")
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if want := []time.Duration{0, 4 * time.Second, 8 * time.Second}; !slices.Equal(began, want) {
			t.Errorf("began after %v, want %v", began, want)
		}
	})
}

func TestAPauseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &DB{Engine: engineWith{}}
		db.pauseAfter("a", time.Hour)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := db.InTurn(ctx, []atrium.TenantID{"a"}, func(context.Context, atrium.TenantID) (bool, error) {
			t.Error("it ran during the pause")
			return false, nil
		}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		c := atrium.Change{TenantID: "a", Admit: func(context.Context, bool) (func(), error) { return func() {}, nil }}
		if _, err := db.admitLater(c)(ctx, true); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("the pause ended after %v", took)
		}
	})
}

func TestPausesThatEndedAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &DB{Engine: engineWith{}}
		for i := range 100 {
			db.pauseAfter(atrium.TenantID(strconv.Itoa(i)), 10*time.Millisecond)
			time.Sleep(time.Second)
		}
		if n := len(db.background.until); n != 1 {
			t.Errorf("%d pauses", n)
		}
	})
}
