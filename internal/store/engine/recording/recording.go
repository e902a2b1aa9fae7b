// Package recording records the statements that a database runs, for tests.
package recording

import (
	"context"

	"atrium/internal/store/engine"
)

// The forms of a batch's statement.
const (
	Embedded = "embedded" // for an embedded database
	Server   = "server"
	Shard    = "shard" // for a sharded server
)

// New returns a DB that calls note with the text of each statement and then runs it on db. For a
// batch, the text is the statement in the given form. note must be safe for concurrent use.
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

func (tx recordingTx) PipelineQuery(b *engine.Batch, rows []engine.Args, each func(engine.Row)) error {
	tx.noteBatch(b)
	return tx.Tx.PipelineQuery(b, rows, each)
}

func (tx recordingTx) PipelineExec(b *engine.Batch, rows []engine.Args) error {
	tx.noteBatch(b)
	return tx.Tx.PipelineExec(b, rows)
}

// noteBatch records the form of a batch's statement.
func (tx recordingTx) noteBatch(b *engine.Batch) {
	switch {
	case tx.form == Embedded:
		tx.note(b.Embedded)
	case tx.form == Shard && b.Shard != "":
		if insert, n := b.ShardInsert(2); n > 0 {
			tx.note(insert)
			return
		}
		tx.note(b.Shard)
	default:
		tx.note(b.Server)
	}
}
