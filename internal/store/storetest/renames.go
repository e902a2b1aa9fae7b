package storetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"atrium"
	"atrium/internal/canonical"
)

// renames are the guarantees for concurrent renames, which can share a transaction.
var renames = []guarantee{
	{concurrent + "renames are each made and audited once", renamesTogether},
	{concurrent + "a rename is made only in the state that its check has seen", renamesCount},
	{concurrent + "a rename whose request ends does not affect concurrent ones", renameAbandoned},
}

// renamers is the number of concurrent renames on each of two nodes.
const renamers = 12

// whileRenaming calls f concurrently on two nodes, with the env of the node and a change of a
// request of its own. On each node a rename of another account is running when the first f is
// called, so that the others can queue behind it.
func (e *env) whileRenaming(t *testing.T, f func(e *env, c atrium.Change, i int)) {
	startsGoroutines(t)
	t.Helper()
	var all sync.WaitGroup
	for n, node := range []*env{e, e.node()} {
		other := node.record(t, byDomain(fmt.Sprintf("other%d.example", n))).AccountID
		var started sync.WaitGroup
		started.Add(renamers)
		running := make(chan struct{})
		begin := sync.OnceFunc(func() {
			close(running)
			started.Wait()
		})
		all.Go(func() {
			if _, err := node.RenameAccount(t.Context(), node.change(), other, "Other", func(atrium.AccountDetail) error {
				begin()
				return nil
			}); err != nil {
				t.Errorf("the first rename: %v", err)
			}
		})
		for i := range renamers {
			all.Go(func() {
				<-running
				started.Done()
				c := node.change()
				c.RequestID, c.Actor = fmt.Sprintf("req%02d", n*renamers+i), fmt.Sprintf("key%02d", n*renamers+i)
				f(node, c, n*renamers+i)
			})
		}
	}
	all.Wait()
}

// renamesTogether renames accounts with no, few and many prospects, a merged account and an unknown
// one.
func renamesTogether(t *testing.T, e *env) {
	type account struct {
		id, shown atrium.AccountID // shown after a merge
		prospects int
	}
	accounts := []account{}
	for i, n := range []int{0, 0, 0, 0, 1, 3, 32, 33, 40} {
		id := e.withProspects(t, fmt.Sprintf("a%d.example", i), n)
		accounts = append(accounts, account{id, id, n})
	}
	merged := e.record(t, byDomain("merged.example")).AccountID
	e.merge(t, merged, accounts[0].id)
	accounts = append(accounts, account{merged, accounts[0].id, 0})
	unknown := atrium.NewID[atrium.AccountID]()
	refused := atrium.Errorf(atrium.CodePreconditionFailed, "no")

	e.clock.step(1e9)
	before := e.head(t).Number
	e.whileRenaming(t, func(e *env, c atrium.Change, i int) {
		a := accounts[i%len(accounts)]
		d, err := e.RenameAccount(t.Context(), c, a.id, c.RequestID, func(d atrium.AccountDetail) error {
			if d.ID != a.shown || len(d.Prospects) != a.prospects {
				t.Errorf("the check was given %s with %d prospects, want %s with %d", d.ID, len(d.Prospects), a.shown, a.prospects)
			}
			return nil
		})
		if err != nil || d.ID != a.shown || d.Name != c.RequestID || d.UpdatedAt != e.clock.instant() || len(emails(t, d)) != a.prospects {
			t.Errorf("renamed %+v to %+v, %v", a, d.Account, err)
		}
		_, err = e.RenameAccount(t.Context(), c, a.id, "Refused", func(atrium.AccountDetail) error { return refused })
		wantCode(t, err, atrium.CodePreconditionFailed)
		_, err = e.RenameAccount(t.Context(), c, unknown, "Unknown", accept)
		wantCode(t, err, atrium.CodeNotFound)
	})
	e.wantSound(t, nil)
	if n := e.head(t).Number - before; n != 2*renamers+2 { // and the two other accounts
		t.Errorf("%d rows were audited, want %d", n, 2*renamers+2)
	}
	last := map[string]atrium.AuditRow{}
	for _, r := range slices.Backward(e.auditRows(t, atrium.AuditFilter{}, 100)) { // oldest first
		if r.Number > before {
			last[r.Subject] = r
			if r.Actor != "key_test" && r.Actor[len("key"):] != r.RequestID[len("req"):] {
				t.Errorf("row %d is of %s in %s", r.Number, r.Actor, r.RequestID)
			}
		}
	}
	for _, a := range accounts {
		if name, row := e.nameOf(t, a.id), last[string(a.shown)]; name == "" || name != row.RequestID {
			t.Errorf("%s has the name %q, and the last request %q", a.id, name, row.RequestID)
		} else if found, _ := e.allAccounts(t, atrium.AccountFilter{Words: canonical.QueryWords(name)}, atrium.AccountsWord, 10); len(found) != 1 || found[0].ID != a.shown {
			t.Errorf("a search for %q found %+v, want %s", name, found, a.shown)
		}
	}
}

// renamesCount increments the number in a name. A rename that did not see the one before it would
// lose an increment.
func renamesCount(t *testing.T, e *env) {
	id := e.record(t, atrium.Claim{Domain: "acme.example", Name: "0"}).AccountID
	changed := atrium.Errorf(atrium.CodePreconditionFailed, "the name has changed")
	var attempts atomic.Int64
	e.whileRenaming(t, func(e *env, c atrium.Change, _ int) {
		for attempts.Add(1) < 10_000 {
			before := e.nameOf(t, id)
			n, err := strconv.Atoi(before)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err = e.RenameAccount(t.Context(), c, id, strconv.Itoa(n+1), func(d atrium.AccountDetail) error {
				if d.Name != before {
					return changed
				}
				return nil
			}); err == nil {
				return
			}
			wantCode(t, err, atrium.CodePreconditionFailed)
		}
	})
	if name, want := e.nameOf(t, id), strconv.Itoa(2*renamers); name != want {
		t.Errorf("counted to %s, want %s", name, want)
	}
	e.wantSound(t, nil)
}

func renameAbandoned(t *testing.T, e *env) {
	var ids []atrium.AccountID
	for i := range 2 * renamers {
		ids = append(ids, e.record(t, byDomain(fmt.Sprintf("a%d.example", i))).AccountID)
	}
	e.whileRenaming(t, func(e *env, c atrium.Change, i int) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if i%2 == 0 {
			cancel()
		}
		_, err := e.RenameAccount(ctx, c, ids[i], "Renamed", accept)
		switch name := e.nameOf(t, ids[i]); {
		case err == nil && name != "Renamed", atrium.CodeOf(err) == atrium.CodeUnavailable && name != "":
			t.Errorf("rename %d: %v, and the name is %q", i, err, name)
		case err != nil && i%2 == 1:
			t.Errorf("rename %d: %v", i, err)
		}
	})
	e.wantSound(t, nil)
}
