package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"atrium/internal/store/engine"
)

// A connection is an SQLite connection with its prepared statements and its open transaction. It is
// used by one goroutine at a time.
type connection struct {
	conn       *sqlite.Conn
	statements map[string]*resultRow // by text; bounded, because all texts are constants of the store
	failed     error                 // first error of a statement in the transaction
	ctx        context.Context       // of the current call, nil between calls
	changed    []string              // cache tags that the transaction changes; nil for all
}

// transaction runs f in a read transaction.
func (c *connection) transaction(ctx context.Context, f func(engine.Tx) error) (err error) {
	if _, err := c.Exec("BEGIN"); err != nil {
		return err
	}
	committed := false
	c.failed = nil
	defer func() {
		if !committed && !c.conn.AutocommitEnabled() {
			if _, e := c.Exec("ROLLBACK"); e != nil {
				err = errors.Join(err, e)
			}
		}
	}()
	if err := c.withContext(ctx, func() error { return f(c) }); err != nil {
		return err
	}
	if c.failed != nil {
		return engine.FailedTransaction(c.failed)
	}
	if _, err := c.Exec("COMMIT"); err != nil {
		return err
	}
	committed = true
	return nil
}

func (c *connection) Invalidate(tags ...string) {
	if c.changed == nil {
		c.changed = []string{}
	}
	c.changed = append(c.changed, tags...)
}

// statement returns the prepared statement for sql, ready to bind.
func (c *connection) statement(sql string) (*resultRow, error) {
	if row, ok := c.statements[sql]; ok {
		return row, nil
	}
	stmt, err := c.conn.Prepare(sql)
	if err != nil {
		return nil, classify(fmt.Errorf("prepare %q: %w", sql, err))
	}
	// SQLite treats $1 as a name and numbers names in the order of their first use.
	for i := 1; i <= stmt.BindParamCount(); i++ {
		if want := fmt.Sprintf("$%d", i); stmt.BindParamName(i) != want {
			return nil, fmt.Errorf("parameter %d of %q: got %s, want %s", i, sql, stmt.BindParamName(i), want)
		}
	}
	row := &resultRow{stmt: stmt}
	c.statements[sql] = row
	return row, nil
}

// bind binds the arguments of a statement.
func bind(stmt *sqlite.Stmt, sql string, args engine.Args) error {
	if stmt.BindParamCount() != len(args) {
		return fmt.Errorf("%q: got %d arguments, want %d", sql, len(args), stmt.BindParamCount())
	}
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			stmt.BindText(i+1, v)
		case []byte:
			if v == nil {
				stmt.BindNull(i + 1)
			} else {
				stmt.BindBytes(i+1, v)
			}
		case int64:
			stmt.BindInt64(i+1, v)
		case nil:
			stmt.BindNull(i + 1)
		default:
			return fmt.Errorf("argument %d of %q: unsupported type %T", i+1, sql, arg)
		}
	}
	return nil
}

// withContext calls f. Once ctx has ended, the connection starts no statement and returns no
// further row.
func (c *connection) withContext(ctx context.Context, f func() error) error {
	c.ctx = ctx
	defer func() { c.ctx = nil }()
	return f()
}

func (c *connection) run(sql string, args engine.Args, each func(engine.Row) error) (err error) {
	if err := engine.CheckContext(c.ctx); err != nil {
		c.failed = err
		return err
	}
	row, err := c.statement(sql)
	if err == nil {
		err = bind(row.stmt, sql, args)
	}
	if err != nil {
		c.failed = err
		return err
	}
	defer func() {
		// Reset repeats the error of the step that failed.
		if e := row.stmt.Reset(); e != nil && err == nil {
			err = classify(e)
		}
	}()
	for {
		more, err := row.stmt.Step()
		if err != nil {
			c.failed = classify(err)
			return c.failed
		}
		if !more {
			return nil
		}
		if err := engine.CheckContext(c.ctx); err != nil {
			c.failed = err
			return err
		}
		if each != nil {
			if err := each(row); err != nil {
				return err
			}
		}
	}
}

func (c *connection) Query(sql string, args engine.Args, each func(engine.Row) error) error {
	return c.run(sql, args, each)
}

// Lock is Query: there is only one writer.
func (c *connection) Lock(sql string, args engine.Args, each func(engine.Row) error) error {
	return c.run(sql, args, each)
}

func (c *connection) Exec(sql string, args ...any) (int64, error) {
	if err := c.run(sql, args, nil); err != nil {
		return 0, err
	}
	return int64(c.conn.Changes()), nil
}

func (c *connection) Batch(b *engine.Batch, rows []engine.Args, each func(engine.Row) error) (int64, error) {
	var changed int64
	args := make(engine.Args, len(b.Order))
	for _, row := range rows {
		if len(row) != len(b.Columns) {
			return 0, fmt.Errorf("%q: got %d columns, want %d", b.Embedded, len(row), len(b.Columns))
		}
		for i, column := range b.Order {
			args[i] = row[column]
		}
		if err := c.run(b.Embedded, args, each); err != nil {
			return 0, err
		}
		changed += int64(c.conn.Changes())
	}
	return changed, nil
}

// PipelineQuery runs the batch immediately: there is no round trip to save.
func (c *connection) PipelineQuery(b *engine.Batch, rows []engine.Args, each func(engine.Row)) error {
	_, err := c.Batch(b, rows, func(r engine.Row) error {
		each(r)
		return nil
	})
	return err
}

// PipelineExec runs the batch immediately: there is no round trip to save.
// LockWait does nothing: there is one writer.
func (c *connection) LockWait(time.Duration) {}

func (c *connection) PipelineExec(b *engine.Batch, rows []engine.Args) error {
	_, err := c.Batch(b, rows, nil)
	return err
}

func (c *connection) Script(sql string) error {
	return classify(runScript(c.conn, sql))
}

// A resultRow is a prepared statement and its current row.
type resultRow struct {
	stmt *sqlite.Stmt
	view [64]byte // backs View for short values such as identifiers
}

func (r *resultRow) Null(i int) bool   { return r.stmt.ColumnIsNull(i) }
func (r *resultRow) Int(i int) int64   { return r.stmt.ColumnInt64(i) }
func (r *resultRow) Text(i int) string { return r.stmt.ColumnText(i) }

func (r *resultRow) Bytes(i int) []byte {
	n := r.stmt.ColumnLen(i)
	if n == 0 && r.stmt.ColumnIsNull(i) {
		return nil
	}
	b := make([]byte, n)
	r.stmt.ColumnBytes(i, b)
	return b
}

func (r *resultRow) View(i int) []byte {
	if n := r.stmt.ColumnBytes(i, r.view[:]); n < len(r.view) {
		return r.view[:n]
	}
	return r.Bytes(i)
}

// classify returns err with its class, nil for nil.
func classify(err error) error {
	if err == nil {
		return nil
	}
	class := engine.Internal
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultConstraint:
		class = engine.Conflict
	case sqlite.ResultBusy, sqlite.ResultLocked, sqlite.ResultFull, sqlite.ResultIOErr,
		sqlite.ResultCantOpen, sqlite.ResultReadOnly, sqlite.ResultNoMem, sqlite.ResultInterrupt, sqlite.ResultPerm:
		class = engine.Unavailable
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		class = engine.Corrupt
	}
	return &engine.Error{Class: class, Err: err}
}
