// Package recording lets tests see the statements that a database is asked to run.
package recording

import (
	"context"

	"atrium/internal/store/engine"
)

// The forms of a batch's statement, by who runs it.
const (
	Embedded = "embedded" // a file
	Server   = "server"
	Shard    = "shard" // a server that has some of the tenants
)

// New returns a DB that runs each statement on db, and calls note with its text
// before that. Of a batch it is the statement in the given form. note is called by
// many goroutines at once.
func New(db engine.DB, form string, note func(sql string)) engine.DB {
	return recording{db, recorder{form, note}}
}

type recorder struct {
	form string
	note func(sql string)
}

type recording struct {
	engine.DB
	recorder
}

func (db recording) Read(ctx context.Context, f func(engine.Tx) error) error {
	return db.DB.Read(ctx, func(tx engine.Tx) error { return f(recordingTx{tx, db.recorder}) })
}

func (db recording) Write(ctx context.Context, f func(engine.Tx) error) error {
	return db.DB.Write(ctx, func(tx engine.Tx) error { return f(recordingTx{tx, db.recorder}) })
}

func (db recording) Query(ctx context.Context, sql string, args engine.Args, each func(engine.Row) error) error {
	db.note(sql)
	return db.DB.Query(ctx, sql, args, each)
}

func (db recording) Migrate(ctx context.Context, f func(engine.Tx) error) error {
	return db.DB.Migrate(ctx, func(tx engine.Tx) error { return f(recordingTx{tx, db.recorder}) })
}

func (db recording) Snapshot(ctx context.Context, f func(engine.DB) error) error {
	return db.DB.Snapshot(ctx, func(snapshot engine.DB) error { return f(recording{snapshot, db.recorder}) })
}

type recordingTx struct {
	engine.Tx
	recorder
}

func (tx recordingTx) Query(sql string, args engine.Args, each func(engine.Row) error) error {
	tx.note(sql)
	return tx.Tx.Query(sql, args, each)
}

func (tx recordingTx) Lock(sql string, args engine.Args, each func(engine.Row) error) error {
	tx.note(sql)
	return tx.Tx.Lock(sql, args, each)
}

func (tx recordingTx) Exec(sql string, args ...any) (int64, error) {
	tx.note(sql)
	return tx.Tx.Exec(sql, args...)
}

func (tx recordingTx) Batch(b *engine.Batch, rows []engine.Args, each func(engine.Row) error) (int64, error) {
	tx.noteBatch(b)
	return tx.Tx.Batch(b, rows, each)
}

func (tx recordingTx) Ahead(b *engine.Batch, rows []engine.Args, each func(engine.Row)) error {
	tx.noteBatch(b)
	return tx.Tx.Ahead(b, rows, each)
}

func (tx recordingTx) Defer(b *engine.Batch, rows []engine.Args) error {
	tx.noteBatch(b)
	return tx.Tx.Defer(b, rows)
}

// noteBatch notes the statement that the engine runs for a batch.
func (tx recordingTx) noteBatch(b *engine.Batch) {
	switch {
	case tx.form == Embedded:
		tx.note(b.Embedded)
	case tx.form == Shard && b.Shard != "":
		tx.note(b.Shard)
	default:
		tx.note(b.Server)
	}
}
