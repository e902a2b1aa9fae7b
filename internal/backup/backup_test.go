package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
	"atrium/internal/store/migrations"
)

// newDatabase creates a database with a tenant and the given number of entries, and returns its
// path and the open store.
func newDatabase(t *testing.T, entries int) (path string, s *store.Store) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "atrium.db")
	s = open(t, path)
	tenant, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		d, err := canonical.Draft(tenant.ID, atrium.Submission{
			Source: "crm", Type: "webhook", Payload: []byte(`{"fill":"` + strings.Repeat("x", 500) + `"}`),
			Claim: atrium.Claim{Domain: fmt.Sprintf("d%d.example", i)},
		})
		if err != nil {
			t.Fatal(err)
		}
		d.ID = atrium.NewID[atrium.EntryID]()
		if outcomes, err := s.Append(t.Context(), []*atrium.Draft{d}); err != nil || outcomes[0].Err != nil {
			t.Fatal(err, outcomes)
		}
	}
	return path, s
}

// open opens and migrates a store, and closes it when the test ends.
func open(t *testing.T, path string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// newBackup creates a backup of a database with a few entries.
func newBackup(t *testing.T) (path string, m Manifest) {
	t.Helper()
	_, s := newDatabase(t, 20)
	path = filepath.Join(t.TempDir(), "backup.db")
	m, err := Make(t.Context(), s, path, Options{Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	return path, m
}

// names returns the files of a directory.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		all = append(all, f.Name())
	}
	return all
}

// execute runs a script on a database, without the store.
func execute(t *testing.T, path, script string) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sqlitex.ExecuteScript(c, script, nil), c.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestARestoredBackupHasTheSameContents(t *testing.T) {
	old := syscall.Umask(0) // the mode must not depend on the umask
	defer syscall.Umask(old)
	before := atrium.At(time.Now())
	path, m := newBackup(t)
	if got, want := names(t, filepath.Dir(path)), []string{"backup.db", "backup.db.sha256"}; !slices.Equal(got, want) {
		t.Errorf("the files are %v, want %v", got, want)
	}
	for _, name := range []string{path, path + manifestSuffix} {
		if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	all, err := migrations.For("sqlite")
	if err != nil {
		t.Fatal(err)
	}
	if m.Rows["entries"] != 20 || m.Rows["tenants"] != 1 || m.Schema != int64(len(all)) || m.Atrium != "v1" || m.TakenAt < before {
		t.Errorf("the manifest says %+v", m)
	}
	report, err := Verify(t.Context(), path, true, Options{})
	if err != nil || len(report.Audits) > 0 || report.SHA256 != m.SHA256 {
		t.Errorf("verify: %+v, %v", report, err)
	}
	to := filepath.Join(t.TempDir(), "restored.db")
	if _, err := Restore(t.Context(), path, to, true, Options{}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode() != 0o600 {
		t.Errorf("%s: %v, %v", to, info.Mode(), err)
	}
	restored := open(t, to)
	if c, err := restored.Contents(t.Context()); err != nil || c.Rows["entries"] != 20 {
		t.Errorf("restored: %+v, %v", c, err)
	}
}

// Manifests work with sha256sum.
func TestSha256sumChecksABackup(t *testing.T) {
	sha256sum, err := exec.LookPath("sha256sum")
	if err != nil {
		t.Fatal(err) // part of coreutils and busybox
	}
	path, _ := newBackup(t)
	check := func() error {
		cmd := exec.Command(sha256sum, "-c", filepath.Base(path)+manifestSuffix)
		cmd.Dir = filepath.Dir(path)
		return cmd.Run()
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	flip(t, path, 4096)
	if check() == nil {
		t.Error("a damaged backup passed the check")
	}
}

// Existing files stay unchanged, and no files are left next to them.
func TestExistingFilesAreNotOverwritten(t *testing.T) {
	backup, _ := newBackup(t)
	_, s := newDatabase(t, 0)
	for _, there := range []string{"x.db", "x.db-wal", "x.db-shm", "x.db-journal"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, there), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Restore(t.Context(), backup, filepath.Join(dir, "x.db"), true, Options{})
		if err == nil || !strings.Contains(err.Error(), "already exists") {
			t.Errorf("restore next to %s: %v", there, err)
		}
		_, err = Make(t.Context(), s, filepath.Join(dir, there), Options{})
		if err == nil || !strings.Contains(err.Error(), "already exists") {
			t.Errorf("backup to %s: %v", there, err)
		}
		text, err := os.ReadFile(filepath.Join(dir, there))
		if err != nil || string(text) != "mine" || len(names(t, dir)) != 1 {
			t.Errorf("%s is now %q, %v, among %v", there, text, err, names(t, dir))
		}
	}
	// A file that is created during the backup is not overwritten either.
	path := filepath.Join(t.TempDir(), "x.db")
	_, err := Make(t.Context(), s, path, Options{Progress: func(done, total int64) {
		if done == total {
			if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
				t.Error(err)
			}
		}
	}})
	text, e := os.ReadFile(path)
	if !errors.Is(err, os.ErrExist) || e != nil || string(text) != "mine" || len(names(t, filepath.Dir(path))) != 1 {
		t.Errorf("%v: %q, %v, among %v", err, text, e, names(t, filepath.Dir(path)))
	}
	// A new backup replaces the manifest of a deleted one.
	path = filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(path+manifestSuffix, []byte("of another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Make(t.Context(), s, path, Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(t.Context(), path, true, Options{}); err != nil {
		t.Error(err)
	}
}

func TestACanceledBackupOrRestoreLeavesNoFiles(t *testing.T) {
	_, s := newDatabase(t, 20)
	backup, _ := newBackup(t)
	for what, do := range map[string]func(context.Context, string, Options) error{
		"backup": func(ctx context.Context, path string, o Options) error {
			_, err := Make(ctx, s, path, o)
			return err
		},
		"restore": func(ctx context.Context, path string, o Options) error {
			_, err := Restore(ctx, backup, path, true, o)
			return err
		},
	} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		err := do(ctx, filepath.Join(dir, "x.db"), Options{Progress: func(done, _ int64) {
			if done > 8192 {
				cancel()
			}
		}})
		cancel()
		if err == nil || len(names(t, dir)) > 0 {
			t.Errorf("%s: %v, left behind %v", what, err, names(t, dir))
		}
		if err := do(t.Context(), filepath.Join(dir, "no", "folder"), Options{}); err == nil {
			t.Errorf("%s to a missing directory succeeded", what)
		}
		if err := do(t.Context(), filepath.Join(dir, "x.db"), Options{}); err != nil {
			t.Errorf("the next %s: %v", what, err)
		}
	}
}

func TestCopyRateIsLimited(t *testing.T) {
	_, s := newDatabase(t, 20)
	start := time.Now()
	m, err := Make(t.Context(), s, filepath.Join(t.TempDir(), "x.db"), Options{Rate: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if took, least := time.Since(start), time.Duration(m.Bytes)*time.Second>>20-10*time.Millisecond; took < least {
		t.Errorf("%d bytes took %s, want at least %s at 1 MiB/s", m.Bytes, took, least)
	}
}

func TestABackupOfAnOlderSchemaIsMigratedAfterRestore(t *testing.T) {
	all, err := migrations.For("sqlite")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "old.db")
	execute(t, path, all[0].SQL+`;
		CREATE TABLE schema_migrations (number BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL);
		INSERT INTO schema_migrations VALUES (1, 'initial', 0)`)
	old, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close() }()
	backup := filepath.Join(t.TempDir(), "backup.db")
	if m, err := Make(t.Context(), old, backup, Options{}); err != nil || m.Schema != 1 {
		t.Fatal(m, err)
	}
	to := filepath.Join(t.TempDir(), "restored.db")
	if _, err := Restore(t.Context(), backup, to, true, Options{}); err != nil {
		t.Fatal(err)
	}
	restored, err := store.Open(t.Context(), "sqlite:"+to, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = restored.Close() }()
	if ran, err := restored.Migrate(t.Context()); err != nil || len(ran) != len(all)-1 {
		t.Errorf("migrated %v, %v", ran, err)
	}
}
