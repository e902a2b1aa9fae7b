package kernel

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"

	"atrium/internal/store/engine"
	"atrium/internal/store/register"
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

// firstMark is the newest migration of the releases before there was a mark: the result of FinishedAt for
// their databases. It never changes, unlike migrations.Previous.
const firstMark = 3

// FinishedAt returns the newest migration of the latest release to which an upgrade is finished. Nodes
// of the release before it may run if it is older than this one.
func FinishedAt(query QueryFunc) (number int64, err error) {
	number = firstMark
	err = query("SELECT value FROM settings WHERE name = $1", engine.Args{register.Finished}, func(r engine.Row) error {
		number = int64(binary.BigEndian.Uint64(r.Bytes(0)))
		return nil
	})
	return number, err
}
