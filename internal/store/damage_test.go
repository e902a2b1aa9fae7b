package store_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium/internal/store"
)

// Check finds a flipped bit in the header of a B-tree page, in every table and index.
func TestAFlippedBitInABTreeHeaderIsFound(t *testing.T) {
	const pageBytes = 4096
	rng := rand.New(rand.NewPCG(1, 2))
	sound := filepath.Join(t.TempDir(), "sound.db")
	s, err := store.Open(t.Context(), "sqlite:"+sound, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(sound)
	if err != nil {
		t.Fatal(err)
	}
	roots := 0
	for name, root := range rootsOf(t, sound) {
		roots++
		damaged := append([]byte(nil), content...)
		bit := 8 + rng.IntN(7*8) // in the page header (https://www.sqlite.org/fileformat.html, 1.6)
		damaged[(root-1)*pageBytes+int64(bit/8)] ^= 1 << (bit % 8)
		path := filepath.Join(t.TempDir(), "damaged.db")
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if found, err := checkFile(t, path); err == nil && len(found) == 0 {
			t.Errorf("flipped bit %d of %s was not found", bit, name)
		}
	}
	if roots < 30 {
		t.Errorf("there are %d tables and indexes", roots)
	}
}

// checkFile opens a database and runs a full check. An error of either is returned.
func checkFile(t *testing.T, path string) ([]store.Problem, error) {
	t.Helper()
	s, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	return s.Check(t.Context(), true)
}

// rootsOf returns the number of the root page of each table and index.
func rootsOf(t *testing.T, path string) map[string]int64 {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	all := map[string]int64{}
	err = sqlitex.ExecuteTransient(c, "SELECT type, name, rootpage FROM sqlite_schema WHERE rootpage > 0", &sqlitex.ExecOptions{
		ResultFunc: func(stmt *sqlite.Stmt) error {
			all[fmt.Sprint(stmt.ColumnText(0), " ", stmt.ColumnText(1))] = stmt.ColumnInt64(2)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
