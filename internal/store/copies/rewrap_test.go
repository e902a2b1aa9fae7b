package copies

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"atrium"
	"atrium/internal/secrets"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
	"atrium/internal/store/kernel"
	"atrium/internal/store/register"
)

// sealedTable is a table with secrets, whose key has two columns.
var sealedTable = newTable(&register.Table{
	Name: "sealed_rows", Kind: register.Distributed, Key: []string{"group_id", "row_id"}, Sealed: "value",
	Columns: []register.Column{
		{Name: "tenant_id", Type: engine.Bytes, Copying: register.Copied}, {Name: "group_id", Type: engine.Bytes, Copying: register.Copied},
		{Name: "row_id", Type: engine.Bytes, Copying: register.Copied}, {Name: "value", Type: engine.Bytes, Copying: register.Uncompared},
	},
})

// newDatabase returns a database with the table.
func newDatabase(t *testing.T) *kernel.DB {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "test.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	k := &kernel.DB{Engine: db, Now: time.Now}
	err = k.Write(t.Context(), func(tx engine.Tx) error {
		for _, sql := range []string{
			"CREATE TABLE settings (name TEXT PRIMARY KEY, value BLOB NOT NULL)",
			"CREATE TABLE sealed_rows (tenant_id BLOB, group_id BLOB, row_id BLOB, value BLOB NOT NULL, PRIMARY KEY (tenant_id, group_id, row_id))",
		} {
			if _, err := tx.Exec(sql); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// keyring returns the keys of a file that has one key more than at the last call with the path.
func keyring(t *testing.T, path string) *secrets.Keyring {
	t.Helper()
	if _, _, err := secrets.AddKey(path, false); err != nil {
		t.Fatal(err)
	}
	keys, err := secrets.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// put stores secrets of a tenant.
func put(t *testing.T, db *kernel.DB, id atrium.TenantID, keys *secrets.Keyring, n byte) {
	t.Helper()
	for i := range n {
		sealed, err := keys.Seal(secrets.RowRef("sealed_rows", id, []byte{i / 2}, []byte{i}), []byte{'s', i})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Write(t.Context(), func(tx engine.Tx) error {
			_, err := tx.Exec("INSERT INTO sealed_rows (tenant_id, group_id, row_id, value) VALUES ($1, $2, $3, $4)", tenantArg(id), []byte{i / 2}, []byte{i}, sealed)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// check checks that all n secrets of a tenant open with keys, and were encrypted by the first of them.
func check(t *testing.T, db *kernel.DB, id atrium.TenantID, keys *secrets.Keyring, n int) {
	t.Helper()
	found := 0
	for read := sealedTable.read(db.OutsideTx(t.Context()), tenantArg(id)); ; {
		rows, err := read.next()
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) == 0 {
			break
		}
		for _, row := range rows {
			found++
			group, key, sealed := row[1].([]byte), row[2].([]byte), row[3].([]byte)
			plain, err := keys.Open(secrets.RowRef("sealed_rows", id, group, key), sealed)
			if err != nil || !bytes.Equal(plain, append([]byte{'s'}, key...)) || !keys.Current(sealed) {
				t.Errorf("%x/%x: %q, %v, current: %t", group, key, plain, err, keys.Current(sealed))
			}
		}
	}
	if found != n {
		t.Errorf("%d secrets, want %d", found, n)
	}
}

func TestRewrapEncryptsTheSecretsOfATenantWithTheFirstKey(t *testing.T) {
	db := newDatabase(t)
	path := filepath.Join(t.TempDir(), "keys")
	first := keyring(t, path)
	one, other := atrium.NewID[atrium.TenantID](), atrium.NewID[atrium.TenantID]()
	put(t, db, one, first, 9)
	put(t, db, other, first, 3)
	db.Secrets = keyring(t, path)
	for _, rewrapped := range []int64{9, 0} { // and again
		var done Rewrapping
		if err := sealedTable.rewrapTenant(t.Context(), db, one, &done); err != nil || done != (Rewrapping{9, rewrapped}) {
			t.Errorf("%+v, %v", done, err)
		}
		check(t, db, one, db.Secrets, 9)
	}
	check(t, db, other, first, 3)
	db.Secrets = keyring(t, filepath.Join(t.TempDir(), "keys"))
	var done Rewrapping
	if err := sealedTable.rewrapTenant(t.Context(), db, one, &done); err == nil || done.Rewrapped != 0 {
		t.Errorf("with other keys: %+v, %v", done, err)
	}
}

func TestCopiesHaveSecretsThatTheTargetCanRead(t *testing.T) {
	from := newDatabase(t)
	path := filepath.Join(t.TempDir(), "keys")
	from.Secrets = keyring(t, path)
	tenant := atrium.NewID[atrium.TenantID]()
	put(t, from, tenant, from.Secrets, 5)
	elsewhere := keyring(t, filepath.Join(t.TempDir(), "keys"))
	more := keyring(t, path)
	for name, c := range map[string]struct{ to, reads *secrets.Keyring }{
		"without keys":      {nil, from.Secrets},
		"with other keys":   {elsewhere, elsewhere},
		"with the same":     {from.Secrets, from.Secrets},
		"with one key more": {more, from.Secrets},
	} {
		to := newDatabase(t)
		to.Secrets = c.to
		copier := &Copier{From: from, To: to}
		rows, err := sealedTable.read(from.OutsideTx(t.Context()), tenantArg(tenant)).next()
		if err != nil || len(rows) == 0 {
			t.Fatal(len(rows), err)
		}
		keys, err := copier.resealFor(sealedTable, tenant, rows)
		if err != nil || len(keys) != 1 || !keys[c.reads.Keys()[0]] {
			t.Fatalf("%s: %v, %v", name, keys, err)
		}
		for _, row := range rows {
			plain, err := c.reads.Open(secrets.RowRef("sealed_rows", tenant, row[1].([]byte), row[2].([]byte)), row[3].([]byte))
			if err != nil || !bytes.Equal(plain, append([]byte{'s'}, row[2].([]byte)...)) {
				t.Errorf("%s: %q, %v", name, plain, err)
			}
		}
	}
	from.Secrets = nil
	to := newDatabase(t)
	to.Secrets = elsewhere
	rows, err := sealedTable.read(from.OutsideTx(t.Context()), tenantArg(tenant)).next()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (&Copier{From: from, To: to}).resealFor(sealedTable, tenant, rows); err == nil {
		t.Error("a secret was encrypted again without its key")
	}
}
