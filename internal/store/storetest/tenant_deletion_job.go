package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

func tenantDeletedDespiteKills(t *testing.T, e *env) {
	e.fill(t)
	e.beginDeletion(t)
	rows, entries, last := e.rowsToDelete(t), int(e.rowsOf(t, "entries")), int64(0)
	for kills := 0; e.deleting(t); kills++ {
		if kills > 1000 {
			t.Fatal("the deletion does not complete")
		}
		if more, err := e.interrupted().DeleteTenants(t.Context()); err == nil && !more {
			e.clock.step(time.Minute)
		} else if err != nil && !errors.Is(err, errOnPurpose) && atrium.CodeOf(err) != atrium.CodeUnavailable {
			t.Fatal(err)
		}
		if now, err := e.TenantOrDeletion(t.Context(), e.tenant); err == nil {
			if now.Deletion.Rows < last {
				t.Fatalf("%d rows are counted after %d", now.Deletion.Rows, last)
			}
			last = now.Deletion.Rows
		}
	}
	e.wantNoRows(t)
	e.wantCounted(t, rows, entries)
}

func tenantDeletedByNodes(t *testing.T, e *env) {
	f := e.fill(t)
	e.importManyEntries(t, f.alone)
	e.beginDeletion(t)
	rows, entries := e.rowsToDelete(t), int(e.rowsOf(t, "entries"))
	other := e.node()
	parallel(t, 2, func(i int) { []*env{e, other}[i].finishDeletion(t) })
	e.wantNoRows(t)
	e.wantCounted(t, rows, entries)
}

func tenantDeletedInParts(t *testing.T, e *env) {
	account := e.newAccount("a.example", "")
	e.put(t, account)
	e.importManyEntries(t, account.ID)
	e.beginDeletion(t)
	measured, most := e.measured()
	measured.finishDeletion(t)
	if most.rows > mostChanged || most.rows < 500 {
		t.Errorf("one transaction changed %d rows", most.rows)
	}
	e = e.as(e.newTenant(t))
	e.put(t, account)
	for range 6 {
		entry := e.newEntry(account, "")
		entry.Payload = []byte(fmt.Sprintf("%q", bytes.Repeat([]byte("x"), 900<<10)))
		e.put(t, entry)
	}
	e.sql(t, "DELETE FROM requests WHERE tenant_id = $1", storedID(e.tenant))
	e.beginDeletion(t)
	largest := int64(0)
	for e.deleting(t) {
		before := e.rowsOf(t, "entries")
		if more, err := e.interrupted().DeleteTenants(t.Context()); err == nil && !more {
			e.clock.step(time.Minute)
		}
		largest = max(largest, before-e.rowsOf(t, "entries"))
	}
	if largest != 2 {
		t.Errorf("one transaction deleted %d entries of 900 KiB", largest)
	}
}

// An unpausedDB is a DB whose background work does not pause, like that of a server. The pauses on
// SQLite depend on how long transactions take, and thus the order of the turns on the load of the
// machine.
type unpausedDB struct{ engine.DB }

func (db unpausedDB) Traits() engine.Traits {
	traits := db.DB.Traits()
	traits.Remote = true
	return traits
}

// unpaused returns an env on the same database whose background work does not pause.
func (e *env) unpaused() *env {
	other := *e
	other.db = unpausedDB{e.db}
	return &other
}

func tenantsDeletedInTurn(t *testing.T, e *env) {
	tenants := []*env{e.fresh(t), nil}
	tenants[1] = tenants[0].as(tenants[0].newTenant(t))
	for i, large := range tenants { // tests both orders of the identifiers
		small := tenants[0].as(tenants[0].newTenant(t))
		if i == 1 {
			small = tenants[1].as(tenants[1].newTenant(t))
		}
		a := large.record(t, byDomain("a.example")).AccountID
		large.importManyEntries(t, a)
		small.record(t, byDomain("b.example"))
		large.beginDeletion(t)
		small.beginDeletion(t)
		var order []string
		hooked := large.unpaused().hooked(func(int) error {
			order = append(order, fmt.Sprint(large.rowsOf(t, "entries") > 0, small.dump(t).rows() > 2))
			return nil
		})
		if _, err := hooked.DeleteTenants(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(order, "true false") {
			t.Errorf("the small deletion waits for the large one: %v", order)
		}
		large.finishDeletion(t)
		for small.deleting(t) {
			small.finishDeletion(t)
		}
	}
}

func tenantDeletedWhileAppending(t *testing.T, e *env) {
	startsGoroutines(t)
	e.record(t, byDomain("a.example"))
	var wg sync.WaitGroup
	deleted := make(chan struct{})
	var started sync.WaitGroup
	for i := range 4 {
		started.Add(1)
		wg.Go(func() {
			node := e.node()
			for n := 0; ; n++ {
				ended := false
				select {
				case <-deleted:
					ended = true
				default:
				}
				d := node.draft(t, byDomain(fmt.Sprintf("d%d.example", n%3)), key(fmt.Sprintf("%d %d", i, n)))
				outcomes, err := node.Append(t.Context(), []*atrium.Draft{d})
				switch {
				case err != nil:
					t.Errorf("append: %v", err)
				case outcomes[0].Err == nil && ended:
					t.Error("an append that began after the deletion is acknowledged")
				case outcomes[0].Err != nil && !errors.Is(outcomes[0].Err, atrium.ErrNoTenant):
					t.Errorf("outcome: %v", outcomes[0].Err)
				}
				if n == 2 {
					started.Done()
				}
				if ended || err != nil {
					return
				}
			}
		})
	}
	started.Wait()
	e.beginDeletion(t)
	close(deleted)
	if _, err := e.DeleteTenants(t.Context()); err != nil {
		t.Error(err)
	}
	wg.Wait()
	e.finishDeletion(t)
	e.wantNoRows(t)
}

func tenantDeletedWithLateRows(t *testing.T, e *env) {
	e.record(t, byDomain("a.example"))
	e.beginDeletion(t)
	servers := e.Traits().Writers > 1
	e.clock.step(time.Minute)
	for more := true; more; {
		var err error
		if more, err = e.DeleteTenants(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if e.deleting(t) != servers {
		t.Fatalf("the tenant is being deleted: %v", e.deleting(t))
	}
	if !servers { // one writer: no transaction can be in between
		return
	}
	if n := e.rowsToDelete(t); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	e.sql(t, "INSERT INTO search_terms (tenant_id, term, subject_id) VALUES ($1, $2, $3)", storedID(e.tenant), "late", storedID(atrium.NewID[atrium.AccountID]()))
	e.finishDeletion(t)
	e.wantNoRows(t)
}

func tenantDeletedAfterPurge(t *testing.T, e *env) {
	e.record(t, byDomain("a.example"))
	e.beginDeletion(t)
	failing := e.withoutPurges()
	for range 10 {
		_, err := failing.DeleteTenants(t.Context())
		if err != nil && !errors.Is(err, errOnPurpose) {
			t.Fatal(err)
		}
		e.clock.step(time.Minute)
	}
	if !e.deleting(t) || e.rowsToDelete(t) != 0 {
		t.Error("the deletion is complete without a purge")
	}
	e.finishDeletion(t)
	e.wantNoRows(t)
}

func retentionDuringDeletion(t *testing.T, e *env) {
	e = e.fresh(t)
	e.steadyClock(t)
	other := e.as(e.newTenant(t))
	for _, tenant := range []*env{e, other} {
		tenant.old(t, 10)
		tenant.setRules(t, atrium.RetentionRule{Days: 30})
	}
	e.applyRules(t)
	e.clock.step(days)
	recording := e.hookedPurges(func() { e.beginDeletion(t) }) // before it records what was deleted
	if _, more, err := recording.RunRetention(t.Context(), ""); err != nil || more {
		t.Errorf("a run while a deletion begins: %v, more: %v", err, more)
	}
	other.wantRecorded(t, 10)

	deleted := e.as(e.newTenant(t))
	deleted.old(t, 10)
	deleted.setRules(t, atrium.RetentionRule{Days: 30})
	applying := deleted.hooked(func(n int) error {
		if n == 1 {
			deleted.beginDeletion(t)
		}
		return nil
	})
	if _, _, err := applying.RunRetention(t.Context(), ""); err != nil {
		t.Errorf("a run while a deletion begins: %v", err)
	}
	if !deleted.deleting(t) {
		t.Error("the tenant is not being deleted")
	}
	if n := deleted.rowsOf(t, "entries"); n != 20 {
		t.Errorf("%d entries are left, want 20: the rules do not apply to a tenant that is being deleted", n)
	}
}

func erasuresDuringDeletion(t *testing.T, e *env) {
	e = e.fresh(t)
	e.record(t, byName("person"), payload(`{"to":"`+person+`"}`))
	e.startErasure(t, atrium.ErasureRequest{Rule: personal()})
	other := *e
	other.Store = store.New(&beforeQuery{DB: e.db, of: "FROM erasure_jobs", run: func() {
		e.beginDeletion(t)
		e.finishDeletion(t)
	}}, e.clock.now)
	if more, err := other.RunErasures(t.Context()); err != nil || more {
		t.Errorf("a run while a tenant is deleted: %v, more: %v", err, more)
	}
	e.wantNoRows(t)

	e = e.as(e.newTenant(t))
	e.record(t, byName("person"), payload(`{"to":"`+person+`"}`))
	e.startErasure(t, atrium.ErasureRequest{Rule: personal()})
	failing := e.withoutPurges()
	for more := true; more; {
		more, _ = failing.RunErasures(t.Context())
	}
	if n := e.rowsOf(t, "entries"); n != 0 {
		t.Fatalf("%d entries are left", n)
	}
	e.beginDeletion(t)
	purged := false
	if more, err := e.hookedPurges(func() { purged = true }).RunErasures(t.Context()); err != nil || more || purged {
		t.Errorf("an erasure that only has to be completed: %v, more: %v, purged: %v", err, more, purged)
	}
}

// A beforeQuery is a DB that calls run before the first query that contains a text.
type beforeQuery struct {
	engine.DB
	of   string
	run  func()
	done bool
}

func (db *beforeQuery) Query(ctx context.Context, sql string, args engine.Args, each func(engine.Row) error) error {
	if !db.done && strings.Contains(sql, db.of) {
		db.done = true
		db.run()
	}
	return db.DB.Query(ctx, sql, args, each)
}
