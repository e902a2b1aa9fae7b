package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/register"
)

// Query runs a read-only statement and calls each for every row. Query, Find, Read and Write
// convert their errors with Public.
func (db *DB) Query(ctx context.Context, sql string, args engine.Args, each func(engine.Row) error) error {
	return Public(db.Engine.Query(ctx, sql, args, each))
}

// Find is Query for a statement that returns one row. It returns NotFound if there is no row.
func (db *DB) Find(ctx context.Context, sql string, args engine.Args, scan func(engine.Row)) error {
	return Public(engine.Find(func(sql string, args engine.Args, each func(engine.Row) error) error {
		return db.Engine.Query(ctx, sql, args, each)
	}, sql, args, scan))
}

// Read runs f in a read-only transaction on one snapshot.
func (db *DB) Read(ctx context.Context, f func(engine.Tx) error) error {
	return Public(db.Engine.Read(ctx, f))
}

// Write runs f in a transaction, which is durable when Write returns nil. The engine may retry f.
func (db *DB) Write(ctx context.Context, f func(engine.Tx) error) error {
	return Public(db.Engine.Write(ctx, f))
}

// Public converts an engine error for callers of the store: to an *atrium.Error, unless it is a
// bug or the database is corrupt.
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

// StoredAt returns the value of stored_at for inserted rows. If exports do not read a snapshot, it
// is later than the start of every running export, so that the export can recognize new rows.
// Otherwise it is the current time.
func (db *DB) StoredAt(tx engine.Tx) (at int64, err error) {
	at = db.Now().UnixMicro()
	if db.Engine.Traits().Snapshots {
		return at, nil
	}
	began, err := LatestExport(tx)
	return max(at, began+1), err
}

// A QueryFunc runs a statement, as engine.Tx.Query does.
type QueryFunc func(sql string, args engine.Args, each func(engine.Row) error) error

// OutsideTx returns a QueryFunc that runs each statement outside of a transaction.
func (db *DB) OutsideTx(ctx context.Context) QueryFunc {
	return func(sql string, args engine.Args, each func(engine.Row) error) error {
		return db.Query(ctx, sql, args, each)
	}
}

// LatestExport returns the start of the latest export, in microseconds since 1970, or 0 if there
// was none.
func LatestExport(tx engine.Tx) (began int64, err error) {
	err = tx.Query("SELECT value FROM settings WHERE name = $1", engine.Args{register.LatestExport}, func(r engine.Row) error {
		began = int64(binary.BigEndian.Uint64(r.Bytes(0)))
		return nil
	})
	return began, err
}
