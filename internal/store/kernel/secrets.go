package kernel

import (
	"context"
	"slices"
	"strings"

	"atrium/internal/secrets"
	"atrium/internal/store/engine"
	"atrium/internal/store/register"
)

// afterSecretKeys is the next text after all that begin with register.SecretKey.
const afterSecretKeys = "secret_key0"

// SecretKeys returns the IDs of the keys that processes have encrypted secrets with, or may still encrypt them with.
// The stored secrets need no others.
func SecretKeys(query QueryFunc) (ids []secrets.KeyID, err error) {
	err = query("SELECT name FROM settings WHERE name >= $1 AND name < $2 ORDER BY name", engine.Args{register.SecretKey, afterSecretKeys}, func(r engine.Row) error {
		if id, ok := secrets.ParseKeyID(strings.TrimPrefix(r.Text(0), register.SecretKey)); ok {
			ids = append(ids, id)
		}
		return nil
	})
	return ids, err
}

// RecordSecretKey records that a process may encrypt secrets with a key.
func RecordSecretKey(tx engine.Tx, id secrets.KeyID) error {
	_, err := tx.Exec("INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", register.SecretKey+id.String(), []byte{})
	return err
}

// MissingSecretKeys returns the IDs of the keys that the stored secrets may need and the process lacks. If it lacks
// none, it records the key that it encrypts with. Otherwise the process can store no secrets.
func (db *DB) MissingSecretKeys(ctx context.Context) (missing []secrets.KeyID, err error) {
	known, err := SecretKeys(db.OutsideTx(ctx))
	if err != nil {
		return nil, err
	}
	for _, id := range known {
		if !db.Secrets.Has(id) {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 && db.Secrets != nil && !slices.Contains(known, db.Secrets.Keys()[0]) {
		if err := db.Write(ctx, func(tx engine.Tx) error { return RecordSecretKey(tx, db.Secrets.Keys()[0]) }); err != nil {
			return nil, err
		}
	}
	db.Secrets.AllowSeal(len(missing) == 0)
	return missing, nil
}

// ForgetSecretKeys removes the records of keys: no stored secret needs them, or they are lost.
func (db *DB) ForgetSecretKeys(ctx context.Context, ids ...secrets.KeyID) error {
	if len(ids) == 0 {
		return nil
	}
	return db.Write(ctx, func(tx engine.Tx) error {
		for _, id := range ids {
			if _, err := tx.Exec("DELETE FROM settings WHERE name = $1", register.SecretKey+id.String()); err != nil {
				return err
			}
		}
		return nil
	})
}
