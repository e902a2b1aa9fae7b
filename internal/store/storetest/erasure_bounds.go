package storetest

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

var erasureBounds = []guarantee{
	{"a transaction of an erasure deletes at most 1,000 rows, however often entries were moved", erasedMovesInParts},
	{"a transaction of an erasure deletes at most 2 MiB of entries", erasedBytesInParts},
	{"an erased account with many links disappears at once and its links are deleted in batches", erasedWithManyLinks},
	{"audit details of an erased account or prospect are deleted in batches before the response", erasedDetailsInParts},
	{"erasures of several tenants take turns", erasuresInTurn},
}

// mostChanged is how many rows one transaction of an erasure may change: 250 entries and their
// tombstones, 500 rows of move history, and some other rows.
const mostChanged = 1_010

// A largest is the number of rows that the largest transaction changed, and the number of bytes that
// the largest one sent in batches.
type largest struct{ rows, bytes int64 }

// measured returns the env with a store that measures its write transactions.
func (e *env) measured() (*env, *largest) {
	most := &largest{}
	other := *e
	other.Store = store.New(measuredDB{e.db, most}, e.clock.now)
	return &other, most
}

type measuredDB struct {
	engine.DB
	most *largest
}

func (db measuredDB) Write(ctx context.Context, f func(engine.Tx) error) error {
	return db.DB.Write(ctx, func(tx engine.Tx) error {
		m := &measuredTx{Tx: tx}
		err := f(m)
		db.most.rows, db.most.bytes = max(db.most.rows, m.rows), max(db.most.bytes, m.bytes)
		return err
	})
}

type measuredTx struct {
	engine.Tx
	rows, bytes int64
}

func (tx *measuredTx) Query(sql string, args engine.Args, each func(engine.Row) error) error {
	return tx.Tx.Query(sql, args, func(r engine.Row) error {
		if sql[:6] == "DELETE" { // with RETURNING
			tx.rows++
		}
		return each(r)
	})
}

func (tx *measuredTx) Exec(sql string, args ...any) (int64, error) {
	n, err := tx.Tx.Exec(sql, args...)
	tx.rows += n
	return n, err
}

func (tx *measuredTx) Batch(b *engine.Batch, rows []engine.Args, each func(engine.Row) error) (int64, error) {
	n, err := tx.Tx.Batch(b, rows, each)
	if each == nil { // otherwise it reads
		tx.rows += n
	}
	for _, row := range rows {
		for _, value := range row {
			switch v := value.(type) {
			case string:
				tx.bytes += int64(len(v))
			case []byte:
				tx.bytes += int64(len(v))
			}
		}
	}
	return n, err
}

func (tx *measuredTx) PipelineExec(b *engine.Batch, rows []engine.Args) error {
	tx.rows += int64(len(rows))
	return tx.Tx.PipelineExec(b, rows)
}

// manyMoves returns an account with entries, each of which was moved back and forth by a rule.
func (e *env) manyMoves(t tb, entries, moves int, given string) atrium.AccountID {
	t.Helper()
	a, b := e.record(t, byDomain("a.example")).AccountID, e.record(t, byDomain("b.example")).AccountID
	for range entries {
		e.record(t, byName("moved"))
	}
	unattributed := e.record(t, byName("other")).AccountID
	from, to := unattributed, a
	for i := range moves {
		request := atrium.MoveRequest{From: from, To: to, Rule: atrium.MoveRule{ClaimedName: "moved", Given: []byte(given)}, Limit: 1000}
		if report, _, err := e.Move(t.Context(), e.change(), request); err != nil || report.Moved != int64(entries) {
			t.Fatalf("move %d of %s to %s: %+v, %v", i, request.From, request.To, report, err)
		}
		if from = to; from == a {
			to = b
		} else {
			to = a
		}
	}
	return from
}

func (e *env) rowsOf(t tb, table string) (n int64) {
	t.Helper()
	if err := e.db.Query(t.Context(), "SELECT COUNT(*) FROM "+table+" WHERE tenant_id = $1", engine.Args{storedID(e.tenant)}, func(r engine.Row) error {
		n = r.Int(0)
		return nil
	}); err != nil {
		t.Fatalf("count %s: %v", table, err)
	}
	return n
}

func erasedMovesInParts(t *testing.T, e *env) {
	a := e.manyMoves(t, 60, 30, `{}`) // 1,800 rows of moves
	if n := e.rowsOf(t, "moved_entries"); n != 60*30 {
		t.Fatalf("%d rows about moves", n)
	}
	e, most := e.measured()
	e.erase(t, a)
	e.eraseAll(t)
	if most.rows > mostChanged {
		t.Errorf("one transaction changed %d rows", most.rows)
	}
	if n, m := e.entriesOf(t, a), e.rowsOf(t, "moved_entries"); n != 0 || m != 0 {
		t.Errorf("%d entries and %d rows about moves are left", n, m)
	}
}

func erasedBytesInParts(t *testing.T, e *env) {
	account := e.newAccount("a.example", "")
	e.put(t, account)
	large := []byte(fmt.Sprintf("%q", bytes.Repeat([]byte("x"), 1<<20)))
	for range 12 {
		entry := e.newEntry(account, "")
		entry.Payload = large
		e.put(t, entry)
	}
	e, most := e.measured()
	e.erase(t, account.ID)
	e.eraseAll(t)
	if most.rows > 8 || e.entriesOf(t, account.ID) != 0 {
		t.Errorf("one transaction changed %d rows, %d entries are left", most.rows, e.entriesOf(t, account.ID))
	}
}

func erasuresInTurn(t *testing.T, e *env) {
	tenants := []*env{e.fresh(t), nil}
	tenants[1] = tenants[0].as(tenants[0].newTenant(t))
	for _, large := range tenants { // tests both orders of the identifiers
		small := tenants[0]
		if small == large {
			small = tenants[1]
		}
		a, b := large.record(t, byDomain("a.example")).AccountID, small.record(t, byDomain("b.example")).AccountID
		for range 5 {
			large.importManyEntries(t, a)
			large.freeKeys(t)
		}
		large.withoutPurges().erase(t, a)
		small.withoutPurges().erase(t, b)
		if more, err := large.ContinueErasures(t.Context()); err != nil || !more || !large.erased(t, a) {
			t.Fatalf("more %v, %v", more, err)
		}
		if small.erased(t, b) {
			t.Error("the small erasure waits for the large one")
		}
		large.eraseAll(t)
	}
}

// freeKeys frees the keys of all entries.
func (e *env) freeKeys(t tb) {
	t.Helper()
	if err := e.db.Write(t.Context(), func(tx engine.Tx) error {
		_, err := tx.Exec("UPDATE entries SET key_match = NULL WHERE tenant_id = $1", storedID(e.tenant))
		return err
	}); err != nil {
		t.Fatalf("free the keys: %v", err)
	}
}

// A limitedDB is a DB whose write transactions fail after a number of successful ones.
type limitedDB struct {
	engine.DB
	left *int
}

func (db limitedDB) Write(ctx context.Context, f func(engine.Tx) error) error {
	if *db.left == 0 {
		return &engine.Error{Class: engine.Unavailable, Err: errOnPurpose}
	}
	err := db.DB.Write(ctx, f)
	if err == nil {
		*db.left--
	}
	return err
}

// interrupted returns the env of a node that is killed after its next transaction.
func (e *env) interrupted() *env { return e.interruptedAfter(1) }

// interruptedAfter returns the env of a node that is killed after a number of transactions.
func (e *env) interruptedAfter(transactions int) *env {
	other := *e
	other.Store = store.New(limitedDB{e.db, &transactions}, e.clock.now)
	return &other
}

func erasedWithManyLinks(t *testing.T, e *env) {
	a, b, c := e.threeAccounts(t)
	e.merge(t, b.ID, a.ID)
	entry := e.record(t, byID(a.ID))
	other, kept := c.ID, e.record(t, byID(c.ID)).EntryID
	var last *atrium.LinkedProspect
	for range 4 {
		var chunk []store.Record
		for range 400 {
			last = e.newProspect(a)
			chunk = append(chunk, last)
		}
		e.put(t, chunk...)
	}
	if e.interrupted().erase(t, b.ID) {
		t.Fatal("everything is deleted in the first transaction")
	}
	for _, id := range []atrium.AccountID{a.ID, b.ID} {
		_, _, read := e.Account(t.Context(), e.tenant, id)
		_, detail := e.AccountDetail(t.Context(), e.tenant, id)
		_, renamed := e.RenameAccount(t.Context(), e.change(), id, "New", nil)
		_, updated := e.UpdateAccount(t.Context(), e.change(), id, atrium.AccountUpdate{Name: pointer("New")}, nil)
		_, erased := e.EraseAccount(t.Context(), e.change(), id, nil)
		_, linked := e.LinkProspect(t.Context(), e.change(), id, last.ID, func(atrium.LinkedProspect) error { return nil })
		_, _, counted := e.Counts(t.Context(), e.tenant, id, atrium.TimelineFilter{}, nil, 10)
		appended := e.append(t, e.draft(t, byID(id)))[0].Err
		_, _, listed := e.Timeline(t.Context(), e.tenant, id, atrium.TimelineFilter{}, nil, 10, false)
		unlinked := e.UnlinkProspect(t.Context(), e.change(), id, last.ID, func(atrium.LinkedProspect) error { return nil })
		_, mergedFrom := e.MergeAccounts(t.Context(), e.change(), id, other, nil)
		_, mergedInto := e.MergeAccounts(t.Context(), e.change(), other, id, nil)
		_, split := e.SplitAccount(t.Context(), e.change(), id, id, nil)
		_, _, moved := e.MoveEntry(t.Context(), e.change(), kept, id, func(atrium.TimelineEntry) error { return nil })
		_, from := e.CheckMove(t.Context(), e.tenant, atrium.MoveRequest{From: id, To: other, Limit: 1})
		for name, err := range map[string]error{
			"read": read, "detail": detail, "rename": renamed, "update": updated, "erase": erased, "link": linked, "append": appended, "counts": counted,
			"timeline": listed, "unlink": unlinked, "merge": mergedFrom, "merge into": mergedInto, "split": split, "move to": moved, "move from": from,
		} {
			if atrium.CodeOf(err) != atrium.CodeNotFound {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for order, f := range map[atrium.AccountOrder]atrium.AccountFilter{
		atrium.AccountsNewest: {}, atrium.AccountsActivity: {}, atrium.AccountsName: {}, atrium.AccountsWord: {Words: []string{"example"}},
	} {
		found, _, err := e.Accounts(t.Context(), e.tenant, f, order, nil, 10)
		if err != nil || len(found) != 1 || found[0].ID != other {
			t.Errorf("accounts in the order %v: %v, %v", order, found, err)
		}
	}
	if linked, _, err := e.Prospects(t.Context(), e.tenant, atrium.ProspectFilter{AccountID: b.ID}, nil, 10); err != nil || len(linked) > 0 {
		t.Errorf("prospects of the account: %d, %v", len(linked), err)
	}
	if _, err := e.TimelineEntry(t.Context(), e.tenant, entry.EntryID); atrium.CodeOf(err) != atrium.CodeNotFound {
		t.Errorf("read an entry: %v", err)
	}
	if p, err := e.Prospect(t.Context(), e.tenant, last.ID); err != nil || len(p.AccountIDs) != 0 {
		t.Errorf("a prospect has the accounts %v, %v", p.AccountIDs, err)
	}
	if _, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(a)); err == nil {
		t.Error("the account can be imported while it is being erased")
	}
	e.refusesErased(t, a, last)
	again := e.record(t, byDomain("a.example")).AccountID
	for _, r := range e.records(t) {
		switch r := r.(type) {
		case *atrium.Account:
			if r.ID == a.ID || r.ID == b.ID {
				t.Errorf("account %s is exported", r.ID)
			}
		case *atrium.Merge:
			t.Errorf("a merge is exported: %+v", r)
		case *atrium.LinkedProspect:
			for _, id := range r.AccountIDs {
				if id == a.ID || id == b.ID {
					t.Fatalf("a link to %s is exported", id)
				}
			}
		case *atrium.Entry:
			if r.AccountID == a.ID || r.AccountID == b.ID {
				t.Errorf("entry %s is exported", r.ID)
			}
		}
	}
	measured, most := e.measured()
	measured.eraseAll(t)
	if most.rows > mostChanged {
		t.Errorf("one transaction changed %d rows", most.rows)
	}
	if n := e.rowsOf(t, "account_prospects"); n != 1 || e.erased(t, a.ID) || e.entriesOf(t, a.ID)+e.entriesOf(t, b.ID) != 0 {
		t.Errorf("%d links are left", n)
	}
	if n := e.rowsOf(t, "accounts"); n != 2 || e.account(t, again).Domain != "a.example" {
		t.Errorf("there are %d accounts", n)
	}
	e.put(t, e.newAccount("a2.example", ""))
	e.wantSoundGroups(t)
	e.wantSound(t, nil)
}

// refusesErased checks that an import and a trial refuse an account that is being erased, and
// records that refer to it.
func (e *env) refusesErased(t tb, a *atrium.Account, linked *atrium.LinkedProspect) {
	t.Helper()
	trial, err := e.NewTrial(t.Context(), e.tenant, always)
	if err != nil {
		t.Fatalf("start a trial: %v", err)
	}
	defer trial.Close()
	other := e.newAccount("other.example", "")
	for name, chunk := range map[string][]store.Record{
		"the account":  {a},
		"a prospect":   {e.newProspect(a)},
		"a stored one": {linked},
		"an entry":     {e.newEntry(a, "")},
		"a merge":      {other, &atrium.Merge{AccountID: other.ID, Into: a.ID}},
	} {
		_, tried := trial.Import(t.Context(), items(copied(chunk)...))
		_, imported := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(copied(chunk)...))
		if imported == nil || fmt.Sprint(tried) != fmt.Sprint(imported) {
			t.Errorf("%s: the trial returned %v, the import %v", name, tried, imported)
		}
	}
}

func erasedDetailsInParts(t *testing.T, e *env) {
	a := e.record(t, byDomain("a.example")).AccountID
	p := e.prospect(t, "jane@acme.example")
	for i := range 350 {
		e.rename(t, a, fmt.Sprint("Secret ", i))
		if _, err := e.UpdateProspect(t.Context(), e.change(), p.ID, func(p *atrium.Prospect) { p.Name = pointer(fmt.Sprint("Secret ", i)) },
			func(atrium.LinkedProspect) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 120 {
		name := fmt.Sprint("secret ", i)
		e.record(t, byName(name))
		request := atrium.MoveRequest{To: a, Rule: atrium.MoveRule{ClaimedName: name, Given: []byte(`{"claimedName":"` + name + `"}`)}, Limit: 10}
		if _, _, err := e.Move(t.Context(), e.change(), request); err != nil {
			t.Fatal(err)
		}
	}
	measured, most := e.measured()
	measured.erase(t, a)
	if _, err := measured.DeleteProspect(t.Context(), e.change(), p.ID, func(atrium.LinkedProspect) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if most.rows > 400 { // 100 moves with their audit rows, or 120 entries with the rows of their moves
		t.Errorf("one transaction changed %d rows", most.rows)
	}
	if err := e.db.Query(t.Context(), "SELECT action, detail FROM audit WHERE tenant_id = $1", engine.Args{storedID(e.tenant)}, func(r engine.Row) error {
		if bytes.Contains(bytes.ToLower(r.Bytes(1)), []byte("secret")) {
			t.Errorf("%s has %s", r.Text(0), r.Bytes(1))
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	made, _, err := e.Moves(t.Context(), e.tenant, nil, 200)
	if err != nil || len(made) != 120 {
		t.Errorf("%d moves, %v", len(made), err)
	}
	for _, m := range made {
		if m.Rule != nil {
			t.Errorf("the rule %s is left", m.Rule)
		}
	}
	e.eraseAll(t)
	if report := e.wantSound(t, nil); report.Redacted == 0 {
		t.Error("no row was redacted")
	}
}
