package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"atrium/internal/store/engine"
)

// A transaction is one use of a connection: a transaction, or queries outside of one. Statements
// are pipelined: they are queued, and sent in one round trip when a result is needed. It is used by
// one goroutine at a time.
type transaction struct {
	conn    *pgx.Conn
	caller  context.Context // no statement is sent after it has ended
	timeout time.Duration   // of a round trip; 0 for no limit but caller's
	sharded bool
	writes  bool

	impatient bool // LockWait was called

	queued   *pgx.Batch
	returned bool  // rows were passed to the caller
	failed   error // first error of a statement; no more statements are sent after it
}

// transaction runs f in a transaction. The statement begin is sent with the first statement of f.
func (t *transaction) transaction(begin string, f func(engine.Tx) error) error {
	t.queued.Queue(begin)
	defer func() {
		if !t.conn.IsClosed() && t.conn.PgConn().TxStatus() != 'I' {
			_ = t.exec("ROLLBACK") // if it fails, the pool closes the connection
		}
	}()
	if err := f(t); err != nil {
		return err
	}
	switch {
	case t.failed != nil:
		return engine.FailedTransaction(t.failed)
	case t.conn.PgConn().TxStatus() == 'E':
		return engine.FailedTransaction(errors.New("unknown statement"))
	case t.conn.PgConn().TxStatus() == 'I' && t.queued.Len() == 1:
		return nil // no statement was queued
	}
	return t.commit()
}

// commit sends COMMIT together with the queued statements.
func (t *transaction) commit() error {
	var tag pgconn.CommandTag
	t.queued.Queue("COMMIT").Exec(func(ct pgconn.CommandTag) error {
		tag = ct
		return nil
	})
	err := t.send()
	switch {
	case err == nil && tag.String() != "COMMIT":
		return engine.FailedTransaction(errors.New("unknown statement"))
	case err == nil, !t.writes && undecided(err):
		return nil // a read-only transaction needs no commit
	case t.sharded && sqlState(err) == "XX000":
		// A coordinator reports it if it cannot tell whether the shard has committed.
	case isUnsent(err), !undecided(err):
		return err
	}
	return &engine.Error{Class: engine.Uncertain, Err: err}
}

// deadline returns the context of a round trip. It has the caller's deadline but not its
// cancellation, because cancellation closes the connection.
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

// send sends the queued statements in one round trip. If one fails, the statements after it do not
// run.
func (t *transaction) send() error {
	if t.failed != nil {
		return engine.FailedTransaction(t.failed)
	}
	batch := t.queued
	t.queued = &pgx.Batch{}
	ctx, cancel := t.deadline()
	defer cancel()
	t.failed = classify(explainPooler(t.conn.SendBatch(ctx, batch).Close()))
	if t.impatient && sqlState(t.failed) == lockNotAvailable {
		t.failed = &engine.Error{Class: engine.Locked, Err: t.failed}
	}
	return t.failed
}

// exec runs a script immediately.
func (t *transaction) exec(sql string) error {
	ctx, cancel := t.deadline()
	defer cancel()
	_, err := t.conn.Exec(ctx, sql)
	return classify(err)
}

// A result is the combined result of one or more queued statements.
type result struct {
	done    bool  // all rows were read
	changed int64 // number of rows changed
	err     error // returned by the row callback
}

// queue queues a statement and passes its rows to each, which may be nil.
func (t *transaction) queue(r *result, sql string, args engine.Args, each func(engine.Row) error) {
	t.queued.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		for each != nil && r.err == nil && rows.Next() {
			t.returned = true
			r.err = each(resultRow{rows.RawValues()})
		}
		rows.Close()
		r.done = rows.Err() == nil
		r.changed += rows.CommandTag().RowsAffected()
		return nil
	})
}

// wait sends the queued statements, unless the caller's context has ended, and returns r.
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

func (t *transaction) Batch(b *engine.Batch, rows []engine.Args, each func(engine.Row) error) (int64, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	r, err := t.queueBatch(b, rows, each)
	if err != nil {
		return 0, err
	}
	return t.wait(r)
}

func (t *transaction) PipelineQuery(b *engine.Batch, rows []engine.Args, each func(engine.Row)) error {
	_, err := t.queueBatch(b, rows, func(r engine.Row) error {
		each(r)
		return nil
	})
	return err
}

func (t *transaction) PipelineExec(b *engine.Batch, rows []engine.Args) error {
	_, err := t.queueBatch(b, rows, nil)
	return err
}

// queueBatch queues one statement for all rows of a batch, or one per tenant if the database is
// sharded.
func (t *transaction) queueBatch(b *engine.Batch, rows []engine.Args, each func(engine.Row) error) (*result, error) {
	r := &result{}
	for _, row := range rows {
		if len(row) < len(b.Columns) {
			t.failed = fmt.Errorf("batch row: got %d columns, want %d", len(row), len(b.Columns))
			return nil, t.failed
		}
	}
	switch {
	case len(rows) == 0:
	case t.sharded && b.Shard != "":
		for _, group := range byTenant(rows) {
			t.queueGroup(r, b, group, each)
		}
	default:
		t.queue(r, b.Server, arrays(rows, 0, len(b.Columns)), each)
	}
	return r, nil
}

// queueGroup queues the statements for rows of one tenant on a sharded database.
func (t *transaction) queueGroup(r *result, b *engine.Batch, rows []engine.Args, each func(engine.Row) error) {
	tenant := engine.Args{rows[0][0]}
	if _, n := b.ShardInsert(len(rows)); n == 0 {
		t.queue(r, b.Shard, append(tenant, arrays(rows, 1, len(b.Columns))...), each)
		return
	}
	for len(rows) > 0 {
		sql, n := b.ShardInsert(len(rows))
		args := slices.Clone(tenant)
		for _, row := range rows[:n] {
			args = append(args, row[1:len(b.Columns)]...)
		}
		t.queue(r, sql, args, each)
		rows = rows[n:]
	}
}

// arrays returns the columns [from, to) of rows, each as an array.
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
	index := map[string]int{}
	for _, row := range rows {
		tenant, _ := row[0].([]byte)
		n, ok := index[string(tenant)]
		if !ok {
			n = len(groups)
			index[string(tenant)] = n
			groups = append(groups, nil)
		}
		groups[n] = append(groups[n], row)
	}
	return groups
}

func (t *transaction) LockWait(limit time.Duration) {
	t.impatient = true
	t.queued.Queue(fmt.Sprintf("SET LOCAL lock_timeout = %d", limit.Milliseconds()))
}

func (t *transaction) Invalidate(...string) {}

// Script sends one query for each statement. For some statements on a distributed table, such as CREATE
// INDEX, Citus forwards the text of the whole query to its workers, which fails if it has several statements.
func (t *transaction) Script(sql string) error {
	if t.queued.Len() > 0 {
		if err := t.send(); err != nil {
			return err
		}
	}
	for _, statement := range statementsOf(sql) {
		if err := t.exec(statement); err != nil {
			return err
		}
	}
	return nil
}

// statementsOf splits a script after semicolons at the ends of lines, where a comment may follow, but not
// between $$ and $$.
func statementsOf(script string) (all []string) {
	var statement strings.Builder
	quoted := false
	for line := range strings.Lines(script) {
		statement.WriteString(line)
		code, _, _ := strings.Cut(line, "--")
		if strings.Count(code, "$$")%2 == 1 {
			quoted = !quoted
		}
		if !quoted && strings.HasSuffix(strings.TrimSpace(code), ";") {
			all = append(all, statement.String())
			statement.Reset()
		}
	}
	if strings.TrimSpace(statement.String()) != "" {
		all = append(all, statement.String())
	}
	return all
}

// A resultRow is a row in the server's wire format: integers in binary, and text and bytes as the
// value itself.
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
		panic(fmt.Sprintf("postgres: column %d: %d bytes, not an integer", i, len(v))) //nolint:forbidigo // invalid statement
	}
}

func (r resultRow) Bytes(i int) []byte {
	if r.values[i] == nil {
		return nil
	}
	return append(make([]byte, 0, len(r.values[i])), r.values[i]...)
}
