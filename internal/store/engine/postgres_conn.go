package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// unwatched is the context of every statement that has a deadline: that is on the
// connection, which costs less than a context that is watched.
var unwatched = context.Background()

// A postgresConn is a connection with its prepared statements, and the
// transaction that is open on it. One goroutine uses it at a time.
type postgresConn struct {
	pg       *pgconn.PgConn
	prepared map[string]*pgconn.StatementDescription // by their text; nil where none are kept
	timeout  time.Duration                           // of an exchange; 0 for none
	ctx      context.Context                         // of an exchange; unwatched unless it has no deadline
	values   values
	made     time.Time // the connection was
	replanAt time.Time // when the plans of its statements are made anew; zero for never

	// Of the current use.
	caller  context.Context // after its end no statement is begun
	until   time.Time       // when it must be over; zero for never
	sharded bool
	writes  bool
	rows    bool    // some have been handed out
	held    []*step // what is sent with the next exchange
	sent    bool    // the last exchange was
	failed  error   // of a step, which ends the transaction
}

// begin makes the connection ready for a use that ends with ctx.
func (c *postgresConn) begin(ctx context.Context, sharded bool) {
	c.caller = ctx
	c.until, _ = ctx.Deadline()
	c.sharded, c.writes, c.rows, c.failed = sharded, false, false, nil
	if c.values.buffer == nil {
		c.values.buffer = make([]byte, 0, 512)
	}
}

// replan has the server make the plans of the prepared statements anew, whenever the
// connection has become twice as old. A plan is kept until the server has analyzed the
// tables, which may take minutes; one that was made while they were empty takes any
// index of a tenant for as good as the one of an identifier.
func (c *postgresConn) replan() error {
	now := time.Now()
	if c.replanAt.IsZero() || now.Before(c.replanAt) {
		return nil
	}
	c.replanAt = now.Add(now.Sub(c.made))
	if err := c.arm(); err != nil {
		return err
	}
	_, err := c.pg.Exec(c.ctx, "DISCARD PLANS").ReadAll()
	if sqlState(err) != "" && !c.pg.IsClosed() {
		c.replanAt = time.Time{} // a server that does not know this
		return nil
	}
	return postgresError(shared(err))
}

func (c *postgresConn) end() {
	if !c.pg.IsClosed() {
		_ = c.pg.Conn().SetDeadline(time.Time{}) // the next use of it finds a fault by itself
	}
	c.held = nil
	c.values.release()
}

// arm sets the deadline of the exchange that follows.
func (c *postgresConn) arm() error {
	var deadline time.Time
	if c.timeout > 0 {
		deadline = time.Now().Add(c.timeout)
	}
	if !c.until.IsZero() && (deadline.IsZero() || c.until.Before(deadline)) {
		deadline = c.until
	}
	return postgresError(c.pg.Conn().SetDeadline(deadline))
}

// A step is one statement of an exchange.
type step struct {
	sql  string
	set  func(*values) error // gives the arguments; nil for none
	each func(Row) error     // gets the rows; nil for nobody

	tag pgconn.CommandTag // what the server says that it did
	err error             // of each
}

// binaryFormat asks for every value in its binary form.
var binaryFormat = []int16{pgtype.BinaryFormatCode}

// exchange runs what is held and steps, in one round trip, and returns how many of
// all these are done. When one fails, those behind it are not run. The error is the
// server's or the connection's; what a step's own caller made of its rows is the
// step's. After an error there is no other exchange in this use of the connection.
func (c *postgresConn) exchange(steps ...*step) (done int, err error) {
	if c.failed != nil {
		return 0, errFailed(c.failed)
	}
	defer func() { c.failed = err }()
	if len(c.held) > 0 {
		steps = append(c.held, steps...)
		c.held = nil
	}
	c.sent = false
	if err := c.prepare(steps); err != nil {
		return 0, err
	}
	if err := c.arm(); err != nil {
		return 0, err
	}
	p := c.pg.StartPipeline(c.ctx)
	defer func() { // before a connection goes back it has to have heard all
		if e := p.Close(); err == nil {
			err = postgresError(e)
		}
	}()
	for _, s := range steps {
		if err := c.send(p, s); err != nil {
			return 0, errors.Join(err, p.Sync())
		}
	}
	c.sent = true
	if err := p.Sync(); err != nil {
		return 0, postgresError(err)
	}
	for _, s := range steps {
		results, err := p.GetResults()
		r, ok := results.(*pgconn.ResultReader)
		if err == nil && !ok {
			return done, fmt.Errorf("a %T for %q", results, s.sql)
		}
		if err == nil {
			err = c.take(s, r)
		}
		if err != nil {
			return done, postgresError(shared(err))
		}
		done++
	}
	return done, nil
}

// prepare prepares the statements that are not yet.
func (c *postgresConn) prepare(steps []*step) error {
	if c.prepared == nil {
		return nil
	}
	for _, s := range steps {
		if c.prepared[s.sql] != nil {
			continue
		}
		if err := c.set(s); err != nil {
			return err
		}
		if err := c.arm(); err != nil {
			return err
		}
		oids := c.values.oids
		statement, err := c.pg.Prepare(c.ctx, statementName(s.sql, oids), s.sql, oids)
		if err != nil {
			return postgresError(fmt.Errorf("prepare %q: %w", s.sql, shared(err)))
		}
		c.prepared[s.sql] = statement
	}
	return nil
}

// set makes the arguments of a step those of the connection.
func (c *postgresConn) set(s *step) error {
	c.values.reset()
	if s.set == nil {
		return nil
	}
	if err := s.set(&c.values); err != nil {
		return fmt.Errorf("%q: %w", s.sql, err)
	}
	return nil
}

// send adds a step to what is sent.
func (c *postgresConn) send(p *pgconn.Pipeline, s *step) error {
	if err := c.set(s); err != nil {
		return err
	}
	if c.prepared == nil {
		p.SendQueryParams(s.sql, c.values.args, c.values.oids, binaryFormat, binaryFormat)
		return nil
	}
	statement := c.prepared[s.sql]
	if len(statement.ParamOIDs) != len(c.values.oids) {
		return fmt.Errorf("%d arguments for %q", len(c.values.oids), s.sql)
	}
	for i, oid := range c.values.oids {
		if oid != 0 && oid != statement.ParamOIDs[i] {
			return fmt.Errorf("argument %d of %q is not of the type that the statement was prepared for", i+1, s.sql)
		}
	}
	p.SendQueryStatement(statement, c.values.args, binaryFormat, binaryFormat)
	return nil
}

// take hands out the rows of a step.
func (c *postgresConn) take(s *step, r *pgconn.ResultReader) (err error) {
	for r.NextRow() {
		if s.each != nil && s.err == nil { // what is left must be read
			c.rows = true
			s.err = s.each(postgresRow{r.Values()})
		}
	}
	s.tag, err = r.Close()
	return err
}

// statementName is the same for one statement on every connection, and for no
// other: behind a pool that shares connections, which is a mistake, the server may
// know a name from another client. Then it is of the same statement.
func statementName(sql string, oids []uint32) string {
	text := []byte(sql)
	for _, oid := range oids {
		text = binary.BigEndian.AppendUint32(text, oid)
	}
	sum := sha256.Sum256(text)
	return "atrium_" + hex.EncodeToString(sum[:16])
}
