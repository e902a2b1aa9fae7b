package backup

import (
	"context"
	"encoding/hex"
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
	if m.Rows["entries"] != 20 || m.Rows["tenants"] != 1 || m.Schema != 6 || m.Atrium != "v1" || m.TakenAt < before {
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

// flip changes one byte of a file.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	_, err = file.ReadAt(b, at)
	b[0] ^= 0x55
	if err == nil {
		_, err = file.WriteAt(b, at)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

// Verify and Restore detect damage anywhere in a backup, and the error says how to fix it.
func TestADamagedBackupIsRefused(t *testing.T) {
	path, m := newBackup(t)
	refused := func(how string) {
		t.Helper()
		to := filepath.Join(t.TempDir(), "restored.db")
		_, verify := Verify(t.Context(), path, true, Options{})
		_, restore := Restore(t.Context(), path, to, true, Options{})
		for _, err := range []error{verify, restore} {
			if err == nil ||
				!strings.Contains(err.Error(), "take another backup") && !strings.Contains(err.Error(), "is not a manifest") {
				t.Errorf("%s: %v", how, err)
			}
		}
		if left := names(t, filepath.Dir(to)); len(left) > 0 {
			t.Errorf("%s: left behind %v", how, left)
		}
	}
	for at := int64(0); at < m.Bytes; at += m.Bytes / 50 { // the header, every kind of page, and payloads
		flip(t, path, at)
		refused(fmt.Sprintf("byte %d is changed", at))
		flip(t, path, at)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{0, 1, 100, 4096, m.Bytes / 2, m.Bytes - 4096, m.Bytes - 1} {
		if err := os.Truncate(path, n); err != nil {
			t.Fatal(err)
		}
		refused(fmt.Sprintf("%d bytes are left", n))
	}
	if err := os.WriteFile(path, append(whole, 0), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("a byte was added")
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	right, err := m.text()
	if err != nil {
		t.Fatal(err)
	}
	for how, text := range map[string]string{
		"no JSON":          strings.SplitAfter(right, "\n")[0],
		"cut off":          right[:len(right)/2],
		"empty":            "",
		"other rows":       strings.Replace(right, `"entries":20`, `"entries":21`, 1),
		"another schema":   strings.Replace(right, fmt.Sprint(`"schema":`, m.Schema), fmt.Sprint(`"schema":`, m.Schema-1), 1),
		"another checksum": strings.ReplaceAll(right, m.SHA256, hex.EncodeToString(make([]byte, 32))),
		"two checksums":    strings.Replace(right, m.SHA256, hex.EncodeToString(make([]byte, 32)), 1),
	} {
		if err := os.WriteFile(path+manifestSuffix, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		refused("the manifest: " + how)
	}
	if err := os.Remove(path + manifestSuffix); err != nil {
		t.Fatal(err)
	}
	_, err = Verify(t.Context(), path, true, Options{})
	if err == nil || !strings.Contains(err.Error(), "--no-manifest") {
		t.Errorf("without a manifest: %v", err)
	}
	if report, err := Verify(t.Context(), path, false, Options{}); err != nil || report.SHA256 != m.SHA256 {
		t.Errorf("with --no-manifest: %v", err)
	}
	if err := os.Truncate(path, m.Bytes/2); err != nil {
		t.Fatal(err)
	}
	_, err = Verify(t.Context(), path, false, Options{})
	if err == nil || !strings.Contains(err.Error(), "another backup") {
		t.Error("half a database passed the check without a manifest")
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

// A check that is canceled, or whose file cannot be read, does not report damage.
func TestACanceledCheckDoesNotReportDamage(t *testing.T) {
	path, m := newBackup(t)
	of := func(what string, check func(ctx context.Context, o Options) error) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := check(ctx, Options{Progress: func(done, total int64) {
			if done == total { // after the checksum, before the check of the database
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) ||
			strings.Contains(err.Error(), "damaged") || strings.Contains(err.Error(), "another backup") {
			t.Errorf("%s: %v", what, err)
		}
	}
	of("verify", func(ctx context.Context, o Options) error {
		_, err := Verify(ctx, path, true, o)
		return err
	})
	of("read back", func(ctx context.Context, o Options) error {
		o.Progress(1, 1)
		fault, err := readBack(ctx, path, m.SHA256)
		if fault != "" {
			t.Error(fault)
		}
		return err
	})
	if fault, err := readBack(t.Context(), filepath.Dir(path), m.SHA256); fault != "" || err == nil {
		t.Errorf("an unreadable file: %q, %v", fault, err)
	}
	flip(t, path, 4096)
	if fault, err := readBack(t.Context(), path, m.SHA256); fault == "" || err != nil {
		t.Errorf("a changed file: %q, %v", fault, err)
	}
}

func TestACopyKeepsToItsRate(t *testing.T) {
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

// A backup of a damaged database fails.
func TestABackupOfADamagedDatabaseFails(t *testing.T) {
	path, s := newDatabase(t, 20)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	var root int64
	err = sqlitex.ExecuteTransient(c, "SELECT rootpage FROM sqlite_schema WHERE name = 'entries'", &sqlitex.ExecOptions{
		ResultFunc: func(row *sqlite.Stmt) error { root = row.ColumnInt64(0); return nil },
	})
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	flip(t, path, (root-1)*4096+3) // the number of cells of the page
	damaged, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = damaged.Close() }()
	dir := t.TempDir()
	_, err = Make(t.Context(), damaged, filepath.Join(dir, "x.db"), Options{})
	if err == nil || !strings.Contains(err.Error(), "the copy is damaged") {
		t.Errorf("error %v, want one about damage", err)
	}
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left behind %v", left)
	}
}

func TestABackupOfANewerSchemaIsRefused(t *testing.T) {
	path, s := newDatabase(t, 1)
	all, err := migrations.For("sqlite")
	if err != nil {
		t.Fatal(err)
	}
	for ahead := 1; ahead <= 2; ahead++ {
		execute(t, path, fmt.Sprintf("INSERT INTO schema_migrations VALUES (%d, 'newer', 0)", len(all)+ahead))
		backup := filepath.Join(t.TempDir(), "backup.db")
		if _, err := Make(t.Context(), s, backup, Options{Version: "v9"}); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(t.TempDir(), "restored.db")
		_, err := Restore(t.Context(), backup, to, true, Options{})
		if ahead == 1 && err != nil { // servers accept this, too
			t.Errorf("one migration ahead: %v", err)
		}
		if ahead > 1 && (err == nil || !strings.Contains(err.Error(), "use a newer binary") ||
			!strings.Contains(err.Error(), "v9") || len(names(t, filepath.Dir(to))) > 0) {
			t.Errorf("%d migrations ahead: %v", ahead, err)
		}
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

func TestABackupOfAnotherDatabaseIsRefused(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.db")
	execute(t, other, "CREATE TABLE things (n INTEGER)")
	_, err := Verify(t.Context(), other, false, Options{})
	if err == nil || !strings.Contains(err.Error(), "not an Atrium database") {
		t.Error(err)
	}
}

// A broken audit log is reported, but does not prevent a restore.
func TestABrokenAuditLogIsReportedAndRestored(t *testing.T) {
	path, s := newDatabase(t, 1)
	execute(t, path, "UPDATE audit SET actor = 'nobody'")
	backup, to := filepath.Join(t.TempDir(), "backup.db"), filepath.Join(t.TempDir(), "restored.db")
	if _, err := Make(t.Context(), s, backup, Options{}); err != nil {
		t.Fatal(err)
	}
	verified, err := Verify(t.Context(), backup, true, Options{})
	if err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(t.Context(), backup, to, true, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, report := range []Report{verified, restored} {
		if len(report.Audits) != 1 || report.Audits[0] != (Fault{atrium.OperatorChain, "row 1 was altered"}) {
			t.Errorf("the report has %v", report.Audits)
		}
	}
}

func FuzzManifest(f *testing.F) {
	m := Manifest{
		File: "b.db", SHA256: strings.Repeat("0a", 32), Bytes: 4096, TakenAt: 1_000_000,
		Contents: store.Contents{Schema: 1, Rows: map[string]int64{"entries": 1}},
	}
	text, err := m.text()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(text))
	f.Add([]byte("0a  b\n# {}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseManifest(b)
		if err != nil {
			return
		}
		text, err := m.text()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseManifest([]byte(text))
		if err == nil {
			var twice string
			if twice, err = again.text(); twice != text {
				t.Errorf("%q is parsed as %q, and that as %q", b, text, twice)
			}
		}
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
