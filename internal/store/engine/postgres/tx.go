package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"atrium/internal/store/engine"
)

// A transaction is one use of a connection: a transaction, or queries outside of one.
// Statements are queued and sent in one round trip when a result is needed. One
// goroutine uses it at a time.
type transaction struct {
	conn    *pgx.Conn
	caller  context.Context // after its end no statement begins
	timeout time.Duration   // of a round trip; 0 for until the caller's end
	sharded bool
	writes  bool

	queued *pgx.Batch
	rows   bool  // some rows have been handed out
	failed error // of a statement; no other one is sent
}

// transaction runs f between begin and COMMIT or ROLLBACK. begin is sent with the
// first statement.
func (t *transaction) transaction(begin string, f func(engine.Tx) error) error {
	t.queued.Queue(begin)
	defer func() {
		if !t.conn.IsClosed() && t.conn.PgConn().TxStatus() != 'I' {
			_ = t.exec("ROLLBACK") // else the pool drops the connection
		}
	}()
	if err := f(t); err != nil {
		return err
	}
	switch {
	case t.failed != nil:
		return engine.FailedTransaction(t.failed)
	case t.conn.PgConn().TxStatus() == 'E':
		return engine.FailedTransaction(errors.New("which one is not known"))
	case t.conn.PgConn().TxStatus() == 'I' && t.queued.Len() == 1:
		return nil // nothing was done
	}
	return t.commit()
}

// commit sends COMMIT with what is queued.
func (t *transaction) commit() error {
	var tag pgconn.CommandTag
	t.queued.Queue("COMMIT").Exec(func(ct pgconn.CommandTag) error {
		tag = ct
		return nil
	})
	err := t.send()
	switch {
	case err == nil && tag.String() != "COMMIT":
		return engine.FailedTransaction(errors.New("which one is not known"))
	case err == nil, !t.writes && undecided(err):
		return nil // what was read is right, however the transaction ends
	case isUnsent(err), !undecided(err):
		return err
	}
	return &engine.Error{Class: engine.Uncertain, Err: err}
}

// deadline returns the context of a round trip. The end of the caller's context does not
// cancel it, since that costs the connection; its deadline does.
func (t *transaction) deadline() (context.Context, context.CancelFunc) {
	if t.timeout == 0 {
		return t.caller, func() {}
	}
	until := time.Now().Add(t.timeout)
	if d, ok := t.caller.Deadline(); ok && d.Before(until) {
		until = d
	}
	return context.WithDeadline(context.WithoutCancel(t.caller), until)
}

// send sends what is queued, in one round trip. When a statement fails, those behind it
// are not run.
func (t *transaction) send() error {
	if t.failed != nil {
		return engine.FailedTransaction(t.failed)
	}
	batch := t.queued
	t.queued = &pgx.Batch{}
	ctx, cancel := t.deadline()
	defer cancel()
	t.failed = classified(shared(t.conn.SendBatch(ctx, batch).Close()))
	return t.failed
}

// exec runs a script at once.
func (t *transaction) exec(sql string) error {
	ctx, cancel := t.deadline()
	defer cancel()
	_, err := t.conn.Exec(ctx, sql)
	return classified(err)
}

// A result is that of one or several queued statements.
type result struct {
	done    bool  // all rows have been read
	changed int64 // rows
	err     error // of the func that the rows are handed to
}

// queue queues a statement whose rows are handed to each, nil for none.
func (t *transaction) queue(r *result, sql string, args engine.Args, each func(engine.Row) error) {
	t.queued.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		for each != nil && r.err == nil && rows.Next() {
			t.rows = true
			r.err = each(resultRow{rows.RawValues()})
		}
		rows.Close()
		r.done = rows.Err() == nil
		r.changed += rows.CommandTag().RowsAffected()
		return nil
	})
}

// wait sends what is queued, unless the caller has given up, and returns r.
func (t *transaction) wait(r *result) (changed int64, err error) {
	if err := engine.CheckContext(t.caller); err != nil && t.failed == nil {
		t.failed = err
		return 0, err
	}
	if err := t.send(); err != nil {
		return 0, err
	}
	return r.changed, r.err
}

func (t *transaction) Query(sql string, args engine.Args, each func(engine.Row) error) error {
	_, err := t.run(sql, args, each)
	return err
}

func (t *transaction) Lock(sql string, args engine.Args, each func(engine.Row) error) error {
	_, err := t.run(sql+" FOR UPDATE", args, each)
	return err
}

func (t *transaction) Exec(sql string, args ...any) (int64, error) {
	return t.run(sql, args, nil)
}

func (t *transaction) run(sql string, args engine.Args, each func(engine.Row) error) (changed int64, err error) {
	r := &result{}
	t.queue(r, sql, args, each)
	return t.wait(r)
}

func (t *transaction) Batch(b *engine.Batch, rows []engine.Args, each func(engine.Row) error) (changed int64, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	r, err := t.queueBatch(b, rows, each)
	if err != nil {
		return 0, err
	}
	return t.wait(r)
}

func (t *transaction) Ahead(b *engine.Batch, rows []engine.Args, each func(engine.Row)) error {
	_, err := t.queueBatch(b, rows, func(r engine.Row) error {
		each(r)
		return nil
	})
	return err
}

func (t *transaction) Defer(b *engine.Batch, rows []engine.Args) error {
	_, err := t.queueBatch(b, rows, nil)
	return err
}

// queueBatch queues the statements of a batch: one for all rows, or one for each tenant.
func (t *transaction) queueBatch(b *engine.Batch, rows []engine.Args, each func(engine.Row) error) (*result, error) {
	r := &result{}
	for _, row := range rows {
		if len(row) < len(b.Columns) {
			t.failed = fmt.Errorf("a row of a batch has %d columns", len(row))
			return nil, t.failed
		}
	}
	switch {
	case len(rows) == 0:
	case t.sharded && b.Shard != "":
		for _, ofTenant := range byTenant(rows) {
			t.queue(r, b.Shard, append(engine.Args{ofTenant[0][0]}, arrays(ofTenant, 1, len(b.Columns))...), each)
		}
	default:
		t.queue(r, b.Server, arrays(rows, 0, len(b.Columns)), each)
	}
	return r, nil
}

// arrays returns the columns of rows from one number up to another, each as an array.
func arrays(rows []engine.Args, from, to int) engine.Args {
	columns := make(engine.Args, to-from)
	for i := range columns {
		column := make(pgtype.FlatArray[any], len(rows))
		for n, row := range rows {
			column[n] = row[from+i]
		}
		columns[i] = column
	}
	return columns
}

// byTenant groups rows by their first column.
func byTenant(rows []engine.Args) (groups [][]engine.Args) {
	number := map[string]int{}
	for _, row := range rows {
		tenant, _ := row[0].([]byte)
		n, ok := number[string(tenant)]
		if !ok {
			n = len(groups)
			number[string(tenant)] = n
			groups = append(groups, nil)
		}
		groups[n] = append(groups[n], row)
	}
	return groups
}

func (t *transaction) Changes(...string) {}

// Script uses the simple protocol, which takes several statements at once.
func (t *transaction) Script(sql string) error {
	if t.queued.Len() > 0 {
		if err := t.send(); err != nil {
			return err
		}
	}
	return t.exec(sql)
}

// A resultRow is a row as the server sent it: integers in their binary form, and text
// and bytes, whose form is the value itself.
type resultRow struct{ values [][]byte }

func (r resultRow) Null(i int) bool   { return r.values[i] == nil }
func (r resultRow) Text(i int) string { return string(r.values[i]) }
func (r resultRow) View(i int) []byte { return r.values[i] }

// Int reads a bigint or, for a constant in a statement, an integer. NULL is 0, as in SQLite.
func (r resultRow) Int(i int) int64 {
	switch v := r.values[i]; len(v) {
	case 0:
		return 0
	case 4:
		return int64(int32(binary.BigEndian.Uint32(v)))
	case 8:
		return int64(binary.BigEndian.Uint64(v))
	default:
		panic(fmt.Sprintf("postgres: column %d is not an integer: %d bytes", i, len(v))) //nolint:forbidigo // an error in a statement
	}
}

func (r resultRow) Bytes(i int) []byte {
	if r.values[i] == nil {
		return nil
	}
	return append(make([]byte, 0, len(r.values[i])), r.values[i]...)
}
