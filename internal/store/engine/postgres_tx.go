package engine

import "errors"

// transaction runs f between begin and COMMIT or ROLLBACK. begin goes with the
// first statement.
func (c *postgresConn) transaction(begin string, f func(Tx) error) (err error) {
	c.held = append(c.held, &step{sql: begin})
	defer func() {
		if !c.pg.IsClosed() && c.pg.TxStatus() != 'I' {
			c.held = nil
			_ = c.Script("ROLLBACK") // else the pool drops the connection
		}
	}()
	if err := f(c); err != nil {
		return err
	}
	switch {
	case c.failed != nil:
		return errFailed(c.failed)
	case c.pg.TxStatus() == 'E':
		return errFailed(errors.New("which one is not known"))
	case c.pg.TxStatus() == 'I' && len(c.held) == 1:
		return nil // nothing was done
	}
	return c.commit()
}

// commit runs what is held, and COMMIT.
func (c *postgresConn) commit() error {
	commit := &step{sql: "COMMIT"}
	_, err := c.exchange(commit)
	switch {
	case err == nil && commit.tag.String() != "COMMIT":
		return errFailed(errors.New("which one is not known"))
	case err == nil, !c.writes && undecided(err):
		return nil // what was read is right, however the transaction ends
	case !c.sent, !undecided(err):
		return err
	}
	return &Error{Uncertain, err}
}

func (c *postgresConn) Query(sql string, args Args, each func(Row) error) error {
	_, err := c.run(sql, args, each)
	return err
}

func (c *postgresConn) Lock(sql string, args Args, each func(Row) error) error {
	_, err := c.run(sql+" FOR UPDATE", args, each)
	return err
}

func (c *postgresConn) Exec(sql string, args ...any) (int64, error) {
	return c.run(sql, args, nil)
}

func (c *postgresConn) run(sql string, args Args, each func(Row) error) (changed int64, err error) {
	return c.execute(&step{sql: sql, set: func(v *values) error { return v.setArgs(args) }, each: each})
}

func (c *postgresConn) execute(s *step) (changed int64, err error) {
	if err := ended(c.caller); err != nil && c.failed == nil {
		c.failed = err
		return 0, err
	}
	if _, err := c.exchange(s); err != nil {
		return 0, err
	}
	return s.tag.RowsAffected(), s.err
}

func (c *postgresConn) Batch(b *Batch, rows []Args, each func(Row) error) (changed int64, err error) {
	for _, s := range c.steps(b, rows, each) {
		n, err := c.execute(s)
		if err != nil {
			return 0, err
		}
		changed += n
	}
	return changed, nil
}

func (c *postgresConn) Ahead(b *Batch, rows []Args, each func(Row)) error {
	c.held = append(c.held, c.steps(b, rows, func(r Row) error {
		each(r)
		return nil
	})...)
	return nil
}

func (c *postgresConn) Defer(b *Batch, rows []Args) error {
	c.held = append(c.held, c.steps(b, rows, nil)...)
	return nil
}

// steps returns the statements of a batch: one for all rows, or one for each tenant.
func (c *postgresConn) steps(b *Batch, rows []Args, each func(Row) error) (steps []*step) {
	if len(rows) == 0 {
		return nil
	}
	if !c.sharded || b.shard == "" {
		return []*step{{sql: b.server, set: func(v *values) error { return v.setRows(b.columns, rows, 0) }, each: each}}
	}
	for _, ofTenant := range byTenant(rows) {
		steps = append(steps, &step{sql: b.shard, set: func(v *values) error { return v.setRows(b.columns, ofTenant, 1) }, each: each})
	}
	return steps
}

// byTenant groups rows by their first column.
func byTenant(rows []Args) (groups [][]Args) {
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

func (c *postgresConn) Changes(...string) {}

// Script uses the simple protocol, which takes several statements at once.
func (c *postgresConn) Script(sql string) error {
	if len(c.held) > 0 {
		if _, err := c.exchange(); err != nil {
			return err
		}
	}
	if err := c.arm(); err != nil {
		return err
	}
	_, err := c.pg.Exec(c.ctx, sql).ReadAll()
	return postgresError(err)
}
