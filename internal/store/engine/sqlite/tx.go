package sqlite

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"atrium/internal/store/engine"
)

// A connection is a connection with its prepared statements, and the
// transaction that is open on it. One goroutine uses it at a time.
type connection struct {
	conn       *sqlite.Conn
	statements map[string]*resultRow // by their text; the texts are constants of the store
	failed     error                 // of a statement of the transaction
	ctx        context.Context       // of the call that uses the connection; nil while there is none
	changed    []string              // the cache tags that the transaction changes; nil for everything
}

// transaction runs f, which only reads, in a transaction.
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
	if err := c.within(ctx, func() error { return f(c) }); err != nil {
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

func (c *connection) Changes(tags ...string) {
	if c.changed == nil {
		c.changed = []string{}
	}
	c.changed = append(c.changed, tags...)
}

// statement returns the prepared statement for sql, ready for its arguments.
func (c *connection) statement(sql string) (*resultRow, error) {
	if row, ok := c.statements[sql]; ok {
		return row, nil
	}
	stmt, err := c.conn.Prepare(sql)
	if err != nil {
		return nil, classified(fmt.Errorf("prepare %q: %w", sql, err))
	}
	// SQLite takes $1 for a name and numbers names as it meets them.
	for i := 1; i <= stmt.BindParamCount(); i++ {
		if want := fmt.Sprintf("$%d", i); stmt.BindParamName(i) != want {
			return nil, fmt.Errorf("parameter %s of %q is not the %dth to be used first", stmt.BindParamName(i), sql, i)
		}
	}
	row := &resultRow{stmt: stmt}
	c.statements[sql] = row
	return row, nil
}

// bind gives a statement its arguments.
func bind(stmt *sqlite.Stmt, sql string, args engine.Args) error {
	if stmt.BindParamCount() != len(args) {
		return fmt.Errorf("%d arguments for %q", len(args), sql)
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
			return fmt.Errorf("argument %d of %q is a %T", i+1, sql, arg)
		}
	}
	return nil
}

// within calls f, none of whose statements runs, or goes on to another row, once ctx
// has ended.
func (c *connection) within(ctx context.Context, f func() error) error {
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
			err = classified(e)
		}
	}()
	for {
		more, err := row.stmt.Step()
		if err != nil {
			c.failed = classified(err)
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

// Lock is Query: who may write is the only one that does.
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
			return 0, fmt.Errorf("%d columns for %q", len(row), b.Embedded)
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

// Ahead runs the batch at once: nothing is saved by waiting.
func (c *connection) Ahead(b *engine.Batch, rows []engine.Args, each func(engine.Row)) error {
	_, err := c.Batch(b, rows, func(r engine.Row) error {
		each(r)
		return nil
	})
	return err
}

// Defer runs the batch at once: nothing is saved by waiting.
func (c *connection) Defer(b *engine.Batch, rows []engine.Args) error {
	_, err := c.Batch(b, rows, nil)
	return err
}

func (c *connection) Script(sql string) error {
	return classified(runScript(c.conn, sql))
}

// A resultRow is a statement and the row at which it is.
type resultRow struct {
	stmt *sqlite.Stmt
	view [64]byte // what View returns of shorter values; that of an identifier is
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

// classified gives err its class; nil stays nil.
func classified(err error) error {
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
