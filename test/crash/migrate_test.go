package crash

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/engine/powercut"
	"atrium/internal/store/engine/sqlite"
	"atrium/internal/store/migrations"
)

// oldAccounts makes the migration of accounts take a while.
const oldAccounts = 600

// makeOld creates the first version of the schema in a database, with accounts of a
// tenant.
func makeOld(t *testing.T, db engine.DB) {
	t.Helper()
	all, err := migrations.For(db.Name())
	if err != nil {
		t.Fatal(err)
	}
	err = db.Migrate(t.Context(), func(tx engine.Tx) error {
		if err := tx.Script("CREATE TABLE schema_migrations (number BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL);" + all[0].SQL); err != nil {
			return err
		}
		if _, err := tx.Exec("INSERT INTO schema_migrations (number, name, applied_at) VALUES (1, $1, 0)", all[0].Name); err != nil {
			return err
		}
		tenant := make([]byte, 18)
		if _, err := tx.Exec("INSERT INTO tenants (tenant_id, name, created_at) VALUES ($1, 'old', 0)", tenant); err != nil {
			return err
		}
		for n := range oldAccounts {
			domain := fmt.Sprintf("company-%d.example", n)
			if n%100 == 0 {
				domain += strings.Repeat("x", 10_000) // later versions store it separately
			}
			hash := sha256.Sum256([]byte(domain))
			if _, err := tx.Exec(`INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, name, created_at, updated_at, stored_at)
				VALUES ($1, $2, $3, $4, $5, 0, 0, 0)`, tenant, binary.BigEndian.AppendUint64(make([]byte, 10), uint64(n)), domain, hash[:16], fmt.Sprint("Company ", n)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wantMigrated completes the migrations of a database and checks the result. It closes the
// database, and returns how many migrations were left.
func wantMigrated(t *testing.T, db engine.DB) (left int) {
	t.Helper()
	defer func() { _ = db.Close() }()
	s := store.New(db, time.Now)
	ran, err := s.Migrate(t.Context())
	if err != nil {
		t.Error(err)
		return 0
	}
	if again, err := s.Migrate(t.Context()); err != nil || len(again) > 0 {
		t.Errorf("migrated twice: %v, %v", again, err)
	}
	if found, err := s.Check(t.Context(), true); err != nil || len(found) > 0 {
		t.Errorf("check: %v, %v", found, err)
	}
	for _, count := range []string{"SELECT count(*) FROM accounts", "SELECT count(*) FROM accounts a WHERE EXISTS (SELECT 1 FROM search_terms t WHERE t.tenant_id = a.tenant_id)",
		"SELECT count(*) * 100 FROM long_domains"} {
		if err := db.Query(t.Context(), count, nil, func(r engine.Row) error {
			if r.Int(0) != oldAccounts {
				t.Errorf("%s: %d, want %d", count, r.Int(0), oldAccounts)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	return len(ran)
}

// After a migration is killed, on either engine, the next one continues after the last
// committed step.
func TestKilledMigrationIsCompletedByTheNext(t *testing.T) {
	for name, newDatabase := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng, interrupted := random(t), 0
			for range 3 {
				db := openOld(t, newDatabase(t).url)
				for range 2 {
					s := command(t, "migrate", "--database", db)
					time.Sleep(time.Duration(rng.IntN(int(500 * time.Millisecond))))
					s.kill()
				}
				if wantMigrated(t, openEngine(t, db)) > 0 {
					interrupted++
				}
			}
			t.Logf("of 3 databases %d were not migrated by the processes that were killed", interrupted)
		})
	}
}

// openOld clears a database and creates the first version of the schema.
func openOld(t *testing.T, url string) string {
	t.Helper()
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		for _, end := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(path + end)
		}
	}
	db := openEngine(t, url)
	defer func() { _ = db.Close() }()
	if db.Name() == "postgres" {
		if err := db.Migrate(t.Context(), func(tx engine.Tx) error { return tx.Script("DROP SCHEMA public CASCADE; CREATE SCHEMA public") }); err != nil {
			t.Fatal(err)
		}
	}
	makeOld(t, db)
	return url
}

func openEngine(t *testing.T, url string) (db engine.DB) {
	t.Helper()
	var err error
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		db, err = sqlite.Open(path, sqlite.Options{})
	} else {
		db, err = postgres.Open(t.Context(), url, postgres.Options{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// The same at chosen moments: the process is killed, or the power cut, just before one of
// the writes, syncs and truncations of a migration.
func TestMigrationSurvivesACutBeforeAnyWrite(t *testing.T) {
	dir := t.TempDir()
	disk, err := powercut.Register("migration", dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, databaseName)
	db, err := sqlite.Open(path, sqlite.Options{VFS: "migration"})
	if err != nil {
		t.Fatal(err)
	}
	makeOld(t, db)
	var left []string // directories of copies
	writes, next := 0, 1
	disk.Before(func(string) {
		writes++
		if writes < next {
			return
		}
		next = writes + 4 // fewer than any migration has
		cut, killed := filepath.Join(t.TempDir(), "cut"), t.TempDir()
		if err := disk.SnapshotSubset(cut, uint64(writes)); err != nil {
			t.Error(err)
		}
		for _, end := range []string{"", "-wal"} {
			if err := copyFile(filepath.Join(killed, databaseName+end), path+end); err != nil {
				t.Error(err)
			}
		}
		left = append(left, cut, killed)
	})
	if _, err := store.New(db, time.Now).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	disk.Before(nil)
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if err := disk.Close(); err != nil {
		t.Error(err)
	}
	var ran []int
	for _, dir := range left {
		ran = append(ran, wantMigrated(t, openEngine(t, "sqlite:"+filepath.Join(dir, databaseName))))
	}
	t.Logf("%d writes; remaining migrations: %v", writes, ran)
	if !slices.Contains(ran, 2) || !slices.Contains(ran, 1) {
		t.Error("no cut was between the migrations")
	}
}
