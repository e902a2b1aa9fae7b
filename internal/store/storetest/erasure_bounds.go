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
	{"no transaction of an erasure deletes more than 1,000 rows, however often entries were moved", erasedMovesInParts},
	{"no transaction of an erasure deletes much more than 4 MiB of entries", erasedBytesInParts},
	{"the key of an erased entry is freed without deleting its moves", erasedKeyFreedAlone},
	{"one tenant's erasures do not wait for all of another's", erasuresInTurn},
}

// mostChanged is how many rows one transaction of an erasure may change: 500 entries, as many
// moves, and some of the bookkeeping.
const mostChanged = 1_010

// A largest is what was changed by the transaction that changed the most rows.
type largest struct{ rows int64 }

// measured returns the env with a store whose write transactions are measured.
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
		db.most.rows = max(db.most.rows, m.rows)
		return err
	})
}

type measuredTx struct {
	engine.Tx
	rows int64
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
	if each == nil { // else it reads
		tx.rows += n
	}
	return n, err
}

func (tx *measuredTx) Defer(b *engine.Batch, rows []engine.Args) error {
	tx.rows += int64(len(rows))
	return tx.Tx.Defer(b, rows)
}

// moved returns an account with entries, each of which was moved to and fro.
func (e *env) moved(t tb, entries, moves int) atrium.AccountID {
	t.Helper()
	a, b := e.record(t, byDomain("a.example")).AccountID, e.record(t, byDomain("b.example")).AccountID
	for range entries {
		e.record(t, byName("moved"))
	}
	unattributed := e.record(t, byName("other")).AccountID
	from, to := unattributed, a
	for i := range moves {
		request := atrium.MoveRequest{From: from, To: to, Rule: atrium.MoveRule{ClaimedName: "moved", Given: []byte(`{}`)}, Limit: 1000}
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
	a := e.moved(t, 60, 30) // 1,800 rows about moves
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
	if most.rows > 10 || e.entriesOf(t, account.ID) != 0 {
		t.Errorf("one transaction changed %d rows, %d entries are left", most.rows, e.entriesOf(t, account.ID))
	}
}

func erasedKeyFreedAlone(t *testing.T, e *env) {
	a, b := e.record(t, byDomain("a.example"), key("k")), e.record(t, byDomain("b.example"))
	for i := range 20 {
		e.move(t, a.EntryID, []atrium.AccountID{b.AccountID, a.AccountID}[i%2])
	}
	broken := *e // whose job deletes nothing
	broken.Store = store.New(stuck{e.db, []atrium.AccountID{a.AccountID}}, e.clock.now)
	broken.erase(t, a.AccountID)
	measured, most := e.measured()
	if r := measured.record(t, byDomain("c.example"), key("k")); r.Replayed {
		t.Error("the key is not free")
	}
	if most.rows > 10 {
		t.Errorf("the append changed %d rows", most.rows)
	}
	e.eraseAll(t)
	if n, m := e.entriesOf(t, a.AccountID), e.rowsOf(t, "moved_entries"); n != 0 || m != 0 {
		t.Errorf("%d entries and %d rows about moves are left", n, m)
	}
}

func erasuresInTurn(t *testing.T, e *env) {
	tenants := []*env{e.fresh(t), nil}
	tenants[1] = tenants[0].as(tenants[0].newTenant(t))
	for _, large := range tenants { // whichever has the lower identifier
		small := tenants[0]
		if small == large {
			small = tenants[1]
		}
		a, b := large.record(t, byDomain("a.example")).AccountID, small.record(t, byDomain("b.example")).AccountID
		for range 5 {
			large.many(t, a)
			large.takeKeys(t)
		}
		large.unpurged().erase(t, a)
		small.unpurged().erase(t, b)
		if more, err := large.EraseEntries(t.Context()); err != nil || !more || !large.erased(t, a) {
			t.Fatalf("more %v, %v", more, err)
		}
		if small.erased(t, b) {
			t.Error("the small erasure waits for the large one")
		}
		large.eraseAll(t)
	}
}

// takeKeys frees the keys of all entries.
func (e *env) takeKeys(t tb) {
	t.Helper()
	if err := e.db.Write(t.Context(), func(tx engine.Tx) error {
		_, err := tx.Exec("UPDATE entries SET key_match = NULL WHERE tenant_id = $1", storedID(e.tenant))
		return err
	}); err != nil {
		t.Fatalf("free the keys: %v", err)
	}
}
