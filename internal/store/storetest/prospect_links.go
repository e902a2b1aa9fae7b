package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

func prospectLinked(t *testing.T, e *env) {
	a, b := e.record(t, byDomain("a.example")).AccountID, e.record(t, byDomain("b.example")).AccountID
	p := e.prospect(t, "jane@acme.example")
	shown := func(id atrium.AccountID) (linked []atrium.ProspectID, updated atrium.Time) {
		account, prospects, err := e.Account(t.Context(), e.tenant, id)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range prospects {
			linked = append(linked, p.ID)
		}
		return linked, account.UpdatedAt
	}
	for range 2 { // the second link changes nothing
		e.clock.step(time.Second)
		e.link(t, b, p.ID)
		e.link(t, a, p.ID)
	}
	linkedAt := e.clock.instant() - 1_000_000
	e.wantProspect(t, p, a, b)
	for _, id := range []atrium.AccountID{a, b} {
		if linked, updated := shown(id); !slices.Equal(linked, []atrium.ProspectID{p.ID}) || updated != linkedAt {
			t.Errorf("the account has %v since %s, want the prospect since %s", linked, updated, linkedAt)
		}
	}
	for range 2 {
		e.clock.step(time.Second)
		if err := e.unlinkErr(t, a, p.ID); err != nil {
			t.Fatal(err)
		}
	}
	e.wantProspect(t, p, b)
	if linked, updated := shown(a); len(linked) != 0 || updated != linkedAt+2_000_000 {
		t.Errorf("the account has %v since %s", linked, updated)
	}
	if _, err := e.DeleteProspect(t.Context(), e.change(), p.ID, accept); err != nil {
		t.Fatal(err)
	}
	if linked, updated := shown(b); len(linked) != 0 || updated != e.clock.instant() {
		t.Errorf("the account has %v since %s", linked, updated)
	}
	wantCode(t, e.linkErr(t, a, p.ID), atrium.CodeNotFound)
	wantCode(t, e.unlinkErr(t, a, p.ID), atrium.CodeNotFound)
	q := e.prospect(t, "joe@acme.example")
	wantCode(t, e.linkErr(t, atrium.NewID[atrium.AccountID](), q.ID), atrium.CodeNotFound)
	wantCode(t, e.unlinkErr(t, atrium.NewID[atrium.AccountID](), q.ID), atrium.CodeNotFound)
}

func linkBound(t *testing.T, e *env) {
	var accounts []*atrium.Account
	var chunk []store.Record
	for i := range atrium.MaxLinks + 2 {
		accounts = append(accounts, e.newAccount(fmt.Sprintf("a%d.example", i), ""))
		chunk = append(chunk, accounts[i])
	}
	e.put(t, chunk...)
	p := e.newProspect(accounts[:atrium.MaxLinks-1]...)
	e.put(t, p)
	first, second, last := accounts[0].ID, accounts[atrium.MaxLinks].ID, accounts[atrium.MaxLinks+1].ID
	e.merge(t, first, last) // links it without counting
	if err := e.linkErr(t, second, p.ID); err != nil {
		t.Errorf("the last possible link: %v", err)
	}
	if err := e.linkErr(t, second, p.ID); err != nil {
		t.Errorf("the same again: %v", err)
	}
	wantCode(t, e.linkErr(t, last, p.ID), atrium.CodeConflict)
	if err := e.unlinkErr(t, second, p.ID); err != nil {
		t.Fatal(err)
	}
	if err := e.linkErr(t, last, p.ID); err != nil {
		t.Errorf("a link in place of another one: %v", err)
	}
	if _, err := e.DeleteProspect(t.Context(), e.change(), p.ID, accept); err != nil || e.links(t) != 0 {
		t.Errorf("delete: %v, and %d links are left", err, e.links(t))
	}
}

func prospectLinkedToGroup(t *testing.T, e *env) {
	survivor, old := e.record(t, byDomain("bolt.example")).AccountID, e.record(t, byDomain("old.example")).AccountID
	p, q := e.prospect(t, "p@acme.example"), e.prospect(t, "q@acme.example")
	e.link(t, old, p.ID)
	e.merge(t, old, survivor)
	e.link(t, old, q.ID)
	e.wantProspect(t, p, survivor)
	e.wantProspect(t, q, survivor)
	for _, id := range []atrium.AccountID{old, survivor} {
		if got := e.allProspects(t, atrium.ProspectFilter{AccountID: id}, 1); !slices.Equal(got, []string{"q@acme.example", "p@acme.example"}) {
			t.Errorf("the group has %v", got)
		}
	}
	for _, id := range []atrium.ProspectID{p.ID, q.ID} {
		if err := e.unlinkErr(t, old, id); err != nil {
			t.Fatal(err)
		}
	}
	if n := e.links(t); n != 0 {
		t.Errorf("%d links are left", n)
	}
}

// links returns the number of links of the tenant.
func (e *env) links(t tb) (n int64) {
	t.Helper()
	if err := e.db.Read(t.Context(), func(tx engine.Tx) error {
		return tx.Query("SELECT COUNT(*) FROM account_prospects WHERE tenant_id = $1", engine.Args{storedID(e.tenant)}, func(r engine.Row) error {
			n = r.Int(0)
			return nil
		})
	}); err != nil {
		t.Fatalf("count links: %v", err)
	}
	return n
}

// A deadlockCounter is a DB that counts deadlocks.
type deadlockCounter struct {
	engine.DB
	deadlocks *atomic.Int64
}

func (w deadlockCounter) Write(ctx context.Context, do func(engine.Tx) error) error {
	return w.DB.Write(ctx, func(tx engine.Tx) error {
		err := do(tx)
		if err != nil && strings.Contains(err.Error(), "deadlock") {
			w.deadlocks.Add(1)
		}
		return err
	})
}

func linksAndMergesInOneOrder(t *testing.T, e *env) {
	var deadlocks atomic.Int64
	e.Store = store.New(deadlockCounter{e.db, &deadlocks}, e.clock.now)
	a, b, _ := e.threeAccounts(t)
	p := e.prospect(t, "jane@acme.example")
	e.link(t, a.ID, p.ID)
	no := atrium.Errorf(atrium.CodePreconditionFailed, "no")
	refuse := func(atrium.LinkedProspect) error { return no }
	parallel(t, 2*writers, func(i int) {
		for range 10 {
			var err error
			switch i % 4 {
			case 0:
				_, err = e.LinkProspect(t.Context(), e.change(), b.ID, p.ID, refuse)
			case 1:
				_, err = e.DeleteProspect(t.Context(), e.change(), p.ID, refuse)
			default:
				if _, err = e.MergeAccounts(t.Context(), e.change(), a.ID, b.ID, accept); err == nil {
					_, err = e.SplitAccount(t.Context(), e.change(), b.ID, a.ID, accept)
				}
				if atrium.CodeOf(err) == atrium.CodeNotFound { // split concurrently
					err = nil
				}
			}
			if err != nil && !errors.Is(err, no) {
				t.Error(err)
			}
		}
	})
	if n := deadlocks.Load(); n > 0 {
		t.Errorf("%d transactions were in a deadlock", n)
	}
	e.wantSoundGroups(t)
}

func copiesNotExported(t *testing.T, e *env) {
	survivor, old := e.newAccount("bolt.example", ""), e.newAccount("old.example", "")
	p := e.newProspect(old)
	e.put(t, survivor, old, p)
	e.merge(t, old.ID, survivor.ID)
	if exported := of[*atrium.LinkedProspect](e.records(t)); len(exported) != 1 || !slices.Equal(exported[0].AccountIDs, p.AccountIDs) {
		t.Errorf("exported %+v, want the one link", exported)
	}
	if added, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(p)); err != nil || added.Added != 0 {
		t.Errorf("import it again: %d, %v", added, err)
	}
}
