package kernel

import (
	"context"
	"crypto/rand"

	"atrium/internal/store/engine"
)

// Secret returns the 32 random bytes stored under name, which all nodes on this database share.
// The first call generates them.
func (db *DB) Secret(ctx context.Context, name string) (secret []byte, err error) {
	fresh := make([]byte, 32)
	_, _ = rand.Read(fresh) // never fails: crypto/rand crashes the process instead
	err = db.Write(ctx, func(tx engine.Tx) error {
		if _, err := tx.Exec("INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", name, fresh); err != nil {
			return err
		}
		return engine.Find(tx.Query, "SELECT value FROM settings WHERE name = $1", engine.Args{name}, func(r engine.Row) { secret = r.Bytes(0) })
	})
	return secret, err
}
