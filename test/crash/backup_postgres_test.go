package crash

import (
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"atrium/internal/store"
)

// PostgreSQL's own backups, made under load as docs/backup.md describes, have everything
// that was acknowledged before they began.
func TestPostgreSQLBackupsUnderLoadAreComplete(t *testing.T) {
	o := newOutage(t, clientCount, nil)
	tool := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(filepath.Join(o.server.Bin(), name), args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	audit := func(how, database string, before int64) {
		t.Helper()
		s, err := store.Open(t.Context(), database, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		stored, err := readStore(t.Context(), s, o.db.tenants)
		if err != nil {
			t.Fatal(err)
		}
		v := o.ledger.audit(stored, before)
		v.report(t)
		t.Logf("%s: lost %d, duplicated %d of the %d that are acknowledged by now", how, v.lost, v.doubled, o.ledger.acks())
	}

	before := o.ledger.now()
	dump := filepath.Join(t.TempDir(), "atrium.dump")
	tool("pg_dump", "--format=custom", "--file="+dump, o.db.url)
	empty := o.server.NewDatabase(t)
	tool("pg_restore", "--exit-on-error", "--single-transaction", "--no-owner", "--dbname="+empty, dump)
	audit("pg_dump and pg_restore", empty, before)

	before = o.ledger.now()
	copied := o.server.BaseBackup(t)
	audit("pg_basebackup", copied.URL(databaseOf(t, o.db.url)), before)
	o.finish()
}

func databaseOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}
