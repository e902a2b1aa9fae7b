package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"atrium"
	"atrium/internal/store/engine"
)

// Query runs a statement that only reads, and calls each with its rows. The error is Public, as are
// those of Find, Read and Write.
func (db *DB) Query(ctx context.Context, sql string, args engine.Args, each func(engine.Row) error) error {
	return Public(db.Engine.Query(ctx, sql, args, each))
}

// Find is Query for a statement that finds one row. It is NotFound if there is none.
func (db *DB) Find(ctx context.Context, sql string, args engine.Args, scan func(engine.Row)) error {
	return Public(engine.Find(func(sql string, args engine.Args, each func(engine.Row) error) error {
		return db.Engine.Query(ctx, sql, args, each)
	}, sql, args, scan))
}

// Read runs f in a transaction that sees the database as it was at one instant.
func (db *DB) Read(ctx context.Context, f func(engine.Tx) error) error {
	return Public(db.Engine.Read(ctx, f))
}

// Write runs f in a transaction, which is durable when Write returns nil. f may be called several
// times.
func (db *DB) Write(ctx context.Context, f func(engine.Tx) error) error {
	return Public(db.Engine.Write(ctx, f))
}

// Public returns the error of an engine as callers of the store may see it: an *atrium.Error
// unless it is a bug or the database is damaged.
func Public(err error) error {
	switch {
	case err == nil:
		return nil
	case isPublic(err):
		return err
	case errors.Is(err, engine.ErrNoRow):
		return atrium.NotFound()
	case engine.ClassOf(err) == engine.Unavailable:
		return atrium.Unavailable(err)
	case engine.ClassOf(err) == engine.Uncertain:
		return atrium.Uncertain(err)
	}
	return fmt.Errorf("store: %w", err)
}

func isPublic(err error) bool {
	_, ok := errors.AsType[*atrium.Error](err)
	return ok
}

// StoredAt returns what rows that a transaction stores have in stored_at: after the
// start of every export that may be under way. Where exports have snapshots, nothing
// depends on it.
func (db *DB) StoredAt(tx engine.Tx) (at int64, err error) {
	at = db.Now().UnixMicro()
	if db.Engine.Traits().Snapshots {
		return at, nil
	}
	began, err := LatestExport(tx)
	return max(at, began+1), err
}

// A Query runs a statement, as engine.Tx.Query does.
type Query func(sql string, args engine.Args, each func(engine.Row) error) error

// NoTx returns a query that is no part of a transaction.
func (db *DB) NoTx(ctx context.Context) Query {
	return func(sql string, args engine.Args, each func(engine.Row) error) error {
		return db.Query(ctx, sql, args, each)
	}
}

// ExportsBegan is the setting with what the latest export of any tenant has for began.
const ExportsBegan = "exports_began"

// LatestExport returns when the latest export began, 0 if there was none; see ExportsBegan.
func LatestExport(tx engine.Tx) (began int64, err error) {
	err = tx.Query("SELECT value FROM settings WHERE name = $1", engine.Args{ExportsBegan}, func(r engine.Row) error {
		began = int64(binary.BigEndian.Uint64(r.Bytes(0)))
		return nil
	})
	return began, err
}
