package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

var manyProspects = []guarantee{
	{"statements about an account with thousands of prospects read a bounded number of rows", manyBounded},
	{"prospects with long texts are read in bounded pages", longTextsBounded},
	{"all reads of an account with many prospects are from one snapshot", manyOneState},
	{"the precondition of a change of an account with many prospects sees the state that is changed", manyChecked},
	{"a change fails if the account changes during each of its checks", manyCheckedInVain},
	{"a change of an account with many prospects returns the committed state", manyAsCommitted},
	{"merged accounts with long domains are read and checked one domain at a time", longMergedBounded},
}

// A rowCounter is a DB that counts the rows that statements read.
type rowCounter struct {
	engine.DB
	writes, reads *atomic.Int64 // the most rows of one statement, in write transactions and in others
}

func (c rowCounter) Read(ctx context.Context, f func(engine.Tx) error) error {
	return c.DB.Read(ctx, func(tx engine.Tx) error { return f(countedTx{tx, c.reads}) })
}

func (c rowCounter) Write(ctx context.Context, f func(engine.Tx) error) error {
	return c.DB.Write(ctx, func(tx engine.Tx) error { return f(countedTx{tx, c.writes}) })
}

func (c rowCounter) Query(ctx context.Context, sql string, args engine.Args, each func(engine.Row) error) error {
	n := int64(0)
	err := c.DB.Query(ctx, sql, args, counting(&n, each))
	c.reads.Store(max(c.reads.Load(), n))
	return err
}

type countedTx struct {
	engine.Tx
	most *atomic.Int64
}

func (tx countedTx) Query(sql string, args engine.Args, each func(engine.Row) error) error {
	return tx.count(tx.Tx.Query, sql, args, each)
}

func (tx countedTx) Lock(sql string, args engine.Args, each func(engine.Row) error) error {
	return tx.count(tx.Tx.Lock, sql, args, each)
}

func (tx countedTx) count(query func(string, engine.Args, func(engine.Row) error) error, sql string, args engine.Args, each func(engine.Row) error) error {
	n := int64(0)
	err := query(sql, args, counting(&n, each))
	tx.most.Store(max(tx.most.Load(), n))
	return err
}

func counting(n *int64, each func(engine.Row) error) func(engine.Row) error {
	return func(r engine.Row) error {
		*n++
		return each(r)
	}
}

// mostRows limits the rows of one statement about one account.
const mostRows = 250

// withProspects creates an account with n prospects, each with its own email.
func (e *env) withProspects(t tb, domain string, n int) atrium.AccountID {
	t.Helper()
	a := e.newAccount(domain, "")
	chunk := []store.Record{a}
	for i := range n {
		p := e.newProspect(a)
		p.Email = pointer(fmt.Sprintf("p%d@acme.example", i))
		if chunk = append(chunk, p); len(chunk) == 1000 {
			e.put(t, chunk...)
			chunk = nil
		}
	}
	if len(chunk) > 0 {
		e.put(t, chunk...)
	}
	return a.ID
}

// emails returns the emails of the prospects of an account, and checks the order of the
// prospects.
func emails(t tb, d atrium.AccountDetail) (all []string) {
	t.Helper()
	var last atrium.Prospect
	if err := d.EachProspect(func(p *atrium.Prospect) error {
		if p.CreatedAt < last.CreatedAt || p.CreatedAt == last.CreatedAt && p.ID <= last.ID {
			t.Errorf("%s of %s comes after %s of %s", p.ID, p.CreatedAt, last.ID, last.CreatedAt)
		}
		last = *p
		all = append(all, *p.Email)
		return nil
	}); err != nil {
		t.Fatalf("read the prospects: %v", err)
	}
	return all
}

func (e *env) readEmails(t tb, id atrium.AccountID) (all []string) {
	t.Helper()
	if err := e.ReadAccount(t.Context(), e.tenant, id, func(d atrium.AccountDetail) error {
		all = emails(t, d)
		return nil
	}); err != nil {
		t.Fatalf("read an account: %v", err)
	}
	return all
}

// nameOf returns the name of an account with many prospects.
func (e *env) nameOf(t tb, id atrium.AccountID) (name string) {
	t.Helper()
	if err := e.ReadAccount(t.Context(), e.tenant, id, func(d atrium.AccountDetail) error {
		name = d.Name
		return nil
	}); err != nil {
		t.Fatalf("read an account: %v", err)
	}
	return name
}

func manyBounded(t *testing.T, e *env) {
	const n = 5_000
	id := e.withProspects(t, "acme.example", n)
	var writes, reads atomic.Int64
	e.Store = store.New(rowCounter{e.db, &writes, &reads}, e.clock.now)
	if _, _, err := e.Account(t.Context(), e.tenant, id); !errors.Is(err, atrium.ErrPartial) {
		t.Errorf("read all at once: %v", err)
	}
	if _, err := e.AccountDetail(t.Context(), e.tenant, id); !errors.Is(err, atrium.ErrPartial) {
		t.Errorf("read all at once: %v", err)
	}
	reads.Store(0)
	if d, err := e.AccountGroup(t.Context(), e.tenant, id); err != nil || d.ID != id || len(d.Prospects) > 0 || reads.Load() > 2 {
		t.Errorf("without prospects: %+v of %d rows, %v", d, reads.Load(), err)
	}
	if got := e.readEmails(t, id); len(got) != n {
		t.Errorf("read %d prospects, want %d", len(got), n)
	}
	checks := 0
	check := func(d atrium.AccountDetail) error {
		checks++
		if got := emails(t, d); len(got) != n {
			t.Errorf("the check has read %d prospects, want %d", len(got), n)
		}
		return nil
	}
	d, err := e.RenameAccount(t.Context(), e.change(), id, "Acme", check)
	if err != nil || d.Name != "Acme" || !d.More || d.Prospects != nil {
		t.Errorf("renamed to %+v, %v", d, err)
	}
	if d, err = e.UpdateAccount(t.Context(), e.change(), id, atrium.AccountUpdate{Domain: "bolt.example"}, check); err != nil || !d.More || len(d.Merged) != 1 {
		t.Errorf("changed to %+v, %v", d, err)
	}
	if checks != 2 {
		t.Errorf("%d checks for two changes", checks)
	}
	if w, r := writes.Load(), reads.Load(); w > mostRows || r > mostRows {
		t.Errorf("a statement of a change has read %d rows, and one of a read %d, want %d at most", w, r, mostRows)
	}
}

func longTextsBounded(t *testing.T, e *env) {
	a := e.newAccount("acme.example", "")
	chunk := []store.Record{a}
	const n = 150
	for i := range n {
		p := e.newProspect(a)
		p.Email = pointer(fmt.Sprintf("p%d@%s", i, strings.Repeat("é", atrium.MaxProspectText-10)))
		chunk = append(chunk, p)
	}
	e.put(t, chunk...)
	if _, _, err := e.Account(t.Context(), e.tenant, a.ID); !errors.Is(err, atrium.ErrPartial) {
		t.Errorf("read all at once: %v", err)
	}
	got := e.readEmails(t, a.ID)
	slices.Sort(got)
	if len(slices.Compact(got)) != n {
		t.Errorf("read %d prospects, want %d", len(got), n)
	}
}

func manyOneState(t *testing.T, e *env) {
	const n = 450
	id := e.withProspects(t, "acme.example", n)
	p := e.prospect(t, "new@acme.example")
	if err := e.ReadAccount(t.Context(), e.tenant, id, func(d atrium.AccountDetail) error {
		before := emails(t, d)
		e.link(t, id, p.ID)
		if after := emails(t, d); len(before) != n || !slices.Equal(after, before) {
			t.Errorf("the second pass has read %d prospects, and the first one %d", len(after), len(before))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := e.readEmails(t, id); len(got) != n+1 {
		t.Errorf("a later read has found %d prospects, want %d", len(got), n+1)
	}
}

func manyChecked(t *testing.T, e *env) {
	id := e.withProspects(t, "acme.example", 250)
	first := of[*atrium.LinkedProspect](e.records(t))[0].ID
	for what, change := range map[string]func(){
		"a prospect is changed": func() {
			if _, err := e.UpdateProspect(t.Context(), e.change(), first, func(p *atrium.Prospect) { p.Email = pointer("changed@acme.example") }, accept); err != nil {
				t.Error(err)
			}
		},
		"a prospect is linked":              func() { e.link(t, id, e.prospect(t, "linked@acme.example").ID) },
		"another account is merged":         func() { e.merge(t, e.record(t, byDomain("bolt.example")).AccountID, id) },
		"an entry gives the account a name": func() { e.record(t, atrium.Claim{AccountID: id, Name: "Named"}) },
	} {
		e.clock.step(1e9)
		var states []string
		note := func(d atrium.AccountDetail) {
			states = append(states, fmt.Sprint(describe(&d.Account), len(d.Merged), emails(t, d)))
		}
		if err := e.ReadAccount(t.Context(), e.tenant, id, func(d atrium.AccountDetail) error {
			note(d)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		refused := atrium.Errorf(atrium.CodePreconditionFailed, "no")
		_, err := e.RenameAccount(t.Context(), e.change(), id, "Renamed", func(d atrium.AccountDetail) error {
			if len(states) == 1 {
				defer change()
			}
			if note(d); states[len(states)-1] != states[0] {
				return refused
			}
			return nil
		})
		if !errors.Is(err, refused) || len(states) != 3 {
			t.Errorf("%s: %d checks ended with %v, want a second one that refuses the change", what, len(states)-1, err)
		}
		if got := e.nameOf(t, id); got == "Renamed" {
			t.Errorf("%s: the account was renamed nevertheless", what)
		}
	}
}

func manyCheckedInVain(t *testing.T, e *env) {
	id := e.withProspects(t, "acme.example", 250)
	_, err := e.RenameAccount(t.Context(), e.change(), id, "Renamed", func(atrium.AccountDetail) error {
		e.prospect(t, "another@acme.example")
		return nil
	})
	wantCode(t, err, atrium.CodeUnavailable)
	if got := e.nameOf(t, id); got != "" {
		t.Errorf("the account is called %q", got)
	}
}

func longMergedBounded(t *testing.T, e *env) {
	const n, size = 12, 1 << 20
	ids := e.longDomains(t, n, size)
	root := e.record(t, byDomain("acme.example")).AccountID
	for _, id := range ids {
		e.merge(t, id, root)
	}
	want := map[atrium.AccountID]string{}
	for _, a := range of[*atrium.Account](e.records(t)) {
		want[a.ID] = a.Domain
	}
	merged := func(d atrium.AccountDetail) (all []atrium.AccountID) {
		if err := d.EachMerged(func(m *atrium.MergedAccount) error {
			if all = append(all, m.ID); m.Domain != want[m.ID] || m.MergedInto != root {
				t.Errorf("%s has a domain of %d bytes and leads to %s", m.ID, len(m.Domain), m.MergedInto)
			}
			return nil
		}); err != nil {
			t.Errorf("read the merged accounts: %v", err)
		}
		return all
	}
	if _, err := e.AccountDetail(t.Context(), e.tenant, root); !errors.Is(err, atrium.ErrPartial) {
		t.Errorf("read all at once: %v", err)
	}
	if err := e.ReadAccount(t.Context(), e.tenant, ids[0], func(d atrium.AccountDetail) error {
		if one, other := merged(d), merged(d); d.Merged != nil || len(one) != n || !slices.IsSorted(one) || !slices.Equal(one, other) {
			t.Errorf("read %v, then %v", one, other)
		}
		return nil
	}); err != nil {
		t.Errorf("read the account: %v", err)
	}
	counted, most := e.writing()
	checks := 0
	check := func(d atrium.AccountDetail) error {
		if checks++; len(merged(d)) == 0 {
			t.Error("the check does not see the merged accounts")
		}
		return nil
	}
	d, err := counted.UpdateAccount(t.Context(), e.change(), root, atrium.AccountUpdate{Name: pointer("Acme")}, check)
	if err != nil || d.Name != "Acme" || !d.MoreMerged || d.Merged != nil {
		t.Errorf("updated to %+v, %v", d.Account, err)
	}
	if err := e.ReadChanged(t.Context(), d, func(d atrium.AccountDetail) error {
		if len(merged(d)) != n || d.Name != "Acme" {
			t.Errorf("read %+v after the change", d.Account)
		}
		return nil
	}); err != nil {
		t.Errorf("read the account after a change: %v", err)
	}
	other := e.record(t, byDomain("other.example")).AccountID
	if d, err = counted.SplitAccount(t.Context(), e.change(), root, ids[0], check); err != nil || !d.MoreMerged {
		t.Errorf("split: %v", err)
	}
	if d, err = counted.MergeAccounts(t.Context(), e.change(), other, root, nil); err != nil || !d.MoreMerged {
		t.Errorf("merged: %v", err)
	}
	if _, err := counted.EraseAccount(t.Context(), e.change(), root, func(atrium.AccountDetail) error { checks++; return nil }); err != nil {
		t.Errorf("erase: %v", err)
	}
	if checks != 3 || most.bytes > size {
		t.Errorf("%d checks, and a write transaction has read %d bytes", checks, most.bytes)
	}
}

func manyAsCommitted(t *testing.T, e *env) {
	id := e.withProspects(t, "acme.example", 250)
	few := e.withProspects(t, "bolt.example", 2)
	d, err := e.MergeAccounts(t.Context(), e.change(), few, id, accept)
	if err != nil || !d.More || d.ID != id || len(d.Merged) != 1 {
		t.Fatalf("merged into %+v, %v", d, err)
	}
	e.split(t, id, few)
	e.rename(t, id, "Later")
	if err := e.ReadChanged(t.Context(), d, func(now atrium.AccountDetail) error {
		if got := emails(t, now); now.Name != d.Name || len(now.Merged) != 1 || len(got) != 250 {
			t.Errorf("read %+v with %d prospects, want the account as committed and the prospects that it has", now.Account, len(got))
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	d, err = e.SplitAccount(t.Context(), e.change(), e.merge(t, few, id).ID, few, func(d atrium.AccountDetail) error {
		if got := emails(t, d); len(got) != 252 {
			t.Errorf("the check has read %d prospects, want 252", len(got))
		}
		return nil
	})
	if err != nil || !d.More || len(d.Merged) != 0 {
		t.Errorf("split to %+v, %v", d, err)
	}
	broken := *e
	broken.Store = store.New(writeOnly{e.db}, e.clock.now)
	if d, err = broken.RenameAccount(t.Context(), e.change(), id, "Renamed", nil); err != nil || d.Name != "Renamed" {
		t.Fatalf("renamed to %+v, %v", d, err)
	}
	err = broken.ReadChanged(t.Context(), d, accept)
	wantCode(t, err, atrium.CodeUnavailable)
	if err == nil || !strings.Contains(err.Error(), "The change was made") {
		t.Errorf("reading during a failure: %v", err)
	}
}
