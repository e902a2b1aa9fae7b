package engine

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"
)

// A sqliteConn is a connection with its prepared statements, and the
// transaction that is open on it. One goroutine uses it at a time.
type sqliteConn struct {
	conn       *sqlite.Conn
	statements map[string]*sqliteRow // by their text; the texts are constants of the store
	failed     error                 // of a statement of the transaction
	ctx        context.Context       // of the call that uses the connection; nil while there is none
	changed    []string              // the cache tags that the transaction changes; nil for everything
}

// transaction runs f, which only reads, in a transaction.
func (c *sqliteConn) transaction(ctx context.Context, f func(Tx) error) (err error) {
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
		return errFailed(c.failed)
	}
	if _, err := c.Exec("COMMIT"); err != nil {
		return err
	}
	committed = true
	return nil
}

func (c *sqliteConn) Changes(tags ...string) {
	if c.changed == nil {
		c.changed = []string{}
	}
	c.changed = append(c.changed, tags...)
}

// statement returns the prepared statement for sql, ready for its arguments.
func (c *sqliteConn) statement(sql string) (*sqliteRow, error) {
	if row, ok := c.statements[sql]; ok {
		return row, nil
	}
	stmt, err := c.conn.Prepare(sql)
	if err != nil {
		return nil, sqliteError(fmt.Errorf("prepare %q: %w", sql, err))
	}
	// SQLite takes $1 for a name and numbers names as it meets them.
	for i := 1; i <= stmt.BindParamCount(); i++ {
		if want := fmt.Sprintf("$%d", i); stmt.BindParamName(i) != want {
			return nil, fmt.Errorf("parameter %s of %q is not the %dth to be used first", stmt.BindParamName(i), sql, i)
		}
	}
	row := &sqliteRow{stmt: stmt}
	c.statements[sql] = row
	return row, nil
}

// bind gives a statement its arguments.
func bind(stmt *sqlite.Stmt, sql string, args Args) error {
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
func (c *sqliteConn) within(ctx context.Context, f func() error) error {
	c.ctx = ctx
	defer func() { c.ctx = nil }()
	return f()
}

func (c *sqliteConn) run(sql string, args Args, each func(Row) error) (err error) {
	if err := ended(c.ctx); err != nil {
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
			err = sqliteError(e)
		}
	}()
	for {
		more, err := row.stmt.Step()
		if err != nil {
			c.failed = sqliteError(err)
			return c.failed
		}
		if !more {
			return nil
		}
		if err := ended(c.ctx); err != nil {
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

func (c *sqliteConn) Query(sql string, args Args, each func(Row) error) error {
	return c.run(sql, args, each)
}

// Lock is Query: who may write is the only one that does.
func (c *sqliteConn) Lock(sql string, args Args, each func(Row) error) error {
	return c.run(sql, args, each)
}

func (c *sqliteConn) Exec(sql string, args ...any) (int64, error) {
	if err := c.run(sql, args, nil); err != nil {
		return 0, err
	}
	return int64(c.conn.Changes()), nil
}

func (c *sqliteConn) Batch(b *Batch, rows []Args, each func(Row) error) (int64, error) {
	var changed int64
	args := make(Args, len(b.order))
	for _, row := range rows {
		if len(row) != len(b.columns) {
			return 0, fmt.Errorf("%d columns for %q", len(row), b.embedded)
		}
		for i, column := range b.order {
			args[i] = row[column]
		}
		if err := c.run(b.embedded, args, each); err != nil {
			return 0, err
		}
		changed += int64(c.conn.Changes())
	}
	return changed, nil
}

// Ahead runs the batch at once: nothing is saved by waiting.
func (c *sqliteConn) Ahead(b *Batch, rows []Args, each func(Row)) error {
	_, err := c.Batch(b, rows, func(r Row) error {
		each(r)
		return nil
	})
	return err
}

// Defer runs the batch at once: nothing is saved by waiting.
func (c *sqliteConn) Defer(b *Batch, rows []Args) error {
	_, err := c.Batch(b, rows, nil)
	return err
}

func (c *sqliteConn) Script(sql string) error {
	return sqliteError(runScript(c.conn, sql))
}

// A sqliteRow is a statement and the row at which it is.
type sqliteRow struct {
	stmt *sqlite.Stmt
	view [64]byte // what View returns of shorter values; that of an identifier is
}

func (r *sqliteRow) Null(i int) bool   { return r.stmt.ColumnIsNull(i) }
func (r *sqliteRow) Int(i int) int64   { return r.stmt.ColumnInt64(i) }
func (r *sqliteRow) Text(i int) string { return r.stmt.ColumnText(i) }

func (r *sqliteRow) Bytes(i int) []byte {
	n := r.stmt.ColumnLen(i)
	if n == 0 && r.stmt.ColumnIsNull(i) {
		return nil
	}
	b := make([]byte, n)
	r.stmt.ColumnBytes(i, b)
	return b
}

func (r *sqliteRow) View(i int) []byte {
	if n := r.stmt.ColumnBytes(i, r.view[:]); n < len(r.view) {
		return r.view[:n]
	}
	return r.Bytes(i)
}

// sqliteError gives err its class; nil stays nil.
func sqliteError(err error) error {
	if err == nil {
		return nil
	}
	class := Internal
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultConstraint:
		class = Conflict
	case sqlite.ResultBusy, sqlite.ResultLocked, sqlite.ResultFull, sqlite.ResultIOErr,
		sqlite.ResultCantOpen, sqlite.ResultReadOnly, sqlite.ResultNoMem, sqlite.ResultInterrupt, sqlite.ResultPerm:
		class = Unavailable
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		class = Corrupt
	}
	return &Error{class, err}
}
