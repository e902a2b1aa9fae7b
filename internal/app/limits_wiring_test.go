package app

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/config"
	"atrium/internal/limit"
	"atrium/internal/store"
)

func TestHeavyRequestsForSitesCountTowardTheProcessorsOfTheirTenant(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	limits, err := newLimits(config.Default(), store.Traits{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // Acquire waits for nothing
	for _, c := range []struct {
		key     atrium.TenantID
		granted bool
	}{{"a", true}, {"sites of a", true}, {"sites of a", false}, {"a", false}, {"b", true}} {
		if err := limits.rest.Heavy.Acquire(ctx, c.key); (err == nil) != c.granted {
			t.Errorf("%s: %v", c.key, err)
		}
	}
}

func TestMediumReadsOfATenantLeaveRoomForOthers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	limits, err := newLimits(config.Default(), store.Traits{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // Acquire waits for nothing
	for _, c := range []struct {
		key     atrium.TenantID
		granted bool
	}{{"a", true}, {"sites of a", true}, {"a", true}, {"sites of a", false}, {"a", false}, {"b", true}} {
		if err := limits.rest.MediumReads.Acquire(ctx, c.key); (err == nil) != c.granted {
			t.Errorf("%s: %v", c.key, err)
		}
	}
}

func TestMappingsOfManyTenantsLeaveRoomForOthers(t *testing.T) {
	limits, err := newLimits(config.Default(), store.Traits{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // Acquire waits for nothing
	for tenant := range 12 {
		for range 64 {
			_ = limits.rest.Pausing.Acquire(ctx, atrium.TenantID(strconv.Itoa(tenant)))
		}
	}
	if err := limits.rest.Pausing.Acquire(ctx, "another"); err != nil {
		t.Error(err)
	}
}

func TestTheThirdExportOfATenantWaitsForASecond(t *testing.T) {
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	exports := newManage(Config{Store: s, Settings: config.Default()}, nil, commandLine{}, nil).Exports
	synctest.Test(t, func(t *testing.T) {
		acquire := func() error { return exports.Acquire(t.Context(), "a") }
		if err := errors.Join(acquire(), acquire()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := acquire(); !errors.Is(err, limit.ErrBusy) || time.Since(start) != time.Second {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		time.AfterFunc(time.Second/2, func() { exports.Release("a") })
		if err := acquire(); err != nil {
			t.Errorf("after another one has ended: %v", err)
		}
	})
}
