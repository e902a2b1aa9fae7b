package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

var databaseCopies = []guarantee{
	{"a copy of a tenant has all of its rows and no others, and they compare as equal", copyHasAll},
	{"a copied tenant works: keys, replays, undo, the audit log and schedules", copyWorks},
	{"a copied tenant replays entries that their keys identify, also erased ones", copyOfKeyIdentified},
	{"a copied tenant matches the prospects of an import", copyOfMatchSecret},
	{"a copied tenant has the same events, and continues with the next position", copyOfEvents},
	{"a copy after random operations is equal, row by row", copyAfterOperations},
	{"copies leave out a tenant that is being deleted", copyWithoutDeleted},
	{"a copy of everything has all tenants, and the keys, audit log and secret of operators, also if it is interrupted again and again", copyEverything},
	{"a rerun of a complete copy is accepted, if the target has the same data and is another database", copyAgain},
	{"an incomplete tenant cannot be used", copyHidesIncomplete},
	{"a copy that continues leaves what jobs of the target have done", copyAfterJobs},
	{"a tenant whose deletion begins during a copy does not work in the target", copyOfDeletedTenant},
	{"if two copies of a tenant run at once, one of them fails, and nothing is stored twice", copyByTwo},
	{"expiry and updates of the activity in the source do not make the databases differ", copyFromRunning},
	{"rows that differ, are missing or were added are found", copyFindsDifferences},
	{"a copy is not complete while the databases differ", copyNotCompleted},
	{"a discarded copy leaves nothing, and can be made again", copyDiscarded},
	{"a copy that is discarded while it runs ends with a conflict and leaves nothing", copyDiscardedWhileRunning},
	{"a copy is not discarded during a transaction that stores rows", copyNotDiscardedInBatch},
	{"a copy is refused if the source is incomplete, or the target is, is in use or lacks migrations", copyRefused},
	{"a copy stores rows in bounded transactions, also large ones", copyBounded},
	{"a copy succeeds if the source is too slow for a batch, and not for a few rows", copyFromSlow},
}

// RunCopies tests copies of databases of one engine to another.
func RunCopies(t *testing.T, from, to Engine) {
	db, open := from.migrated(t)
	runCopies(t, from, open, db, to)
}

func runCopies(t *testing.T, from Engine, open func() engine.DB, db engine.DB, to Engine) {
	shared, _ := to.migrated(t)
	for _, g := range databaseCopies {
		t.Run(g.name, func(t *testing.T) {
			e := newEnv(t, from, open, db)
			e.target = &copyTarget{to, shared}
			g.test(t, e)
		})
	}
}

// A copyTarget is where tests copy to.
type copyTarget struct {
	engine Engine
	shared engine.DB // for copies of one tenant
}

// sharedTarget returns an env of the same tenant on a database to which other tests copy their
// tenants.
func (e *env) sharedTarget() *env { return e.at(e.target.shared) }

// emptyTarget returns an env of the same tenant on a new database.
func (e *env) emptyTarget(t *testing.T) *env {
	t.Helper()
	db, _ := e.target.engine.migrated(t)
	return e.at(db)
}

// at returns an env of the same tenant on a target of copies.
func (e *env) at(db engine.DB) *env {
	return &env{Store: store.New(db, e.clock.now), clock: e.clock, engine: e.target.engine, db: db, tenant: e.tenant, target: e.target}
}

// copyTo copies the tenant and fails the test unless the databases are equal then.
func (e *env) copyTo(t tb, to *env) *store.CopyReport {
	t.Helper()
	r, err := e.CopyTo(t.Context(), to.Store, store.CopyOptions{Tenant: e.tenant})
	if err != nil || r.Different() {
		t.Fatalf("copy: %+v, %v", r, err)
	}
	return r
}

// wantEqual compares the tenant row by row.
func (e *env) wantEqual(t tb, to *env) {
	t.Helper()
	if text := e.dump(t).copied().difference(to.dump(t).inCopy()); text != "" {
		t.Fatalf("the copy differs:\n%s", text)
	}
}

func copyHasAll(t *testing.T, e *env) {
	e.fill(t)
	to := e.sharedTarget()
	other := to.as(to.newTenant(t))
	other.put(t, other.oneOfEach()...)
	before := other.dump(t)
	report := e.copyTo(t, to)
	e.wantEqual(t, to)
	if text := before.difference(other.dump(t)); text != "" {
		t.Errorf("another tenant of the target has changed:\n%s", text)
	}
	rows := int64(0)
	for name, stored := range e.dump(t).copied() {
		if name != "active_accounts" && name != "reads" { // which jobs change
			rows += int64(len(stored))
		}
	}
	var progress []int64
	compared, err := e.CompareTo(t.Context(), to.Store, store.CopyOptions{Tenant: e.tenant, Progress: func(rows int64) { progress = append(progress, rows) }})
	if err != nil || compared.Different() || compared.Rows() != rows || compared.Tenants != 1 || report.Tenants != 1 || report.Rows() == 0 {
		t.Errorf("compared %+v, %v, want %d rows", compared, err, rows)
	}
	if !slices.IsSorted(progress) || len(progress) < len(compared.Tables)+2 || progress[len(progress)-1] != rows { // more than a batch of some tables
		t.Errorf("progress was %v", progress)
	}
	for _, table := range compared.Tables {
		if table.Rows == 0 || len(table.SHA256) != 64 {
			t.Errorf("the report has %+v", *table)
		}
	}
	chain := to.as(atrium.OperatorChain)
	if rows := chain.auditRows(t, atrium.AuditFilter{Subject: string(e.tenant)}, 10); len(rows) != 1 || rows[0].Action != "tenant.copy" {
		t.Errorf("operators have the audit records %+v", rows)
	}
}

// wantAlreadyCopied fails the test unless the copy to a target is accepted as complete, changes nothing, and is refused
// once the target has other data, or is the source.
func (e *env) wantAlreadyCopied(t *testing.T, to *env, o store.CopyOptions, tenants int64) {
	t.Helper()
	chain := to.as(atrium.OperatorChain)
	before, operators := to.dump(t), chain.dump(t)
	report, err := e.CopyTo(t.Context(), to.Store, o)
	if err != nil || report.Different() || !report.AlreadyCopied || report.Tenants != tenants || report.Rows() == 0 {
		t.Fatalf("copied again: %+v, %v", report, err)
	}
	if text := before.difference(to.dump(t)) + operators.difference(chain.dump(t)); text != "" {
		t.Errorf("the target has changed:\n%s", text)
	}
	if err := to.db.Query(t.Context(), "SELECT name FROM settings WHERE name = $1", engine.Args{"probe"}, func(engine.Row) error {
		return errors.New("there is a row")
	}); err != nil {
		t.Errorf("the setting stays: %v", err)
	}
	for _, s := range []*store.Store{e.Store, store.New(e.db, e.clock.now)} {
		_, err := e.CopyTo(t.Context(), s, o)
		wantCode(t, err, atrium.CodeConflict)
	}
	to.record(t, byDomain("later.example"))
	report, err = e.CopyTo(t.Context(), to.Store, o)
	wantCode(t, err, atrium.CodeConflict)
	if err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("copied over other data: %+v, %v", report, err)
	}
}

func copyAgain(t *testing.T, e *env) {
	e.fill(t)
	to := e.sharedTarget()
	e.copyTo(t, to)
	e.wantAlreadyCopied(t, to, store.CopyOptions{Tenant: e.tenant}, 1)
}

func copyOfKeyIdentified(t *testing.T, e *env) {
	stored := receipts(t, e.append(t, e.keyDraft(byDomain("b.example"), "in:stored")))[0]
	erased := receipts(t, e.append(t, e.keyDraft(byDomain("a.example"), "in:erased")))[0]
	e.eraseAccount(t, erased.AccountID)
	to := e.sharedTarget()
	e.copyTo(t, to)
	e.wantEqual(t, to)
	to.wantErasedByKeyReplays(t, erased, "in:erased")
	replayed := receipts(t, to.append(t, to.keyDraft(byDomain("a.example"), "in:stored", payload(`{"attempt":2}`))))[0]
	wantReplay(t, replayed, stored)
}

func copyOfMatchSecret(t *testing.T, e *env) {
	p := atrium.Prospect{Email: pointer("a@b.example")}
	id := e.deriveID(t, store.ByEmail, p)
	to := e.sharedTarget()
	e.copyTo(t, to)
	if copied := to.deriveID(t, store.ByEmail, p); copied != id {
		t.Errorf("the copy matches a prospect as %s, the source as %s", copied, id)
	}
}

func copyWorks(t *testing.T, e *env) {
	f := e.fill(t)
	to := e.emptyTarget(t)
	e.copyTo(t, to)

	want, hash, _, err := e.Key(t.Context(), f.key)
	got, copiedHash, _, e2 := to.Key(t.Context(), f.key)
	if err != nil || e2 != nil || fmt.Sprint(got) != fmt.Sprint(want) || !bytes.Equal(hash, copiedHash) {
		t.Errorf("the key is %+v, %v, %v, want %+v", got, err, e2, want)
	}
	replay := *f.submitted
	replay.ID = atrium.NewID[atrium.EntryID]()
	if outcome := to.append(t, &replay)[0]; outcome.Err != nil || !outcome.Replayed || outcome.EntryID != f.receipt.EntryID || outcome.AccountID != f.receipt.AccountID {
		t.Errorf("the retried entry is %+v, want a replay of %+v", outcome, f.receipt)
	}
	p, replayed, err := to.CreateProspect(t.Context(), to.keyed("prospect", "same"), atrium.Prospect{Name: pointer("Dana"), Email: pointer("dana@filled.example")})
	if err != nil || !replayed || p.ID != f.prospect {
		t.Errorf("the retried change is %+v, %v, %v, want a replay", p, replayed, err)
	}
	if r := to.undo(t, f.undoable); r.Restored != 1 {
		t.Errorf("undone %+v, want one entry restored", r)
	}
	to.split(t, f.accounts[1], f.accounts[0])
	to.wantSound(t, nil)
	to.clock.step(90 * time.Minute)
	to.runDue(t, 1)
	to.wantStatus(t, f.page.ID, atrium.PagePublished)
	to.eraseAll(t)
	to.wantSoundGroups(t)
	to.countAll(t) // the target has no counts until its job has run
	to.wantEntriesCounted(t)
}

func copyAfterOperations(t *testing.T, e *env) {
	to := e.sharedTarget()
	rapid.Check(t, func(r *rapid.T) {
		if rapid.IntRange(0, 3).Draw(r, "skipped") > 0 { // a copy takes longer than the operations
			return
		}
		p := newPair(e, r)
		for range rapid.IntRange(1, 8).Draw(r, "operations") {
			p.step()
		}
		tenant := p.models[0].tenant
		e.as(tenant).copyTo(r, to.as(tenant))
		e.as(tenant).wantEqual(r, to.as(tenant))
	})
}

func copyFindsDifferences(t *testing.T, e *env) {
	f := e.fill(t)
	to := e.sharedTarget()
	e.copyTo(t, to)
	tenant := storedID(e.tenant)
	var want []string
	for _, change := range []struct {
		table, sql string
		args       []any
	}{
		{"entries", "UPDATE entries SET payload = $1 WHERE tenant_id = $2 AND entry_id = $3", []any{[]byte(`{"n":1.5}`), tenant, storedID(f.receipt.EntryID)}},
		{"pages", "UPDATE pages SET metadata = $1 WHERE tenant_id = $2 AND page_id = $3", []any{[]byte("{}"), tenant, storedID(f.page.ID)}},
		{"versions", "DELETE FROM versions WHERE tenant_id = $1 AND audience_id = $2 AND number = $3", []any{tenant, storedID(f.audience.ID), int64(2)}},
		{"search_terms", "INSERT INTO search_terms (tenant_id, term, subject_id) VALUES ($1, $2, $3)", []any{tenant, "added", storedID(f.alone)}},
		{"moves", "UPDATE moves SET rule = NULL WHERE tenant_id = $1 AND move_id = $2", []any{tenant, storedID(f.undoable)}},
	} {
		to.sql(t, change.sql, change.args...)
		want = append(want, change.table)
		report, err := e.CompareTo(t.Context(), to.Store, store.CopyOptions{Tenant: e.tenant})
		var got []string
		for _, d := range report.Differences {
			if got = append(got, d.Table); d.Tenant != e.tenant {
				t.Errorf("%s differs for %s", d.Table, d.Tenant)
			}
		}
		if slices.Sort(got); err != nil || !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("compared %v, %v, want differences in %v", got, err, want)
		}
	}
}

func copyNotCompleted(t *testing.T, e *env) {
	e.record(t, byDomain("a.example"))
	id := e.newKey(t, atrium.NewID[atrium.KeyID]()).ID
	to, o := e.sharedTarget(), store.CopyOptions{Tenant: e.tenant}
	broken := &interruptedDB{DB: to.db, left: 4, random: rand.New(rand.NewPCG(1, 2))}
	if _, err := e.CopyTo(t.Context(), store.New(broken, e.clock.now), o); !errors.Is(err, errInterrupted) {
		t.Fatal(err)
	}
	to.sql(t, "UPDATE accounts SET updated_at = 1 WHERE tenant_id = $1", storedID(e.tenant))
	for range 2 {
		report, err := e.CopyTo(t.Context(), to.Store, o)
		if err != nil || len(report.Differences) != 1 || report.Differences[0].Table != "accounts" {
			t.Errorf("copied %+v, %v", report, err)
		}
		if _, err := to.Tenant(t.Context(), e.tenant); atrium.CodeOf(err) != atrium.CodeNotFound {
			t.Errorf("the tenant can be used: %v", err)
		}
	}
	if unfinished, all, err := to.UnfinishedCopies(t.Context()); err != nil || all || !slices.Contains(unfinished, e.tenant) {
		t.Errorf("unfinished copies are %v, %v, %v", unfinished, all, err)
	}
	_, _, _, err := to.Key(t.Context(), id)
	wantCode(t, err, atrium.CodeNotFound)
}

func copyRefused(t *testing.T, e *env) {
	db := e.target.engine.New(t)()
	to, everything := e.at(db), store.CopyOptions{}
	of := func(from *env) store.CopyOptions { return store.CopyOptions{Tenant: from.tenant} }
	refused := func(_ *store.CopyReport, err error, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%v, want an error with %q", err, text)
			}
		}
	}
	conflict := func(r *store.CopyReport, err error, texts ...string) {
		t.Helper()
		wantCode(t, err, atrium.CodeConflict)
		refused(r, err, texts...)
	}

	report, err := e.CopyTo(t.Context(), to.Store, of(e))
	refused(report, err, "the target has migration 0", "atrium migrate")
	report, err = to.CopyTo(t.Context(), e.Store, of(e))
	refused(report, err, "the source has migration 0")
	to.engine.schema(t, db)
	report, err = e.CopyTo(t.Context(), to.Store, of(e.as(atrium.NewID[atrium.TenantID]())))
	wantCode(t, err, atrium.CodeNotFound)
	refused(report, err, "The source has no tenant")

	// A copy of one tenant that is not complete.
	if _, err := e.CopyTo(t.Context(), store.New(unfinishedDB{to.db}, e.clock.now), of(e)); !errors.Is(err, errInterrupted) {
		t.Fatal(err)
	}
	report, err = e.CopyTo(t.Context(), to.Store, everything)
	conflict(report, err, "The target has an unfinished copy of "+string(e.tenant), "atrium copy --discard --tenant "+string(e.tenant))
	for _, o := range []store.CopyOptions{of(e), everything} {
		report, err = to.CopyTo(t.Context(), e.Store, o)
		conflict(report, err, "The copy of "+string(e.tenant)+" in the source is not complete.")
		report, err = to.CompareTo(t.Context(), e.Store, o)
		conflict(report, err, "The copy of "+string(e.tenant)+" in the source is not complete.")
	}
	if err := to.DiscardCopy(t.Context(), of(e)); err != nil {
		t.Fatal(err)
	}

	// A copy of everything that is not complete.
	broken := &interruptedDB{DB: to.db, left: 1, random: rand.New(rand.NewPCG(1, 2))}
	if _, err := e.CopyTo(t.Context(), store.New(broken, e.clock.now), everything); !errors.Is(err, errInterrupted) {
		t.Fatal(err)
	}
	report, err = e.CopyTo(t.Context(), to.Store, of(e))
	conflict(report, err, "A copy of everything to the target is not complete: continue it, or use another target.")
	report, err = to.CopyTo(t.Context(), e.Store, everything)
	conflict(report, err, "The copy of everything in the source is not complete.")
	report, err = to.CompareTo(t.Context(), e.Store, everything)
	conflict(report, err, "The copy of everything in the source is not complete.")
	to.sql(t, "DELETE FROM settings WHERE name = $1", "copy")

	// A target that was used.
	if _, _, err := to.CreateKey(t.Context(), to.as(atrium.OperatorChain).change(), atrium.APIKey{ID: atrium.NewID[atrium.KeyID](), Name: "key"}, secretHash(9)); err != nil {
		t.Fatal(err)
	}
	report, err = e.CopyTo(t.Context(), to.Store, everything)
	conflict(report, err, "data of operators")
	if _, _, err := to.AdoptTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), e.tenant, "Same"); err != nil {
		t.Fatal(err)
	}
	for _, o := range []store.CopyOptions{of(e), everything} {
		report, err = e.CopyTo(t.Context(), to.Store, o)
		conflict(report, err, string(e.tenant))
	}
}

func copyBounded(t *testing.T, e *env) {
	a := e.newAccount("large.example", "")
	e.put(t, a)
	for range 16 {
		entry := e.newEntry(a, "")
		entry.Payload = fmt.Appendf(nil, "%q", bytes.Repeat([]byte("x"), 1<<20))
		e.put(t, entry)
	}
	e.withProspects(t, "many.example", 1200)
	to := e.sharedTarget()
	measured, most := to.measured()
	if report, err := e.CopyTo(t.Context(), measured.Store, store.CopyOptions{Tenant: e.tenant}); err != nil || report.Different() {
		t.Fatalf("copy: %+v, %v", report, err)
	}
	if most.rows > 500 {
		t.Errorf("a transaction stored %d rows", most.rows)
	}
	if most.bytes < 4<<20 || most.bytes > 4<<20+2<<20 { // a batch ends with the row that exceeds 4 MiB
		t.Errorf("a transaction stored %d bytes", most.bytes)
	}
	e.wantEqual(t, to)
}
