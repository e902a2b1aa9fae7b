package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/config"
	"atrium/internal/store"
	"atrium/internal/telemetry"
)

func TestJobRunsUntilNothingIsLeftAndThenEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var at []time.Duration
		began := time.Now()
		j := job{"test", pollInterval, func(context.Context) (bool, error) {
			at = append(at, time.Since(began))
			return len(at) < 3, nil
		}}
		go j.loop(ctx, slog.New(slog.DiscardHandler), nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		stop()
		synctest.Wait()
		looked := len(at)
		time.Sleep(time.Minute)
		if looked != len(at) {
			t.Error("the job ran after the end")
		}
		if looked < 3 || at[2] != 0 {
			t.Fatalf("ran at %v, want three times at once", at)
		}
		for i := 3; i < looked; i++ {
			if pause := at[i] - at[i-1]; pause < 750*time.Millisecond || pause > 1250*time.Millisecond {
				t.Errorf("the interval before run %d was %v", i, pause)
			}
		}
		if looked < 10 {
			t.Errorf("ran %d times in ten seconds", looked)
		}
	})
}

func TestCleanupJobRunsEveryTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var at []time.Time
		j := job{"test", cleanupInterval, func(context.Context) (bool, error) {
			if at = append(at, time.Now()); len(at) == 1 {
				return false, errors.New("broken")
			}
			return false, nil
		}}
		go j.loop(ctx, slog.New(slog.DiscardHandler), nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		stop()
		synctest.Wait()
		if len(at) < 5 || len(at) > 10 || at[1].Sub(at[0]) > 3*time.Second {
			t.Errorf("ran at %v in an hour", at)
		}
	})
}

func TestFailedJobIsLoggedAndRetriedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var log bytes.Buffer
		var at []time.Time
		j := job{"test", pollInterval, func(context.Context) (bool, error) {
			at = append(at, time.Now())
			if len(at) < 10 {
				return true, errors.New("broken")
			}
			return false, nil
		}}
		go j.loop(ctx, slog.New(slog.NewTextHandler(&log, nil)), nil)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		stop()
		synctest.Wait()
		if n := strings.Count(log.String(), "error=broken"); n != 9 || !strings.Contains(log.String(), "job=test") {
			t.Errorf("the log has %d failures:\n%s", n, log.String())
		}
		if first, last := at[1].Sub(at[0]), at[9].Sub(at[8]); first > 3*time.Second || last < 7500*time.Millisecond || last > 12500*time.Millisecond {
			t.Errorf("intervals from %v to %v", first, last)
		}
		if after := at[11].Sub(at[10]); after > 1250*time.Millisecond {
			t.Errorf("an interval of %v after a success", after)
		}
	})
}

func TestStoppingAJobIsNotAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var log bytes.Buffer
		j := job{"test", pollInterval, func(ctx context.Context) (bool, error) {
			<-ctx.Done()
			return false, ctx.Err()
		}}
		go j.loop(ctx, slog.New(slog.NewTextHandler(&log, nil)), nil)
		synctest.Wait()
		stop()
		synctest.Wait()
		if log.Len() > 0 {
			t.Errorf("logged %s", log.String())
		}
	})
}

func TestHangingJobDoesNotBlockTheShutdown(t *testing.T) {
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	c := Config{Settings: config.Default(), Store: s, Log: slog.New(slog.DiscardHandler)}
	c.Settings.Addr, c.Settings.DrainTimeout = "127.0.0.1:0", 300*time.Millisecond
	a, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	hangs, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	a.jobs = []job{{"test", pollInterval, func(context.Context) (bool, error) {
		close(hangs)
		<-release
		return false, nil
	}}}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- a.Run(ctx) }()
	<-hangs
	stop()
	select {
	case err := <-stopped:
		if err != nil {
			t.Errorf("stopped with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the service has not ended")
	}
}

func TestScheduledPagesArePublished(t *testing.T) {
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	c := Config{Settings: config.Default(), Store: s, Log: telemetry.NewLogger(t.Output(), "text", "warn")}
	c.Settings.Addr = "127.0.0.1:0"
	a, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	tenant, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	if err != nil {
		t.Fatal(err)
	}
	change := atrium.Change{TenantID: tenant.ID, Actor: atrium.ActorCommandLine}
	brand, _, err := s.CreateBrand(t.Context(), change, "Hearth")
	if err != nil {
		t.Fatal(err)
	}
	page, _, err := s.CreatePage(t.Context(), change, atrium.Page{
		BrandID: string(brand.ID), Name: "Spring", Actions: []byte("[]"), Scripts: []byte("[]"), FooterLinks: []byte("[]"),
	})
	if err != nil {
		t.Fatal(err)
	}
	soon := atrium.At(time.Now().Add(200 * time.Millisecond))
	if _, err := s.SchedulePage(t.Context(), change, page.ID, atrium.Schedule{PublishAt: &soon}, func(atrium.ScheduledPage) error { return nil }); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- a.Run(ctx) }()
	for deadline := time.Now().Add(10 * time.Second); page.Status != atrium.PagePublished; time.Sleep(20 * time.Millisecond) {
		if page.Page, err = s.Page(t.Context(), tenant.ID, page.ID); err != nil || time.Now().After(deadline) {
			t.Fatalf("the page is in state %s, %v", page.Status, err)
		}
	}
	if page.UpdatedAt < soon {
		t.Errorf("published at %v, and scheduled for %v", page.UpdatedAt, soon)
	}
	stop()
	if err := <-stopped; err != nil {
		t.Errorf("stopped with %v", err)
	}
}
