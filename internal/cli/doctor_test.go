package cli

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium"
	"atrium/internal/store"
)

// migratedFile returns the path of a database with a tenant.
func migratedFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "atrium.db")
	s, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Migrate(t.Context())
	if err == nil {
		_, _, err = s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	}
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// The database can belong to another application, or be evidence: the WAL that a crash left must be
// kept.
func TestDoctorAndBackupDoNotChangeTheDatabase(t *testing.T) {
	closed := migratedFile(t)
	left := filepath.Join(t.TempDir(), "left.db")
	c, err := sqlite.OpenConn(closed, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	err = sqlitex.ExecuteTransient(c, "UPDATE tenants SET name = 'Other'", nil)
	for _, end := range []string{"", "-wal", "-shm"} { // copy the files while the database is open
		b, e := os.ReadFile(closed + end)
		err = errors.Join(err, e, os.WriteFile(left+end, b, 0o600))
	}
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	if err := errors.Join(err, c.Close(), os.WriteFile(foreign, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	c, err = sqlite.OpenConn(foreign, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	err = sqlitex.ExecuteScript(c, "CREATE TABLE schema_migrations (number INTEGER); CREATE TABLE things (n INTEGER)", nil)
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{closed, left, foreign} {
		before := filesOf(t, path)
		checks := new(strings.Builder)
		doctor := NewCommand()
		doctor.SetArgs([]string{"doctor", "--full", "--database", "sqlite:" + path})
		doctor.SetOut(checks)
		doctor.SetErr(io.Discard)
		_ = doctor.ExecuteContext(t.Context()) // the foreign database fails
		if !strings.Contains(checks.String(), "integrity") && path != foreign {
			t.Errorf("checks of %s: %s", path, checks)
		}
		backup := NewCommand()
		backup.SetArgs([]string{"backup", filepath.Join(t.TempDir(), "backup.db"), "--database", "sqlite:" + path})
		backup.SetOut(io.Discard)
		if err := backup.ExecuteContext(t.Context()); err != nil {
			t.Errorf("backup of %s: %v", path, err)
		}
		if after := filesOf(t, path); !maps.Equal(before, after) {
			t.Errorf("%s was changed", filepath.Base(path))
		}
	}
}

// filesOf returns the contents of a database file and its WAL.
func filesOf(t *testing.T, path string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + end)
		if err == nil {
			files[end] = string(b)
		} else if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	return files
}

func TestInterruptedDoctorPrintsNoResult(t *testing.T) {
	path := migratedFile(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	root, out := NewCommand(), new(strings.Builder)
	root.SetOut(out)
	root.SetArgs([]string{"doctor", "--full", "--database", "sqlite:" + path})
	if err := root.ExecuteContext(ctx); err == nil || err.Error() != "interrupted: the checks are incomplete" ||
		out.Len() > 0 {
		t.Errorf("%v: %s", err, out)
	}
}
