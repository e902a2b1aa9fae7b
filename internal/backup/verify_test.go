package backup

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/migrations"
)

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

// The copy is made nevertheless: without it, a database whose schema cannot be repaired at once would
// have no backup.
func TestABackupWithAnAlteredSchemaIsRefused(t *testing.T) {
	const key = "entries (tenant_id, key_match) WHERE key_match IS NOT NULL"
	for script, want := range map[string]string{
		"CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END": `trigger "t" on "entries" was added`,
		"DROP TABLE brands; CREATE VIEW brands AS SELECT * FROM pages":            "brands is of type view, want table",
		"DROP INDEX entries_by_key":                                               "index entries_by_key is missing",
		"DROP INDEX entries_by_key; CREATE INDEX entries_by_key ON " + key:        "index entries_by_key lacks",
		"CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)":      "",
	} {
		path, s := newDatabase(t, 1)
		execute(t, path, script)
		backup := filepath.Join(t.TempDir(), "backup.db")
		_, err := Make(t.Context(), s, backup, Options{})
		if got := names(t, filepath.Dir(backup)); len(got) != 2 {
			t.Errorf("%s: the files are %v", script, got)
		}
		errs := []error{err}
		for _, withManifest := range []bool{true, false} {
			to := filepath.Join(t.TempDir(), "restored.db")
			_, verify := Verify(t.Context(), backup, withManifest, Options{})
			_, restore := Restore(t.Context(), backup, to, withManifest, Options{})
			errs = append(errs, verify, restore)
			if left := names(t, filepath.Dir(to)); want != "" && len(left) > 0 {
				t.Errorf("%s: left behind %v", script, left)
			}
		}
		for i, err := range errs {
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s, %d: %v", script, i, err)
			}
		}
	}
}

// Opening a named pipe blocks until a process writes to it.
func TestABackupThatIsNotARegularFileIsRefused(t *testing.T) {
	path, _ := newBackup(t)
	pipe := filepath.Join(t.TempDir(), "backup.db")
	withPipe := filepath.Join(t.TempDir(), "backup.db") // a backup whose manifest is a pipe
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Link(path, withPipe),
		syscall.Mkfifo(withPipe+manifestSuffix, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		backup       string
		withManifest bool
		want         string
	}{
		{pipe, true, pipe}, {pipe, false, pipe}, {withPipe, true, withPipe + manifestSuffix},
		{t.TempDir(), false, ""}, {os.DevNull, false, os.DevNull},
	} {
		to := filepath.Join(t.TempDir(), "restored.db")
		done := make(chan error, 2)
		go func() {
			_, err := Verify(t.Context(), c.backup, c.withManifest, Options{})
			done <- err
			_, err = Restore(t.Context(), c.backup, to, c.withManifest, Options{})
			done <- err
		}()
		for range cap(done) {
			select {
			case err := <-done:
				if err == nil || !strings.Contains(err.Error(), c.want+" is not a regular file") {
					t.Errorf("%s: %v", c.backup, err)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: the command hangs", c.backup)
			}
		}
	}
}

func TestABackupOfANewerSchemaIsRefused(t *testing.T) {
	path, s := newDatabase(t, 1)
	all, err := migrations.For("sqlite")
	if err != nil {
		t.Fatal(err)
	}
	for _, finished := range []bool{false, true} {
		execute(t, path, fmt.Sprintf("INSERT OR IGNORE INTO schema_migrations VALUES (%d, 'newer', 0)", len(all)+1))
		if finished {
			execute(t, path, fmt.Sprintf("UPDATE settings SET value = x'%016x' WHERE name = 'finished'", len(all)+1))
		}
		backup := filepath.Join(t.TempDir(), "backup.db")
		if _, err := Make(t.Context(), s, backup, Options{Version: "v9"}); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(t.TempDir(), "restored.db")
		_, err := Restore(t.Context(), backup, to, true, Options{})
		if !finished && err != nil { // servers accept this, too
			t.Errorf("before the upgrade is finished: %v", err)
		}
		if finished && (err == nil || !strings.Contains(err.Error(), "use a newer binary") ||
			!strings.Contains(err.Error(), "v9") || len(names(t, filepath.Dir(to))) > 0) {
			t.Errorf("after the upgrade is finished: %v", err)
		}
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
