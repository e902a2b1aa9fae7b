package storetest

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	remains "atrium/internal/store/tombstones"
)

var tombstones = []guarantee{
	{"a request of an erased entry is replayed, and another one with its key is refused, before and after the entry is deleted", erasedReplays},
	{"an entry that its key identifies is replayed after its erasure, also in a copy of its tombstone, whatever the request has", erasedByKeyReplays},
	{concurrent + "every node replays a request of an entry that another node has erased", erasedReplaysOnNodes},
	{"an append with the key of an entry that is being erased changes no rows", erasedReplayWritesNothing},
	{"an exported tombstone replays in another database, and is exported unchanged", tombstoneTravels},
	{"tombstones of several databases work in one tenant, up to a number of secrets", tombstonesOfSeveral},
	{"an erased entry is not imported again, and its key is taken", erasedNotImported},
	{"the tombstone of a stored entry is refused", tombstoneOfStored},
	{"a check predicts the import of erased entries and tombstones", tombstonesChecked},
	{"an expired tombstone is deleted, and others are not", tombstonesExpire},
	{"a tombstone has neither the key nor the content of its entry", tombstoneHasNoContent},
	{"a tombstone without a stored secret is not inserted, and refuses requests if it is stored", tombstoneWithoutSecret},
	{"an entry that is stored and erased while an append waits for its account is replayed", erasedBeforeLock},
}

// eraseAccount erases an account with its entries.
func (e *env) eraseAccount(t tb, id atrium.AccountID) {
	t.Helper()
	e.erase(t, id)
	e.eraseAll(t)
	if n := e.entriesOf(t, id); n > 0 {
		t.Fatalf("%d entries are left", n)
	}
}

// wantErasedReplay fails the test unless the request of a receipt is replayed, and another one with its
// key refused.
func (e *env) wantErasedReplay(t tb, first atrium.Receipt, claim atrium.Claim, with string) {
	t.Helper()
	wantReplay(t, e.record(t, claim, key(with)), first)
	wantCode(t, e.append(t, e.draft(t, claim, key(with), payload(`{"other":1}`)))[0].Err, atrium.CodeIdempotencyKeyReused)
}

func erasedReplays(t *testing.T, e *env) {
	long := "a key of more than thirty-two bytes, which is stored shortened"
	first, second := e.record(t, byDomain("a.example"), key("k")), e.record(t, byDomain("a.example"), key(long))
	e.move(t, second.EntryID, e.record(t, byDomain("b.example")).AccountID)
	e.importManyEntries(t, first.AccountID)
	moved, err := e.TimelineEntry(t.Context(), e.tenant, second.EntryID)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []atrium.AccountID{first.AccountID, moved.AccountID} {
		if e.interrupted().erase(t, id) {
			t.Fatal("everything is deleted in the first transaction")
		}
	}
	for _, deleted := range []bool{false, true} {
		if deleted {
			e.eraseAll(t)
		}
		e.clock.step(time.Hour)
		e.wantErasedReplay(t, first, byDomain("a.example"), "k")
		e.wantErasedReplay(t, second, byDomain("a.example"), long)
		both := e.append(t, e.draft(t, byDomain("a.example"), key("k")), e.draft(t, byDomain("c.example"), key("new"+strconv.FormatBool(deleted))), e.draft(t, byDomain("a.example"), key("k")))
		for _, i := range []int{0, 2} {
			wantReplay(t, both[i].Receipt, first)
		}
		if both[1].Err != nil || both[1].Replayed {
			t.Errorf("an entry with another key: %+v", both[1])
		}
	}
	if found, _, err := e.Accounts(t.Context(), e.tenant, atrium.AccountFilter{Words: []string{"a.example"}}, atrium.AccountsWord, nil, 10); err != nil || len(found) > 0 {
		t.Errorf("replays made an account: %v, %v", found, err)
	}
	if r := e.as(e.newTenant(t)).record(t, byDomain("a.example"), key("k")); r.Replayed {
		t.Error("the key of another tenant was replayed")
	}
}

func erasedByKeyReplays(t *testing.T, e *env) {
	claim := byDomain("a.example")
	first := receipts(t, e.append(t, e.keyDraft(claim, "in:event")))[0]
	e.importManyEntries(t, first.AccountID)
	if e.interrupted().erase(t, first.AccountID) {
		t.Fatal("everything is deleted in the first transaction")
	}
	for _, deleted := range []bool{false, true} {
		if deleted {
			e.eraseAll(t)
		}
		e.wantErasedByKeyReplays(t, first, "in:event")
		e.node().wantErasedByKeyReplays(t, first, "in:event")
	}
	there := e.fresh(t)
	there.put(t, copied(e.records(t))...)
	there.wantErasedByKeyReplays(t, first, "in:event")
}

// wantErasedByKeyReplays fails the test unless any request that the key of a receipt identifies is replayed, and stores
// nothing, and one that its content identifies is refused.
func (e *env) wantErasedByKeyReplays(t tb, first atrium.Receipt, k string) {
	t.Helper()
	outcomes := e.append(t, e.keyDraft(byDomain("a.example"), k), e.keyDraft(byDomain("other.example"), k, payload(`{"attempt":2}`)),
		e.draft(t, byDomain("a.example"), key(k)))
	for _, o := range outcomes[:2] {
		if o.Err != nil {
			t.Fatalf("a request with the key of an erased entry: %v", o.Err)
		}
		wantReplay(t, o.Receipt, first)
	}
	wantCode(t, outcomes[2].Err, atrium.CodeIdempotencyKeyReused)
	if found, _, err := e.Accounts(t.Context(), e.tenant, atrium.AccountFilter{Domain: "other.example"}, atrium.AccountsNewest, nil, 1); err != nil || len(found) > 0 {
		t.Errorf("a replay made the account %v, %v", found, err)
	}
}

func erasedReplaysOnNodes(t *testing.T, e *env) {
	other := e.node()
	for i := range 3 {
		k := strconv.Itoa(i)
		first := e.record(t, byDomain("a.example"), key(k))
		other.record(t, byDomain("b.example"), key("other "+k)) // so that it has looked for secrets before
		e.eraseAccount(t, first.AccountID)
		parallel(t, 4, func(int) { other.wantErasedReplay(t, first, byDomain("a.example"), k) })
		e.node().wantErasedReplay(t, first, byDomain("a.example"), k)
	}
}

func erasedReplayWritesNothing(t *testing.T, e *env) {
	first := e.record(t, byDomain("a.example"), key("k"))
	if e.interrupted().erase(t, first.AccountID) {
		t.Fatal("everything is deleted in the first transaction")
	}
	measured, most := e.measured()
	wantReplay(t, measured.record(t, byDomain("a.example"), key("k")), first)
	if most.rows > 0 {
		t.Errorf("the append changed %d rows", most.rows)
	}
}

func tombstoneTravels(t *testing.T, e *env) {
	first := e.record(t, byDomain("a.example"), key("k"))
	e.record(t, byDomain("a.example"))
	e.eraseAccount(t, first.AccountID)
	exported := e.records(t)
	if n := len(of[*atrium.Tombstone](exported)); n != 2 || len(exported) != n {
		t.Fatalf("exported %q", describeAll(exported))
	}
	there := e.fresh(t)
	there.record(t, byDomain("before.example"), key("before"))
	there.put(t, copied(exported)...)
	there.wantErasedReplay(t, first, byDomain("a.example"), "k")
	second := there.record(t, byDomain("b.example"), key("k2"))
	there.eraseAccount(t, second.AccountID)
	there.wantErasedReplay(t, second, byDomain("b.example"), "k2")
	all := of[*atrium.Tombstone](there.records(t))
	if len(all) != 3 {
		t.Fatalf("exported %q", describeAll(there.records(t)))
	}
	for _, before := range of[*atrium.Tombstone](exported) {
		for _, after := range all {
			if same := before.EntryID == after.EntryID; same && (!bytes.Equal(before.Secret, after.Secret) ||
				!bytes.Equal(before.KeyHMAC, after.KeyHMAC) || !bytes.Equal(before.RequestHMAC, after.RequestHMAC)) {
				t.Errorf("exported %+v, want %+v", after, before)
			}
		}
	}
}

func tombstonesOfSeveral(t *testing.T, e *env) {
	e = e.fresh(t) // each erasure reads the whole file of an embedded database
	const maxSecrets = 4
	var last []store.Record
	for i := range maxSecrets + 1 {
		from := e.as(e.newTenant(t))
		first := from.record(t, byDomain("a.example"), key(strconv.Itoa(i)))
		from.eraseAccount(t, first.AccountID)
		if last = copied(from.records(t)); i == maxSecrets {
			break
		}
		e.put(t, last...)
		e.wantErasedReplay(t, first, byDomain("a.example"), strconv.Itoa(i))
	}
	_, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(last...))
	if refused, ok := errors.AsType[*store.ImportError](err); !ok || refused.Member != "secret" {
		t.Errorf("one more secret: %v", err)
	}
}

func erasedNotImported(t *testing.T, e *env) {
	account := e.newAccount("a.example", "")
	e.put(t, account)
	first := e.record(t, byDomain("a.example"), key("k"))
	e.record(t, byDomain("a.example"))
	before := copied(e.records(t))
	e.eraseAccount(t, account.ID)
	added, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(before...))
	if err != nil || added.Added != 1 || e.entriesOf(t, account.ID) != 0 {
		t.Errorf("an earlier export: %d were new, %v, %d entries", added, err, e.entriesOf(t, account.ID))
	}
	taken := e.newEntry(account, "k")
	_, err = e.Import(t.Context(), atrium.CommandLine(e.tenant), items(taken))
	if refused, ok := errors.AsType[*store.ImportError](err); !ok || refused.Member != "idempotencyKey" {
		t.Errorf("another entry with the key: %v", err)
	}
	wantReplay(t, e.record(t, byDomain("a.example"), key("k")), first)
}

func tombstoneOfStored(t *testing.T, e *env) {
	first := e.record(t, byDomain("a.example"), key("k"))
	there := e.fresh(t)
	there.put(t, copied(e.records(t))...)
	e.eraseAccount(t, first.AccountID)
	_, err := there.Import(t.Context(), atrium.CommandLine(there.tenant), items(copied(e.records(t))...))
	if refused, ok := errors.AsType[*store.ImportError](err); !ok || refused.Member != "accountLogId" {
		t.Errorf("error %v", err)
	}
}

func tombstonesChecked(t *testing.T, e *env) {
	account := e.newAccount("a.example", "")
	e.put(t, account)
	e.record(t, byDomain("a.example"), key("k"))
	before := copied(e.records(t))
	e.eraseAccount(t, account.ID)
	after := copied(e.records(t))
	there := e.fresh(t)
	there.put(t, before...)
	for _, c := range []struct {
		env   *env
		chunk []store.Record
	}{{e, before}, {e, after}, {e, append(before[:1:1], e.newEntry(account, "k"))}, {there, after}} {
		trial, err := c.env.NewTrial(t.Context(), c.env.tenant, always)
		if err != nil {
			t.Fatal(err)
		}
		checked, checkErr := trial.Import(t.Context(), items(copied(c.chunk)...))
		trial.Close()
		added, err := c.env.Import(t.Context(), atrium.CommandLine(c.env.tenant), items(copied(c.chunk)...))
		if checked != added || (checkErr == nil) != (err == nil) || err != nil && checkErr.Error() != err.Error() {
			t.Errorf("of %q, the check said %d, %v, the import %d, %v", describeAll(c.chunk), checked, checkErr, added, err)
		}
	}
}

func tombstoneHasNoContent(t *testing.T, e *env) {
	const secret = "canary-of-a-person"
	first := e.record(t, byDomain("a.example"), key(secret), payload(`{"email":"`+secret+`"}`))
	long := e.record(t, byDomain("a.example"), key(secret+" in a key of more than thirty-two bytes"))
	e.eraseAccount(t, first.AccountID)
	if err := e.db.Query(t.Context(), "SELECT entry_id, account_id, source, type, key_hmac, request_hmac FROM tombstones WHERE tenant_id = $1",
		engine.Args{storedID(e.tenant)}, func(r engine.Row) error {
			for column := range 6 {
				if bytes.Contains(r.Bytes(column), []byte(secret)) {
					t.Errorf("column %d has the key", column)
				}
			}
			return nil
		}); err != nil {
		t.Error(err)
	}
	e.wantErasedReplay(t, long, byDomain("a.example"), secret+" in a key of more than thirty-two bytes")
}

func tombstonesExpire(t *testing.T, e *env) {
	later := e.clock.instant() + atrium.Time(time.Hour.Microseconds())
	made := func(expires *atrium.Time) *atrium.Tombstone {
		return &atrium.Tombstone{
			EntryID: atrium.NewID[atrium.EntryID](), AccountID: atrium.NewID[atrium.AccountID](), CreatedAt: e.clock.instant(),
			Source: "crm", Type: "webhook", ExpiresAt: expires,
		}
	}
	var chunk []store.Record
	for range 600 {
		chunk = append(chunk, made(&later))
	}
	forever, another := made(nil), made(pointer(later+1))
	e.put(t, append(chunk, forever, another)...)
	for i, want := range []int{602, 2} {
		for next, more := atrium.TenantID(""), true; more; more = next != "" {
			var err error
			if next, err = e.DeleteExpiredTombstones(t.Context(), next); err != nil {
				t.Fatal(err)
			}
		}
		if left := e.records(t); len(left) != want {
			t.Errorf("step %d: %d tombstones are left, want %d", i, len(left), want)
		}
		e.clock.step(time.Hour)
	}
	e.wantRecords(t, forever, another)
}

func tombstoneWithoutSecret(t *testing.T, e *env) {
	first := e.record(t, byDomain("a.example"), key("k"))
	e.eraseAccount(t, first.AccountID)
	for _, number := range []int64{-1, 1, 1 << 40} {
		e.sql(t, "UPDATE tombstones SET secret_number = $1 WHERE tenant_id = $2", number, storedID(e.tenant))
		wantCode(t, e.append(t, e.draft(t, byDomain("a.example"), key("k")))[0].Err, atrium.CodeIdempotencyKeyReused)
		if all := of[*atrium.Tombstone](e.records(t)); len(all) != 1 || all[0].Secret != nil {
			t.Errorf("exported %+v", all)
		}
	}
	e.sql(t, "UPDATE tombstones SET secret_number = $1 WHERE tenant_id = $2", int64(0), storedID(e.tenant))
	e.wantErasedReplay(t, first, byDomain("a.example"), "k")
	unknown := &atrium.Tombstone{
		EntryID: atrium.NewID[atrium.EntryID](), AccountID: first.AccountID, Source: "crm", Type: "webhook",
		Secret: make([]byte, 32), KeyHMAC: make([]byte, 32), RequestHMAC: make([]byte, 32),
	}
	err := e.db.Write(t.Context(), func(tx engine.Tx) error {
		return remains.Insert(tx, e.tenant, []*atrium.Tombstone{unknown}, func(atrium.EntryID) {})
	})
	if err == nil || !strings.Contains(err.Error(), "the secret of "+string(unknown.EntryID)+" is not stored") {
		t.Errorf("error %v", err)
	}
}

// A beforeLock is a DB that sends each statement by itself and calls a function before the first batch
// that locks rows: as if the statement had to wait for another transaction.
type beforeLock struct {
	engine.DB
	call func()
}

func (db beforeLock) Write(ctx context.Context, f func(engine.Tx) error) error {
	return db.DB.Write(ctx, func(tx engine.Tx) error { return f(beforeLockTx{tx, db.call}) })
}

type beforeLockTx struct {
	engine.Tx
	call func()
}

func (tx beforeLockTx) Batch(b *engine.Batch, rows []engine.Args, each func(engine.Row) error) (int64, error) {
	if strings.Contains(b.Server, "FOR KEY SHARE") {
		tx.call()
	}
	return tx.Tx.Batch(b, rows, each)
}

func (tx beforeLockTx) PipelineQuery(b *engine.Batch, rows []engine.Args, each func(engine.Row)) error {
	_, err := tx.Batch(b, rows, func(r engine.Row) error {
		each(r)
		return nil
	})
	return err
}

func erasedBeforeLock(t *testing.T, e *env) {
	e.record(t, byDomain("a.example"))
	draft := func(e *env) atrium.Receipt {
		return e.record(t, byDomain("a.example"), key("k"), payload(`{"to":"jane.doe@example.com"}`))
	}
	var first atrium.Receipt
	other := e.node()
	storeAndErase := sync.OnceFunc(func() {
		first = draft(other)
		other.finishErasure(t, other.startErasure(t, atrium.ErasureRequest{Rule: atrium.ErasureRule{Text: person}}).ID)
	})
	if e.db.Traits().Writers == 1 { // other transactions run before or after the append
		storeAndErase()
	}
	waiting := *e
	waiting.Store = store.New(beforeLock{e.db, storeAndErase}, e.clock.now)
	wantReplay(t, draft(&waiting), first)
	if n := len(e.entries(t)); n != 1 {
		t.Errorf("there are %d entries", n)
	}
}
