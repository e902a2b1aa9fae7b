package sqlite_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
)

func TestTenantsWriteRoundRobin(t *testing.T) {
	db := openFile(t, filepath.Join(t.TempDir(), "test.db"))
	script(t, db, "CREATE TABLE t (n INTEGER PRIMARY KEY)")
	var order []string // written only by the holder of the write lock
	var all sync.WaitGroup
	giveUp, cancel := context.WithCancel(t.Context())
	started, resume := make(chan struct{}), make(chan struct{})
	all.Go(func() {
		if err := db.Write(t.Context(), func(engine.Tx) error {
			close(started)
			<-resume
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	<-started
	for i, tenant := range []string{"a", "a", "a", "gone", "a", "b", "", "b"} {
		ctx := t.Context()
		if tenant == "gone" {
			ctx = giveUp
		}
		all.Go(func() {
			err := db.Write(engine.ForTenant(ctx, tenant), func(engine.Tx) error {
				order = append(order, "<"+tenant+">")
				return nil
			})
			if (err != nil) != (tenant == "gone") {
				t.Errorf("%q: %v", tenant, err)
			}
		})
		for sqlite.WaitingToWrite(db) < i+1 {
			time.Sleep(time.Millisecond)
		}
	}
	cancel()
	for sqlite.WaitingToWrite(db) != 7 {
		time.Sleep(time.Millisecond)
	}
	close(resume)
	all.Wait()
	if got, want := strings.Join(order, ""), "<a><b><><a><b><a><a>"; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
}
