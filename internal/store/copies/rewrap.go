package copies

import (
	"context"
	"fmt"

	"atrium"
	"atrium/internal/secrets"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// A Rewrapping is the result of Rewrap.
type Rewrapping struct {
	Secrets   int64 `json:"secrets"`   // in the database
	Rewrapped int64 `json:"rewrapped"` // of them, that another key had encrypted
}

// Rewrap encrypts all secrets of a database with the first key of the process, one transaction per secret. It returns
// an error at the first one that it cannot decrypt, and can be repeated. In the end, it removes the records of the
// other keys that the process has: the stored secrets no longer need them.
func Rewrap(ctx context.Context, db *kernel.DB) (done Rewrapping, err error) {
	err = eachTenant(ctx, db, func(id atrium.TenantID) error {
		for _, t := range tables() {
			if t.Sealed == "" {
				continue
			}
			if err := t.rewrapTenant(engine.ForTenant(ctx, string(id)), db, id, &done); err != nil {
				return fmt.Errorf("secrets of %s: %w", id, err)
			}
		}
		return nil
	})
	if err != nil {
		return done, err
	}
	return done, db.ForgetSecretKeys(ctx, db.Secrets.Keys()[1:]...)
}

// rewrapTenant encrypts the secrets that a tenant has in the table. A secret that changes in the meantime stays as it
// is then: only the newest key encrypts new ones.
func (t *table) rewrapTenant(ctx context.Context, db *kernel.DB, id atrium.TenantID, done *Rewrapping) error {
	for read := t.read(db.OutsideTx(ctx), tenantArg(id)); ; {
		rows, err := read.next()
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, row := range rows {
			done.Secrets++
			old, _ := row[t.sealed].([]byte)
			if db.Secrets.Current(old) {
				continue
			}
			fresh, err := t.reseal(row, id, db.Secrets, db.Secrets)
			if err != nil {
				return err
			}
			args := append(append(engine.Args{fresh, row[0]}, t.keyOf(row)...), old)
			var n int64
			if err := db.Write(ctx, func(tx engine.Tx) error {
				n, err = tx.Exec(t.rewrap, args...)
				return err
			}); err != nil {
				return err
			}
			done.Rewrapped += n
		}
	}
}

// reseal returns the sealed value of a row, decrypted with the keys of one process and encrypted with those of another.
func (t *table) reseal(row engine.Args, tenant atrium.TenantID, from, to *secrets.Keyring) ([]byte, error) {
	key := make([][]byte, len(t.key))
	for i, value := range t.keyOf(row) {
		key[i], _ = value.([]byte) // a test of the register checks the types
	}
	at := secrets.RowRef(t.Name, tenant, key...)
	sealed, _ := row[t.sealed].([]byte)
	plain, err := from.Open(at, sealed)
	if err != nil {
		return nil, err
	}
	return to.Seal(at, plain)
}

// resealFor prepares rows for the other database, and returns the IDs of the keys that encrypt their secrets there. A
// secret whose key the other process has stays as it is. If the other process has no keys, all stay: a server with the
// same file can read them.
func (c *Copier) resealFor(t *table, tenant atrium.TenantID, rows []engine.Args) (keys map[secrets.KeyID]bool, err error) {
	if t.Sealed == "" {
		return nil, nil
	}
	keys = map[secrets.KeyID]bool{}
	for _, row := range rows {
		sealed, _ := row[t.sealed].([]byte)
		if id, ok := secrets.KeyOf(sealed); c.To.Secrets != nil && (!ok || !c.To.Secrets.Has(id)) {
			if row[t.sealed], err = t.reseal(row, tenant, c.From.Secrets, c.To.Secrets); err != nil {
				return nil, fmt.Errorf("secrets of %s: %w", tenant, err)
			}
			sealed, _ = row[t.sealed].([]byte)
		}
		if id, ok := secrets.KeyOf(sealed); ok {
			keys[id] = true
		}
	}
	return keys, nil
}
