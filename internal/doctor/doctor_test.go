package doctor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
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
	"atrium/internal/sso"
	"atrium/internal/sso/ssotest"
	"atrium/internal/store"
	"atrium/internal/store/engine/postgrestest"
	"atrium/internal/store/migrations"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

// healthyDoctor returns a doctor for a machine without problems and a migrated database with a
// change.
func healthyDoctor(t *testing.T, database string) *Doctor {
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
	d := &Doctor{
		Settings: config.Default(), Now: time.Now, Full: true,
		free: func(string) (int64, error) { return 1 << 40, nil }, files: func() (int64, error) { return 1 << 20, nil },
	}
	d.Settings.Database = database
	d.Open = func(ctx context.Context) (*store.Store, func(), error) {
		s, err := store.Open(ctx, d.Settings.Database, store.Options{
			ReadOnly: true, Connections: d.Settings.DatabaseConnections, Timeout: d.Settings.DatabaseTimeout,
			Unprepared: d.Settings.DatabaseStatements == config.Unprepared,
		})
		return s, func() { _ = s.Close() }, err
	}
	return d
}

func newSQLiteDoctor(t *testing.T) (d *Doctor, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "atrium.db")
	return healthyDoctor(t, "sqlite:"+path), path
}

// findingFor runs the doctor and returns the finding of a check.
func (d *Doctor) findingFor(t *testing.T, check string, settingsErr error) Finding {
	t.Helper()
	d.Invalid = settingsErr
	all := d.Run(t.Context())
	i := slices.IndexFunc(all, func(f Finding) bool { return f.Check == check })
	if i < 0 {
		t.Fatalf("no check %q in %+v", check, all)
	}
	return all[i]
}

func TestDoctorPassesOnHealthySystem(t *testing.T) {
	d, _ := newSQLiteDoctor(t)
	all := d.Run(t.Context())
	if len(all) < 9 {
		t.Errorf("only %d checks", len(all))
	}
	for _, f := range all {
		if f.Status != OK || f.Found == "" || f.Fix != "" {
			t.Errorf("%+v", f)
		}
	}
}

func TestDoctorFindsUnfinishedCopies(t *testing.T) {
	const first, second = "tenant_00000000000000000000000001", "tenant_00000000000000000000000002"
	const again = "run atrium copy --tenant again, or with --discard to delete what it stored"
	for _, c := range []struct {
		marks []string
		want  Finding
	}{
		{[]string{"copy"}, Finding{"copy", Fail, "a copy of everything to this database is not complete",
			"run atrium copy again before a server starts on this database"}},
		{[]string{"copy/" + first}, Finding{"copy", Warn, "a copy of " + first + " is not complete", again}},
		{[]string{"copy/" + second, "copy/" + first}, Finding{"copy", Warn,
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
		want     [2]Status // a status of the provider, and of the secret
		found    string
	}{
		"a provider that responds": {ssotest.Behavior{}, 0o600, [2]Status{OK, OK}, "https://atrium.example.com/console/login/callback"},
		"a provider that is away":  {ssotest.Behavior{Away: true}, 0o600, [2]Status{Fail, OK}, "502"},
		"another issuer": {
			ssotest.Behavior{Discovery: func(m map[string]any) { m["issuer"] = "https://other.example" }}, 0o600, [2]Status{Fail, OK}, "https://other.example",
		},
		"a secret that others can read": {ssotest.Behavior{}, 0o644, [2]Status{OK, Fail}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := newSQLiteDoctor(t)
			issuer := ssotest.New(t, c.behavior).Issuer
			d.Settings.OIDCIssuer, d.RedirectURI = issuer, "https://atrium.example.com/console/login/callback"
			d.CheckProvider = sso.New(sso.Config{Issuer: issuer, Now: time.Now}).Check
			secret := ssotest.SecretFile(t)
			chmod(t, secret, c.mode)
			d.Origins = append(d.Origins, config.Setting{Name: "oidc-client-secret-file", Value: secret})
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
		check  string
		status Status
		found  string
		spoil  func(t *testing.T, d *Doctor, path string) error
	}{
		{"settings", Fail, "addr must not be empty; log-sample must not be negative",
			func(*testing.T, *Doctor, string) error {
				return settingsErr
			}},
		{"address", Warn, "0.0.0.0:80 is reachable from other machines",
			func(_ *testing.T, d *Doctor, _ string) error {
				d.Settings.Addr = "0.0.0.0:80"
				return nil
			}},
		{"address", OK, "uses TLS", func(_ *testing.T, d *Doctor, _ string) error {
			d.Settings.Addr, d.Origins = ":443", []config.Setting{{Name: "tls-cert", Value: "cert.pem"}}
			return nil
		}},
		{"metrics address", Warn, ":9090 requires no key", func(_ *testing.T, d *Doctor, _ string) error {
			d.Settings.MetricsAddr = ":9090"
			return nil
		}},
		{"TLS key", Fail, "mode is 0644", func(t *testing.T, d *Doctor, path string) error {
			key := path + ".key"
			d.Origins = []config.Setting{{Name: "tls-key", Value: key}}
			err := os.WriteFile(key, nil, 0o600)
			chmod(t, key, 0o644)
			return err
		}},
		{"TLS key", Fail, "no such file", func(_ *testing.T, d *Doctor, path string) error {
			d.Origins = []config.Setting{{Name: "tls-key", Value: path + ".key"}}
			return nil
		}},
		{"profile", Fail, "mode is 0604", func(t *testing.T, d *Doctor, path string) error {
			d.Profile = path + ".json"
			err := os.WriteFile(path+".json", nil, 0o600)
			chmod(t, path+".json", 0o604)
			return err
		}},
		{"open files", Fail, "limit is 100 files", func(_ *testing.T, d *Doctor, _ string) error {
			d.files = func() (int64, error) { return 100, nil }
			return nil
		}},
		{"open files", Warn, "limit is 1024 files and connections, max-connections requires 8448",
			func(_ *testing.T, d *Doctor, _ string) error {
				d.files = func() (int64, error) { return 1024, nil }
				return nil
			}},
		{"database", Fail, "does not exist", func(_ *testing.T, _ *Doctor, path string) error {
			return os.Remove(path)
		}},
		{"database", Fail, "not a database", func(_ *testing.T, _ *Doctor, path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("not a database", 1000)), 0o600)
		}},
		{"file modes", Fail, "other users can write", func(t *testing.T, _ *Doctor, path string) error {
			chmod(t, path, 0o660)
			return nil
		}},
		{"file modes", Warn, "other users can read", func(t *testing.T, _ *Doctor, path string) error {
			chmod(t, path, 0o644)
			return nil
		}},
		{"file modes", Fail, "can replace the database", func(t *testing.T, _ *Doctor, path string) error {
			chmod(t, filepath.Dir(path), 0o777)
			return nil
		}},
		{"write-ahead log", Warn, "size is 200.0 MiB", func(_ *testing.T, _ *Doctor, path string) error {
			return errors.Join(os.WriteFile(path+"-wal", nil, 0o600), os.Truncate(path+"-wal", 200<<20))
		}},
		{"disk space", Fail, "100.0 MiB free", func(_ *testing.T, d *Doctor, _ string) error {
			d.free = func(string) (int64, error) { return 100 << 20, nil }
			return nil
		}},
		{"disk space", Warn, "too little for a copy", func(_ *testing.T, d *Doctor, _ string) error {
			d.free = func(string) (int64, error) { return minFreeSpace, nil }
			return nil
		}},
		{"database", Fail, "table entries does not begin on page",
			func(t *testing.T, _ *Doctor, path string) error {
				corruptPage(t, path, "entries", 0x77)
				return nil
			}},
		{"integrity", Fail, "problems; first: ", func(t *testing.T, _ *Doctor, path string) error {
			corruptPage(t, path, "entries", 0x0d)
			return nil
		}},
		{"schema", Fail, fmt.Sprintf("the upgrade of the database to migration 1000 is finished and this binary knows %d", newest),
			func(t *testing.T, _ *Doctor, path string) error {
				execSQL(t, path, `INSERT INTO schema_migrations VALUES (1000, 'newer', 0);
					UPDATE settings SET value = x'00000000000003e8' WHERE name = 'finished'`)
				return nil
			}},
		{"schema", Warn, "the upgrade is not finished", func(t *testing.T, _ *Doctor, path string) error {
			execSQL(t, path, "DELETE FROM settings WHERE name = 'finished'")
			return nil
		}},
		{"schema", Warn, "is compatible", func(t *testing.T, _ *Doctor, path string) error {
			execSQL(t, path, "INSERT INTO schema_migrations VALUES (1000, 'newer', 0)")
			return nil
		}},
		{"schema", Warn, fmt.Sprintf("is at migration 13 of %d", newest), func(t *testing.T, _ *Doctor, path string) error {
			execSQL(t, path, "DELETE FROM schema_migrations WHERE number > 13; DROP TABLE retention; ALTER TABLE erasure_jobs DROP COLUMN quarantined")
			return nil
		}},
		{"schema", Fail, `altered: index entries_by_key is missing; trigger "t" on "entries" was added`,
			func(t *testing.T, _ *Doctor, path string) error {
				execSQL(t, path, `DROP INDEX entries_by_key;
					CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END`)
				return nil
			}},
		// a table of another application
		{"database", Fail, "cannot be queried", func(t *testing.T, _ *Doctor, path string) error {
			execSQL(t, path, "DROP TABLE schema_migrations; CREATE TABLE schema_migrations (other TEXT)")
			return nil
		}},
		{"schema", Warn, fmt.Sprintf("is at migration 0 of %d", newest), func(_ *testing.T, _ *Doctor, path string) error {
			return os.Truncate(path, 0)
		}},
		{"clock", Fail, "but the newest record is from", func(_ *testing.T, d *Doctor, _ string) error {
			d.Now = func() time.Time { return time.Now().Add(-time.Hour) }
			return nil
		}},
		{"clock", Warn, "behind the newest record", func(_ *testing.T, d *Doctor, _ string) error {
			d.Now = func() time.Time { return time.Now().Add(-30 * time.Second) }
			return nil
		}},
	} {
		t.Run(c.check+" "+string(c.status)+" "+c.found[:min(len(c.found), 12)], func(t *testing.T) {
			d, path := newSQLiteDoctor(t)
			f := d.findingFor(t, c.check, c.spoil(t, d, path))
			if f.Status != c.status || !strings.Contains(f.Found, c.found) || (f.Fix == "") != (c.status == OK) {
				t.Errorf("%+v, want %s with %q", f, c.status, c.found)
			}
		})
	}
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
	for _, c := range []struct {
		chain, key string
		status     Status
		found      string
	}{
		{chain, key, OK, "matches its key"},
		{soon, soonKey, Warn, "expires soon"},
		{old, oldKey, Fail, "expired on"},
		{chain, soonKey, Fail, "does not match"},
		{key, key, Fail, "tls-cert and tls-key: "},
		{"none.pem", key, Fail, "no such file"},
	} {
		d, _ := newSQLiteDoctor(t)
		d.Settings.TLSCert, d.Settings.TLSKey = c.chain, c.key
		d.Origins = []config.Setting{{Name: "tls-cert", Value: c.chain}, {Name: "tls-key", Value: c.key}}
		if f := d.findingFor(t, "certificate", nil); f.Status != c.status || !strings.Contains(f.Found, c.found) {
			t.Errorf("%+v, want %s: %s", f, c.status, c.found)
		}
	}
}

func TestDoctorFindsProblemsOfPostgreSQL(t *testing.T) {
	good := postgrestest.Shared(t)
	d := healthyDoctor(t, good.NewDatabase(t))
	for _, d.Full = range []bool{false, true} { // a server is not read
		for _, f := range d.Run(t.Context()) {
			if f.Status == Fail || f.Check == "integrity" && f.Found != "no index is invalid; pg_amcheck reads the whole database" {
				t.Errorf("%+v", f)
			}
		}
	}
	for _, c := range []struct {
		status Status
		found  string
		off    time.Duration
	}{{Fail, "differs by 1h0m0s", time.Hour}, {Warn, "differs by 30s", 30 * time.Second}} {
		d := healthyDoctor(t, good.NewDatabase(t))
		d.Now = func() time.Time { return time.Now().Add(-c.off) }
		if f := d.findingFor(t, "clock", nil); f.Status != c.status || !strings.Contains(f.Found, c.found) {
			t.Errorf("%+v", f)
		}
	}
	d = healthyDoctor(t, good.NewDatabase(t))
	index := "accounts_by_domain"
	onServer(t, d.Settings.Database,
		fmt.Sprintf("UPDATE pg_index SET indisvalid = false WHERE indexrelid = '%s'::regclass", index))
	if f := d.findingFor(t, "integrity", nil); f.Status != Fail || !strings.Contains(f.Found, index) {
		t.Errorf("%+v", f)
	}

	d = healthyDoctor(t, good.NewDatabase(t))
	onServer(t, d.Settings.Database, "ALTER TABLE schema_migrations RENAME COLUMN number TO other")
	if f := d.findingFor(t, "database", nil); f.Status != Fail ||
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
		status      Status
		found       string
	}{
		// prepared sessions set synchronous_commit to on
		{config.Prepared, 2, "durability", Fail, "off: fsync, full_page_writes: "},
		{config.Unprepared, 2, "durability", Fail, "off: fsync, full_page_writes, synchronous_commit: "},
		{config.Prepared, 18, "connections", Fail, "database-connections is 18, the server allows 17"},
		{config.Prepared, 10, "connections", Warn, "too few for a second process"},
		{config.Prepared, 4, "connections", OK, "allows 4 processes"},
		{config.Prepared, 2, "page checksums", Warn, "does not detect"},
	} {
		d := healthyDoctor(t, url)
		d.Settings.DatabaseStatements, d.Settings.DatabaseConnections = c.statements, c.connections
		if f := d.findingFor(t, c.check, nil); f.Status != c.status || !strings.Contains(f.Found, c.found) {
			t.Errorf("%+v, want %s with %q", f, c.status, c.found)
		}
	}
	d = healthyDoctor(t, url)
	d.Settings.Database = strings.Replace(url, "/doctor", "/nothing", 1)
	if f := d.findingFor(t, "database", nil); f.Status != Fail || !strings.Contains(f.Found, "does not exist") {
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

func TestSizesOfDisksAreInGiB(t *testing.T) {
	for n, want := range map[int64]string{100 << 20: "100.0 MiB", 10<<30 - 1: "10240.0 MiB", 60 << 30: "60.0 GiB"} {
		if have := mebibytes(n); have != want {
			t.Errorf("%d is %s, want %s", n, have, want)
		}
	}
}
