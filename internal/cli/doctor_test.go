package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium"
	"atrium/internal/config"
	"atrium/internal/sso/ssotest"
	"atrium/internal/store"
	"atrium/internal/store/engine/postgrestest"
	"atrium/internal/store/migrations"
)

// healthyDoctor returns a doctor for a machine without problems and a migrated database with a
// change.
func healthyDoctor(t *testing.T, database string) *doctor {
	t.Helper()
	s, err := store.Open(t.Context(), database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	d := &doctor{
		settings: config.Default(), now: time.Now, full: true,
		free: func(string) (int64, error) { return 1 << 40, nil }, files: func() (int64, error) { return 1 << 20, nil },
	}
	d.settings.Database = database
	return d
}

func newSQLiteDoctor(t *testing.T) (d *doctor, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "atrium.db")
	return healthyDoctor(t, "sqlite:"+path), path
}

// findingFor runs the doctor and returns the finding of a check.
func (d *doctor) findingFor(t *testing.T, check string, settingsErr error) finding {
	t.Helper()
	d.run(t.Context(), settingsErr)
	i := slices.IndexFunc(d.findings, func(f finding) bool { return f.Check == check })
	if i < 0 {
		t.Fatalf("no check %q in %+v", check, d.findings)
	}
	return d.findings[i]
}

func TestDoctorPassesOnHealthySystem(t *testing.T) {
	d, _ := newSQLiteDoctor(t)
	d.run(t.Context(), nil)
	if len(d.findings) < 9 {
		t.Errorf("only %d checks", len(d.findings))
	}
	for _, f := range d.findings {
		if f.Status != statusOK || f.Found == "" || f.Fix != "" {
			t.Errorf("%+v", f)
		}
	}
}

func TestDoctorFindsUnfinishedCopies(t *testing.T) {
	const first, second = "tenant_00000000000000000000000001", "tenant_00000000000000000000000002"
	const again = "run atrium copy --tenant again, or with --discard to delete what it stored"
	for _, c := range []struct {
		marks []string
		want  finding
	}{
		{[]string{"copy"}, finding{"copy", statusFail, "a copy of everything to this database is not complete",
			"run atrium copy again before a server starts on this database"}},
		{[]string{"copy/" + first}, finding{"copy", statusWarn, "a copy of " + first + " is not complete", again}},
		{[]string{"copy/" + second, "copy/" + first}, finding{"copy", statusWarn,
			"a copy of " + first + " and of other tenants is not complete", again}},
	} {
		d, path := newSQLiteDoctor(t)
		for _, name := range c.marks {
			execSQL(t, path, "INSERT INTO settings (name, value) VALUES ('"+name+"', x'')")
		}
		if f := d.findingFor(t, "copy", nil); f != c.want {
			t.Errorf("%v: %+v, want %+v", c.marks, f, c.want)
		}
	}
}

func TestDoctorChecksTheIdentityProvider(t *testing.T) {
	for name, c := range map[string]struct {
		behavior ssotest.Behavior
		mode     os.FileMode
		want     [2]string // a status of the provider, and of the secret
		found    string
	}{
		"a provider that responds": {ssotest.Behavior{}, 0o600, [2]string{statusOK, statusOK}, "https://atrium.example.com/console/login/callback"},
		"a provider that is away":  {ssotest.Behavior{Away: true}, 0o600, [2]string{statusFail, statusOK}, "502"},
		"another issuer": {
			ssotest.Behavior{Discovery: func(m map[string]any) { m["issuer"] = "https://other.example" }}, 0o600, [2]string{statusFail, statusOK}, "https://other.example",
		},
		"a secret that others can read": {ssotest.Behavior{}, 0o644, [2]string{statusOK, statusFail}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := newSQLiteDoctor(t)
			d.settings.OIDCIssuer, d.settings.PublicURL = ssotest.New(t, c.behavior).Issuer, "https://atrium.example.com"
			secret := ssotest.SecretFile(t)
			chmod(t, secret, c.mode)
			d.list = append(d.list, config.Setting{Name: "oidc-client-secret-file", Value: secret})
			if f := d.findingFor(t, "identity provider", nil); f.Status != c.want[0] || !strings.Contains(f.Found, c.found) {
				t.Errorf("the provider: %+v", f)
			}
			if f := d.findingFor(t, "client secret", nil); f.Status != c.want[1] {
				t.Errorf("the secret: %+v", f)
			}
		})
	}
}

// execSQL changes a database file directly.
func execSQL(t *testing.T, path, script string) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sqlitex.ExecuteScript(c, script, nil), c.Close()); err != nil {
		t.Fatal(err)
	}
}

// corruptPage overwrites the root page of a table, starting with the byte first.
func corruptPage(t *testing.T, path, table string, first byte) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	var root int64
	err = sqlitex.ExecuteTransient(c, "SELECT rootpage FROM sqlite_schema WHERE name = '"+table+"'",
		&sqlitex.ExecOptions{
			ResultFunc: func(row *sqlite.Stmt) error { root = row.ColumnInt64(0); return nil },
		})
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt([]byte{first, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77}, (root-1)*4096)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// Every check detects its problem, with the expected status and a fix.
func TestDoctorFindsProblems(t *testing.T) {
	all, err := migrations.For("sqlite")
	if err != nil {
		t.Fatal(err)
	}
	newest := len(all)
	settingsErr := errors.New("addr must not be empty\nlog-sample must not be negative")
	for _, c := range []struct {
		check, status, found string
		spoil                func(t *testing.T, d *doctor, path string) error
	}{
		{"settings", statusFail, "addr must not be empty; log-sample must not be negative",
			func(*testing.T, *doctor, string) error {
				return settingsErr
			}},
		{"address", statusWarn, "0.0.0.0:80 is reachable from other machines",
			func(_ *testing.T, d *doctor, _ string) error {
				d.settings.Addr = "0.0.0.0:80"
				return nil
			}},
		{"address", statusOK, "uses TLS", func(_ *testing.T, d *doctor, _ string) error {
			d.settings.Addr, d.list = ":443", []config.Setting{{Name: "tls-cert", Value: "cert.pem"}}
			return nil
		}},
		{"metrics address", statusWarn, ":9090 requires no key", func(_ *testing.T, d *doctor, _ string) error {
			d.settings.MetricsAddr = ":9090"
			return nil
		}},
		{"TLS key", statusFail, "mode is 0644", func(t *testing.T, d *doctor, path string) error {
			key := path + ".key"
			d.list = []config.Setting{{Name: "tls-key", Value: key}}
			err := os.WriteFile(key, nil, 0o600)
			chmod(t, key, 0o644)
			return err
		}},
		{"TLS key", statusFail, "no such file", func(_ *testing.T, d *doctor, path string) error {
			d.list = []config.Setting{{Name: "tls-key", Value: path + ".key"}}
			return nil
		}},
		{"profile", statusFail, "mode is 0604", func(t *testing.T, _ *doctor, path string) error {
			t.Setenv(envProfile, path+".json")
			err := os.WriteFile(path+".json", nil, 0o600)
			chmod(t, path+".json", 0o604)
			return err
		}},
		{"open files", statusFail, "limit is 100 files", func(_ *testing.T, d *doctor, _ string) error {
			d.files = func() (int64, error) { return 100, nil }
			return nil
		}},
		{"open files", statusWarn, "limit is 1024 files and connections, max-connections requires 8448",
			func(_ *testing.T, d *doctor, _ string) error {
				d.files = func() (int64, error) { return 1024, nil }
				return nil
			}},
		{"database", statusFail, "does not exist", func(_ *testing.T, _ *doctor, path string) error {
			return os.Remove(path)
		}},
		{"database", statusFail, "not a database", func(_ *testing.T, _ *doctor, path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("not a database", 1000)), 0o600)
		}},
		{"file modes", statusFail, "other users can write", func(t *testing.T, _ *doctor, path string) error {
			chmod(t, path, 0o660)
			return nil
		}},
		{"file modes", statusWarn, "other users can read", func(t *testing.T, _ *doctor, path string) error {
			chmod(t, path, 0o644)
			return nil
		}},
		{"file modes", statusFail, "can replace the database", func(t *testing.T, _ *doctor, path string) error {
			chmod(t, filepath.Dir(path), 0o777)
			return nil
		}},
		{"write-ahead log", statusWarn, "size is 200.0 MiB", func(_ *testing.T, _ *doctor, path string) error {
			return errors.Join(os.WriteFile(path+"-wal", nil, 0o600), os.Truncate(path+"-wal", 200<<20))
		}},
		{"disk space", statusFail, "100.0 MiB free", func(_ *testing.T, d *doctor, _ string) error {
			d.free = func(string) (int64, error) { return 100 << 20, nil }
			return nil
		}},
		{"disk space", statusWarn, "too little for a copy", func(_ *testing.T, d *doctor, _ string) error {
			d.free = func(string) (int64, error) { return minFreeSpace, nil }
			return nil
		}},
		{"database", statusFail, "table entries does not begin on page",
			func(t *testing.T, _ *doctor, path string) error {
				corruptPage(t, path, "entries", 0x77)
				return nil
			}},
		{"integrity", statusFail, "problems; first: ", func(t *testing.T, _ *doctor, path string) error {
			corruptPage(t, path, "entries", 0x0d)
			return nil
		}},
		{"schema", statusFail, fmt.Sprintf("the upgrade of the database to migration 1000 is finished and this binary knows %d", newest),
			func(t *testing.T, _ *doctor, path string) error {
				execSQL(t, path, `INSERT INTO schema_migrations VALUES (1000, 'newer', 0);
					UPDATE settings SET value = x'00000000000003e8' WHERE name = 'finished'`)
				return nil
			}},
		{"schema", statusWarn, "the upgrade is not finished", func(t *testing.T, _ *doctor, path string) error {
			execSQL(t, path, "DELETE FROM settings WHERE name = 'finished'")
			return nil
		}},
		{"schema", statusWarn, "is compatible", func(t *testing.T, _ *doctor, path string) error {
			execSQL(t, path, "INSERT INTO schema_migrations VALUES (1000, 'newer', 0)")
			return nil
		}},
		{"schema", statusWarn, fmt.Sprintf("is at migration 13 of %d", newest), func(t *testing.T, _ *doctor, path string) error {
			execSQL(t, path, "DELETE FROM schema_migrations WHERE number > 13; DROP TABLE retention")
			return nil
		}},
		{"schema", statusFail, `altered: index entries_by_key is missing; trigger "t" on "entries" was added`,
			func(t *testing.T, _ *doctor, path string) error {
				execSQL(t, path, `DROP INDEX entries_by_key;
					CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END`)
				return nil
			}},
		// a table of another application
		{"database", statusFail, "cannot be queried", func(t *testing.T, _ *doctor, path string) error {
			execSQL(t, path, "DROP TABLE schema_migrations; CREATE TABLE schema_migrations (other TEXT)")
			return nil
		}},
		{"schema", statusWarn, fmt.Sprintf("is at migration 0 of %d", newest), func(_ *testing.T, _ *doctor, path string) error {
			return os.Truncate(path, 0)
		}},
		{"clock", statusFail, "but the newest record is from", func(_ *testing.T, d *doctor, _ string) error {
			d.now = func() time.Time { return time.Now().Add(-time.Hour) }
			return nil
		}},
		{"clock", statusWarn, "behind the newest record", func(_ *testing.T, d *doctor, _ string) error {
			d.now = func() time.Time { return time.Now().Add(-30 * time.Second) }
			return nil
		}},
	} {
		t.Run(c.check+" "+c.status+" "+c.found[:min(len(c.found), 12)], func(t *testing.T) {
			d, path := newSQLiteDoctor(t)
			f := d.findingFor(t, c.check, c.spoil(t, d, path))
			if f.Status != c.status || !strings.Contains(f.Found, c.found) || (f.Fix == "") != (c.status == statusOK) {
				t.Errorf("%+v, want %s with %q", f, c.status, c.found)
			}
		})
	}
}

// The database can belong to another application, or be evidence: the WAL that a crash left must be
// kept.
func TestDoctorAndBackupDoNotChangeTheDatabase(t *testing.T) {
	d, closed := newSQLiteDoctor(t)
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
	execSQL(t, foreign, "CREATE TABLE schema_migrations (number INTEGER); CREATE TABLE things (n INTEGER)")
	for _, path := range []string{closed, left, foreign} {
		before := filesOf(t, path)
		d.settings.Database = "sqlite:" + path
		d.run(t.Context(), nil)
		root := NewCommand()
		root.SetArgs([]string{"backup", filepath.Join(t.TempDir(), "backup.db"), "--database", "sqlite:" + path})
		root.SetOut(io.Discard)
		if err := root.ExecuteContext(t.Context()); err != nil {
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

// writeCertificate writes a certificate that expires at end, and its key.
func writeCertificate(t *testing.T, end time.Time) (chain, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.AddDate(-1, 0, 0), NotAfter: end}
	certificate, err := x509.CreateCertificate(rand.Reader, of, of, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	chain, key = filepath.Join(dir, "chain.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{chain: {Type: "CERTIFICATE", Bytes: certificate},
		key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return chain, key
}

func TestDoctorLoadsCertificateLikeServer(t *testing.T) {
	now := time.Now()
	chain, key := writeCertificate(t, now.Add(15*24*time.Hour))
	soon, soonKey := writeCertificate(t, now.Add(13*24*time.Hour))
	old, oldKey := writeCertificate(t, now.Add(-time.Hour))
	for _, c := range []struct{ chain, key, status, found string }{
		{chain, key, statusOK, "matches its key"},
		{soon, soonKey, statusWarn, "expires soon"},
		{old, oldKey, statusFail, "expired on"},
		{chain, soonKey, statusFail, "does not match"},
		{key, key, statusFail, "tls-cert and tls-key: "},
		{"none.pem", key, statusFail, "no such file"},
	} {
		d, _ := newSQLiteDoctor(t)
		d.settings.TLSCert, d.settings.TLSKey = c.chain, c.key
		d.list = []config.Setting{{Name: "tls-cert", Value: c.chain}, {Name: "tls-key", Value: c.key}}
		if f := d.findingFor(t, "certificate", nil); f.Status != c.status || !strings.Contains(f.Found, c.found) {
			t.Errorf("%+v, want %s: %s", f, c.status, c.found)
		}
	}
}

func TestInterruptedDoctorPrintsNoResult(t *testing.T) {
	_, path := newSQLiteDoctor(t)
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

func TestDoctorFindsProblemsOfPostgreSQL(t *testing.T) {
	good := postgrestest.Shared(t)
	d := healthyDoctor(t, good.NewDatabase(t))
	d.run(t.Context(), nil)
	for _, f := range d.findings {
		if f.Status == statusFail {
			t.Errorf("%+v", f)
		}
	}
	for _, c := range []struct {
		status, found string
		off           time.Duration
	}{{statusFail, "differs by 1h0m0s", time.Hour}, {statusWarn, "differs by 30s", 30 * time.Second}} {
		d := healthyDoctor(t, good.NewDatabase(t))
		d.now = func() time.Time { return time.Now().Add(-c.off) }
		if f := d.findingFor(t, "clock", nil); f.Status != c.status || !strings.Contains(f.Found, c.found) {
			t.Errorf("%+v", f)
		}
	}
	d = healthyDoctor(t, good.NewDatabase(t))
	index := "accounts_by_domain"
	onServer(t, d.settings.Database,
		fmt.Sprintf("UPDATE pg_index SET indisvalid = false WHERE indexrelid = '%s'::regclass", index))
	if f := d.findingFor(t, "integrity", nil); f.Status != statusFail || !strings.Contains(f.Found, index) {
		t.Errorf("%+v", f)
	}

	d = healthyDoctor(t, good.NewDatabase(t))
	onServer(t, d.settings.Database, "ALTER TABLE schema_migrations RENAME COLUMN number TO other")
	if f := d.findingFor(t, "database", nil); f.Status != statusFail ||
		!strings.Contains(f.Found, "cannot be queried") {
		t.Errorf("%+v", f)
	}

	bad, err := postgrestest.Run("fsync=off", "full_page_writes=off", "synchronous_commit=off", "max_connections=20")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := bad.Close(); err != nil {
			t.Error(err)
		}
	}()
	url, err := bad.Create("doctor")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		statements  string
		connections int
		check       string
		status      string
		found       string
	}{
		// prepared sessions set synchronous_commit to on
		{config.Prepared, 2, "durability", statusFail, "off: fsync, full_page_writes: "},
		{config.Unprepared, 2, "durability", statusFail, "off: fsync, full_page_writes, synchronous_commit: "},
		{config.Prepared, 18, "connections", statusFail, "database-connections is 18, the server allows 17"},
		{config.Prepared, 10, "connections", statusWarn, "too few for a second process"},
		{config.Prepared, 4, "connections", statusOK, "allows 4 processes"},
		{config.Prepared, 2, "page checksums", statusWarn, "does not detect"},
	} {
		d := healthyDoctor(t, url)
		d.settings.DatabaseStatements, d.settings.DatabaseConnections = c.statements, c.connections
		if f := d.findingFor(t, c.check, nil); f.Status != c.status || !strings.Contains(f.Found, c.found) {
			t.Errorf("%+v, want %s with %q", f, c.status, c.found)
		}
	}
	d = healthyDoctor(t, url)
	d.settings.Database = strings.Replace(url, "/doctor", "/nothing", 1)
	if f := d.findingFor(t, "database", nil); f.Status != statusFail || !strings.Contains(f.Found, "does not exist") {
		t.Errorf("%+v", f)
	}
}

func onServer(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(t.Context(), statement)
	if err := errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}
