package store_test

import (
	"context"
	"testing"
	"time"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/engine/postgrestest"
)

// If commits wait for a standby, an entry is acknowledged only after the standby has it. A server
// that stops waiting has the entry itself. A retry by the service or the client that finds it
// there must not acknowledge it either.
func TestAnEntryThatNoStandbyHasIsNotAcknowledged(t *testing.T) {
	server := postgrestest.Start(t)
	url := server.NewDatabase(t)
	db := openPostgres(t, url, postgres.Options{Timeout: 400 * time.Millisecond})
	s := store.New(db, time.Now)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	tenant, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	if err != nil {
		t.Fatal(err)
	}
	standby := func(name string) {
		t.Helper()
		for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + name + "'", "SELECT 1 WHERE pg_reload_conf()"} {
			if err := db.Query(t.Context(), sql, nil, func(engine.Row) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(500 * time.Millisecond) // the server reloads its configuration asynchronously
	}
	draft := func(key string) *atrium.Draft {
		t.Helper()
		d, err := canonical.Draft(tenant.ID, atrium.Submission{Source: "crm", Type: "webhook", Payload: []byte("{}"), IdempotencyKey: key})
		if err != nil {
			t.Fatal(err)
		}
		d.ID = atrium.NewID[atrium.EntryID]()
		return d
	}
	appendOne := func(d *atrium.Draft) (atrium.Receipt, error) {
		outcomes, err := s.Append(t.Context(), []*atrium.Draft{d})
		if err != nil {
			return atrium.Receipt{}, err
		}
		return outcomes[0].Receipt, outcomes[0].Err
	}
	standby("nobody")
	keyed, keyless := draft("key"), draft("")
	for name, d := range map[string]*atrium.Draft{"with a key": keyed, "without a key": keyless, "a client's retry": draft("key")} {
		if r, err := appendOne(d); err == nil {
			t.Errorf("%s: acknowledged %+v, which no standby has", name, r)
		}
	}
	standby("")
	first, err := appendOne(draft("key"))
	if err != nil || !first.Replayed {
		t.Errorf("with the standby gone: %+v, %v", first, err)
	}
	if r, err := appendOne(keyless); err != nil || r.EntryID != keyless.ID {
		t.Errorf("with the standby gone: %+v, %v", r, err)
	}
	entries := 0
	if err := s.Export(t.Context(), tenant.ID, func(r store.Record) error {
		if _, ok := r.(*atrium.Entry); ok {
			entries++
		}
		return nil
	}); err != nil || entries != 2 {
		t.Errorf("there are %d entries, %v, want the one with the key and the one without", entries, err)
	}
}

// A hookedDB is a DB that reports synchronous standbys and calls afterBatch once, after the next
// batch of a write.
type hookedDB struct {
	engine.DB
	afterBatch func()
}

func (db *hookedDB) Traits() engine.Traits {
	traits := db.DB.Traits()
	traits.Replicated, traits.Remote = true, false // look entries up first, and without locks
	return traits
}

func (db *hookedDB) Write(ctx context.Context, f func(engine.Tx) error) error {
	return db.DB.Write(ctx, func(tx engine.Tx) error { return f(&hookedTx{tx, db}) })
}

type hookedTx struct {
	engine.Tx
	db *hookedDB
}

func (tx *hookedTx) Batch(b *engine.Batch, rows []engine.Args, each func(engine.Row) error) (int64, error) {
	n, err := tx.Tx.Batch(b, rows, each)
	if do := tx.db.afterBatch; do != nil {
		tx.db.afterBatch = nil
		do()
	}
	return n, err
}

// Confirming an entry touches its account. The entry may have been moved to another account in
// the meantime.
func TestConfirmingAMovedEntryDoesNotTouchItsFormerAccount(t *testing.T) {
	url := postgrestest.Shared(t).NewDatabase(t)
	db := &hookedDB{DB: openPostgres(t, url, postgres.Options{})}
	s, other := store.New(db, time.Now), store.New(openPostgres(t, url, postgres.Options{}), time.Now)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	tenant, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	if err != nil {
		t.Fatal(err)
	}
	record := func(claim atrium.Claim, key string) atrium.Receipt {
		t.Helper()
		d, err := canonical.Draft(tenant.ID, atrium.Submission{
			Source: "crm", Type: "webhook", Payload: []byte("{}"), IdempotencyKey: key, Claim: claim,
		})
		if err != nil {
			t.Fatal(err)
		}
		d.ID = atrium.NewID[atrium.EntryID]()
		outcomes, err := s.Append(t.Context(), []*atrium.Draft{d})
		if err != nil || outcomes[0].Err != nil {
			t.Fatal(outcomes, err)
		}
		return outcomes[0].Receipt
	}
	c := atrium.Change{TenantID: tenant.ID, Actor: "key_test"}
	a, _, err := s.CreateAccount(t.Context(), c, "a.example", "")
	if err != nil {
		t.Fatal(err)
	}
	byID := atrium.Claim{AccountID: a.ID} // the account is not locked before the key is found
	first, elsewhere := record(byID, "k"), record(atrium.Claim{Domain: "b.example"}, "")
	db.afterBatch = func() {
		if _, _, err := other.MoveEntry(t.Context(), c, first.EntryID, elsewhere.AccountID, func(atrium.TimelineEntry) error { return nil }); err != nil {
			t.Error(err)
		}
	}
	if again := record(byID, "k"); !again.Replayed || again.EntryID != first.EntryID {
		t.Errorf("replayed as %+v", again)
	}
	if a, _, err := s.Account(t.Context(), tenant.ID, first.AccountID); err != nil || a.LatestActivityAt != nil || db.afterBatch != nil {
		t.Errorf("the account without entries is %+v, %v", a, err)
	}
}
