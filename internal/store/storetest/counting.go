package storetest

import (
	"context"
	"fmt"
	"strings"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

// Counting of the rows and bytes that the store reads.

// A tally counts the rows that were read and their bytes.
type tally struct{ rows, bytes int }

// counting returns the env with a store that counts its reads.
func (e *env) counting() (*env, *tally) {
	read := &tally{}
	other := *e
	other.Store = store.New(countingDB{e.db, read}, e.clock.now)
	return &other, read
}

type countingDB struct {
	engine.DB
	read *tally
}

func (db countingDB) Query(ctx context.Context, sql string, args engine.Args, each func(engine.Row) error) error {
	return db.DB.Query(ctx, sql, args, db.read.count(each))
}

func (db countingDB) Read(ctx context.Context, f func(engine.Tx) error) error {
	return db.DB.Read(ctx, func(tx engine.Tx) error { return f(countingTx{tx, db.read}) })
}

func (db countingDB) Snapshot(ctx context.Context, f func(engine.DB) error) error {
	return db.DB.Snapshot(ctx, func(snapshot engine.DB) error { return f(countingDB{snapshot, db.read}) })
}

type countingTx struct {
	engine.Tx
	read *tally
}

func (tx countingTx) Query(sql string, args engine.Args, each func(engine.Row) error) error {
	return tx.Tx.Query(sql, args, tx.read.count(each))
}

func (tx countingTx) Batch(b *engine.Batch, rows []engine.Args, each func(engine.Row) error) (int64, error) {
	return tx.Tx.Batch(b, rows, tx.read.count(each))
}

func (c *tally) count(each func(engine.Row) error) func(engine.Row) error {
	return func(r engine.Row) error {
		c.rows++
		return each(countingRow{r, c})
	}
}

type countingRow struct {
	engine.Row
	read *tally
}

func (r countingRow) Text(column int) string {
	text := r.Row.Text(column)
	r.read.bytes += len(text)
	return text
}

func (r countingRow) Bytes(column int) []byte {
	b := r.Row.Bytes(column)
	r.read.bytes += len(b)
	return b
}

func (r countingRow) View(column int) []byte {
	b := r.Row.View(column)
	r.read.bytes += len(b)
	return b
}

// writing returns the env with a store that counts the reads of its write transactions, and the
// maximum of one of them.
func (e *env) writing() (*env, *tally) {
	most := &tally{}
	other := *e
	other.Store = store.New(writingDB{e.db, most}, e.clock.now)
	return &other, most
}

type writingDB struct {
	engine.DB
	most *tally
}

func (db writingDB) Write(ctx context.Context, f func(engine.Tx) error) error {
	read := &tally{}
	defer func() { db.most.rows, db.most.bytes = max(db.most.rows, read.rows), max(db.most.bytes, read.bytes) }()
	return db.DB.Write(ctx, func(tx engine.Tx) error { return f(countingTx{tx, read}) })
}

// longDomains creates accounts with domains of a size.
func (e *env) longDomains(t tb, n, size int) (ids []atrium.AccountID) {
	t.Helper()
	for i := range n {
		a := e.newAccount(fmt.Sprintf("a%d %s", i, strings.Repeat("z", size-10)), "")
		e.put(t, a)
		ids = append(ids, a.ID)
	}
	return ids
}
