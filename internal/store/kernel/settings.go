package kernel

import (
	"context"
	"crypto/rand"
	"errors"

	"atrium/internal/store/engine"
)

// Secret returns the 32 random bytes stored under name, which all nodes on this database share.
// The first call generates them. Later calls only read: on a Citus cluster, settings is a reference
// table, and a write needs every server.
func (db *DB) Secret(ctx context.Context, name string) (secret []byte, err error) {
	read := func(query func(sql string, args engine.Args, each func(engine.Row) error) error) error {
		return engine.Find(query, "SELECT value FROM settings WHERE name = $1", engine.Args{name}, func(r engine.Row) { secret = r.Bytes(0) })
	}
	err = read(func(sql string, args engine.Args, each func(engine.Row) error) error {
		return db.Query(ctx, sql, args, each)
	})
	if !errors.Is(err, engine.ErrNoRow) {
		return secret, err
	}
	fresh := make([]byte, 32)
	_, _ = rand.Read(fresh) // never fails: crypto/rand crashes the process instead
	err = db.Write(ctx, func(tx engine.Tx) error {
		if _, err := tx.Exec("INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", name, fresh); err != nil {
			return err
		}
		return read(tx.Query)
	})
	return secret, err
}
