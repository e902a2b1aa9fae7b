package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

// How much merges, splits and imports of merges read and write.

var mergeBounds = []guarantee{
	{"the number of accounts merged into one is limited", mergeBound},
	{"a merge copies only the links of the merged account", mergeCopiesMoved},
	{"merges and splits neither read nor write domains", mergeReadsNoDomains},
	{"an import of merges locks and changes a bounded number of accounts per transaction", mergesCounted},
	{"an import copies only new links, and a bounded number per transaction", importLinksBounded},
}

// A changeCounter is a DB that records the most rows that one statement has changed.
type changeCounter struct {
	engine.DB
	most *atomic.Int64
}

func (c changeCounter) Write(ctx context.Context, f func(engine.Tx) error) error {
	return c.DB.Write(ctx, func(tx engine.Tx) error { return f(changeCounterTx{tx, c.most}) })
}

type changeCounterTx struct {
	engine.Tx
	most *atomic.Int64
}

func (tx changeCounterTx) Exec(sql string, args ...any) (int64, error) {
	n, err := tx.Tx.Exec(sql, args...)
	tx.most.Store(max(tx.most.Load(), n))
	return n, err
}

func (tx changeCounterTx) Batch(b *engine.Batch, rows []engine.Args, each func(engine.Row) error) (int64, error) {
	n, err := tx.Tx.Batch(b, rows, each)
	if each == nil {
		tx.most.Store(max(tx.most.Load(), n))
	}
	return n, err
}

func mergeCopiesMoved(t *testing.T, e *env) {
	const n = 300
	large, small := e.withProspects(t, "large.example", n), e.withProspects(t, "small.example", 3)
	survivor := e.record(t, byDomain("survivor.example")).AccountID
	e.merge(t, large, survivor)
	var most atomic.Int64
	counted := *e
	counted.Store = store.New(changeCounter{e.db, &most}, e.clock.now)
	counted.merge(t, small, survivor)
	if got := e.readEmails(t, survivor); len(got) != n+3 {
		t.Errorf("the survivor has %d prospects, want %d", len(got), n+3)
	}
	e.wantSoundGroups(t)
	if got := most.Load(); got > 10 {
		t.Errorf("a statement changed %d rows to merge an account with 3 prospects", got)
	}
}

func mergeBound(t *testing.T, e *env) {
	var drafts []*atrium.Draft
	for i := range atrium.MaxMerged + 2 {
		drafts = append(drafts, e.draft(t, byDomain(fmt.Sprintf("a%d.example", i))))
	}
	var ids []atrium.AccountID
	for _, r := range receipts(t, e.append(t, drafts...)) {
		ids = append(ids, r.AccountID)
	}
	half := atrium.MaxMerged / 2
	for _, id := range ids[1:half] {
		e.merge(t, id, ids[0])
	}
	for _, id := range ids[half+1:] {
		e.merge(t, id, ids[half])
	}
	if _, err := e.MergeAccounts(t.Context(), e.change(), ids[0], ids[half], accept); atrium.CodeOf(err) != atrium.CodeConflict {
		t.Errorf("one more than there may be: %v", err)
	}
	e.split(t, ids[0], ids[1])
	e.merge(t, ids[half], ids[0])
	if d := e.detail(t, ids[0]); len(d.Merged) != atrium.MaxMerged {
		t.Errorf("%d accounts are merged, want %d", len(d.Merged), atrium.MaxMerged)
	}
	if _, err := e.UpdateAccount(t.Context(), e.change(), ids[0], atrium.AccountUpdate{Domain: "new.example"}, accept); atrium.CodeOf(err) != atrium.CodeConflict {
		t.Errorf("one more domain: %v", err)
	}
	e.wantSoundGroups(t)
}

// mergeReadsNoDomains merges and splits accounts with long domains.
func mergeReadsNoDomains(t *testing.T, e *env) {
	const size, n = 1 << 20, 12
	ids := e.longDomains(t, n, size)
	lines := make([]store.Record, 0, n)
	for _, id := range ids[1:] {
		lines = append(lines, &atrium.Merge{AccountID: id, Into: ids[0]})
	}
	counted, most := e.writing()
	counted.put(t, lines...)
	if added, err := counted.Import(t.Context(), atrium.CommandLine(e.tenant), items(lines[0])); err != nil || added.Added != 0 {
		t.Errorf("imported again: %d, %v", added, err)
	}
	if most.bytes > 64<<10 {
		t.Errorf("a transaction read %d bytes to merge accounts", most.bytes)
	}
	e.wantSoundGroups(t)
	into := e.record(t, byDomain("into.example")).AccountID
	for _, id := range ids[1:6] {
		e.split(t, ids[0], id)
	}
	e.merge(t, ids[0], into)
	all := 0
	if err := e.ReadAccount(t.Context(), e.tenant, into, func(d atrium.AccountDetail) error {
		return d.EachMerged(func(*atrium.MergedAccount) error {
			all++
			return nil
		})
	}); err != nil || all != 7 {
		t.Errorf("%d accounts are merged, want 7: %v", all, err)
	}
	e.checkLongDomains(t)
	e.wantSoundGroups(t)
}

// mergesCounted imports merges of groups of accounts.
func mergesCounted(t *testing.T, e *env) {
	const groups, size = 25, 50
	var accounts, lines, joined []store.Record
	var roots []*atrium.Account
	for i := range groups * size {
		a := e.newAccount(fmt.Sprintf("a%d.example", i), "")
		accounts = append(accounts, a)
		if i%size == 0 {
			roots = append(roots, a)
			continue
		}
		lines = append(lines, &atrium.Merge{AccountID: a.ID, Into: roots[len(roots)-1].ID})
	}
	for chunk := range slices.Chunk(accounts, 500) {
		e.put(t, chunk...)
	}
	for chunk := range slices.Chunk(lines, 200) {
		e.put(t, chunk...)
	}
	for i := range groups / 2 {
		joined = append(joined, &atrium.Merge{AccountID: roots[2*i].ID, Into: roots[2*i+1].ID})
	}
	if _, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(joined...)); !errors.Is(err, store.ErrChunkTooLarge) {
		t.Errorf("an import of %d merges of groups of %d accounts: %v", len(joined), size, err)
	}
	for chunk := range slices.Chunk(joined, 4) {
		e.put(t, chunk...)
	}
	e.wantSoundGroups(t)
}

func importLinksBounded(t *testing.T, e *env) {
	merged := e.withProspects(t, "merged.example", 300)
	survivor := e.record(t, byDomain("survivor.example")).AccountID
	e.merge(t, merged, survivor)
	// Delete the copies: the survivor shows which ones the import makes.
	if err := e.db.Write(t.Context(), func(tx engine.Tx) error {
		_, err := tx.Exec("DELETE FROM account_prospects WHERE tenant_id = $1 AND account_id = $2", storedID(e.tenant), storedID(survivor))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	p := e.newProspect(&atrium.Account{ID: merged})
	p.Email = pointer("new@acme.example")
	e.put(t, p)
	if got := e.readEmails(t, survivor); len(got) != 1 {
		t.Errorf("the survivor has %d prospects, want only the new one", len(got))
	}

	var accounts []*atrium.Account
	var chunk, prospects []store.Record
	for i := range atrium.MaxLinks {
		a := e.newAccount(fmt.Sprintf("a%d.example", i), "")
		accounts, chunk = append(accounts, a), append(chunk, a)
	}
	e.put(t, chunk...)
	for range 11 {
		prospects = append(prospects, e.newProspect(accounts...))
	}
	if _, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(prospects...)); !errors.Is(err, store.ErrChunkTooLarge) {
		t.Errorf("an import of 11,000 links: %v", err)
	}
	e.put(t, prospects[0])
	e.put(t, prospects[1:10]...)
	if _, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(prospects...)); !errors.Is(err, store.ErrChunkTooLarge) {
		t.Errorf("an import that compares 10,000 links: %v", err)
	}
}
