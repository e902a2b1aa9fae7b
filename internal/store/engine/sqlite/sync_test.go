package sqlite_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"atrium/internal/store/engine"
)

func TestAMarkedDatabaseIsRecovered(t *testing.T) {
	for name, left := range map[string][]string{"with its WAL": {"", "-wal"}, "without a WAL": {""}} {
		t.Run(name, func(t *testing.T) {
			db, path := newCounters(t)
			if len(left) == 1 {
				if err := db.Close(); err != nil { // removes the WAL
					t.Fatal(err)
				}
			} else {
				script(t, db, "CREATE TABLE large (b BLOB); INSERT INTO large VALUES (zeroblob(3000000))")
			}
			marked := filepath.Join(t.TempDir(), "marked.db")
			for _, suffix := range left {
				b, err := os.ReadFile(path + suffix)
				if err == nil {
					err = os.WriteFile(marked+suffix, b, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(marked+"-unsynced", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			recovered := openFile(t, marked)
			if _, err := os.Stat(marked + "-unsynced"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the marker is still there: %v", err)
			}
			if found, err := recovered.Check(t.Context(), true); err != nil || len(found) > 0 {
				t.Errorf("check: %v, %v", found, err)
			}
			if err := recovered.Write(t.Context(), func(tx engine.Tx) error { return increment(tx, "a") }); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCommitsAreSyncedToTheMedium(t *testing.T) {
	db, _ := newCounters(t)
	want := map[string]int64{"synchronous": 2, "fullfsync": 1} // 2 is FULL
	check := func(tx engine.Tx) error {
		for setting, value := range want {
			if err := tx.Query("PRAGMA "+setting, nil, func(r engine.Row) error {
				if got := r.Int(0); got != value {
					t.Errorf("%s is %d, want %d", setting, got, value)
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := db.Write(t.Context(), check); err != nil {
		t.Error(err)
	}
	if err := db.Read(t.Context(), check); err != nil {
		t.Error(err)
	}
}
