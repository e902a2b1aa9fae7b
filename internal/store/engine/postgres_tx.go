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
//
// It speaks the protocol's binary format by itself, of the three types that the
// store has: they are bytes as they are, or eight of them.
type postgresConn struct {
	pg       *pgconn.PgConn
	prepared map[string]*pgconn.StatementDescription // by their text; nil where none are kept
	timeout  time.Duration                           // of a statement; 0 for none
	ctx      context.Context                         // of a statement; unwatched unless there is no deadline

	// Of the current use.
	until   time.Time // when it must be over; zero for never
	sharded bool
	writes  bool
	rows    bool // some have been handed out

	values [][]byte // of the parameters, and where they are kept
	oids   []uint32
	buffer []byte
}

// begin makes the connection ready for a use that ends with ctx.
func (c *postgresConn) begin(ctx context.Context, sharded bool) {
	c.until, _ = ctx.Deadline()
	c.sharded, c.writes, c.rows = sharded, false, false
	if c.buffer == nil {
		c.buffer = make([]byte, 0, 512) // never nil: an empty text is not null
	}
}

func (c *postgresConn) end() {
	if !c.pg.IsClosed() {
		_ = c.pg.Conn().SetDeadline(time.Time{}) // the next use of it finds a fault by itself
	}
	if cap(c.buffer) > maxKept {
		c.buffer = nil
	}
	clear(c.values)
}

// maxKept is how much memory a connection keeps for its next arguments.
const maxKept = 1 << 20

// arm sets the deadline of the statement that follows.
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

// transaction runs f between begin and COMMIT or ROLLBACK.
func (c *postgresConn) transaction(begin string, f func(Tx) error) (err error) {
	if err := c.Script(begin); err != nil {
		return err
	}
	done := false
	defer func() {
		if !done && !c.pg.IsClosed() {
			_ = c.Script("ROLLBACK") // else the pool drops the connection
		}
	}()
	if err := f(c); err != nil {
		return err
	}
	done = true
	return c.commit()
}

func (c *postgresConn) commit() error {
	if err := c.arm(); err != nil {
		return err
	}
	results, err := c.pg.Exec(c.ctx, "COMMIT").ReadAll()
	switch {
	case err != nil && undecided(err) && c.writes:
		return &Error{Uncertain, err}
	case err != nil && undecided(err):
		return nil // what was read is right, however the transaction ends
	case err != nil:
		return postgresError(err)
	case len(results) == 1 && results[0].CommandTag.String() == "ROLLBACK":
		return errFailed(errors.New("which one is not known"))
	}
	return nil
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
	c.reset()
	for i, arg := range args {
		if err := c.bind(arg); err != nil {
			return 0, fmt.Errorf("argument %d of %q: %w", i+1, sql, err)
		}
	}
	return c.execute(sql, each)
}

func (c *postgresConn) Batch(b *Batch, rows []Args, each func(Row) error) (changed int64, err error) {
	if !c.sharded || b.shard == "" {
		return c.batch(b.server, b.columns, rows, 0, each)
	}
	for _, ofTenant := range byTenant(rows) {
		n, err := c.batch(b.shard, b.columns, ofTenant, 1, each)
		if err != nil {
			return 0, err
		}
		changed += n
	}
	return changed, nil
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

// batch runs a statement that takes the first so many columns of the first row
// as they are, since all rows have the same, and the others as arrays.
func (c *postgresConn) batch(sql string, columns []Column, rows []Args, single int, each func(Row) error) (int64, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	c.reset()
	for i, column := range columns {
		var err error
		if i < single {
			err = c.bind(rows[0][i])
		} else {
			err = c.bindArray(column.Type, rows, i)
		}
		if err != nil {
			return 0, fmt.Errorf("column %s of %q: %w", column.Name, sql, err)
		}
	}
	return c.execute(sql, each)
}

// Script uses the simple protocol, which takes several statements at once.
func (c *postgresConn) Script(sql string) error {
	if err := c.arm(); err != nil {
		return err
	}
	_, err := c.pg.Exec(c.ctx, sql).ReadAll()
	return postgresError(err)
}

// binaryFormat asks for every value in its binary form.
var binaryFormat = []int16{pgtype.BinaryFormatCode}

// execute runs a statement with the bound arguments.
func (c *postgresConn) execute(sql string, each func(Row) error) (changed int64, err error) {
	if err := c.arm(); err != nil {
		return 0, err
	}
	var r *pgconn.ResultReader
	if c.prepared == nil {
		r = c.pg.ExecParams(c.ctx, sql, c.values, c.oids, binaryFormat, binaryFormat)
	} else {
		statement, err := c.statement(sql)
		if err != nil {
			return 0, err
		}
		r = c.pg.ExecStatement(c.ctx, statement, c.values, binaryFormat, binaryFormat)
	}
	for r.NextRow() {
		if each == nil || err != nil {
			continue // what is left must be read
		}
		c.rows = true
		err = each(postgresRow{r.Values()})
	}
	tag, e := r.Close()
	if e != nil {
		return 0, postgresError(shared(e))
	}
	return tag.RowsAffected(), err
}

// statement returns the prepared statement for sql.
func (c *postgresConn) statement(sql string) (*pgconn.StatementDescription, error) {
	s, ok := c.prepared[sql]
	if !ok {
		var err error
		s, err = c.pg.Prepare(c.ctx, statementName(sql, c.oids), sql, c.oids)
		if err != nil {
			return nil, postgresError(fmt.Errorf("prepare %q: %w", sql, shared(err)))
		}
		c.prepared[sql] = s
	}
	if len(s.ParamOIDs) != len(c.oids) {
		return nil, fmt.Errorf("%d arguments for %q", len(c.oids), sql)
	}
	for i, oid := range c.oids {
		if oid != 0 && oid != s.ParamOIDs[i] {
			return nil, fmt.Errorf("argument %d of %q is not of the type that the statement was prepared for", i+1, sql)
		}
	}
	return s, nil
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

// shared says what to do about a server that has not the statements that the
// connection was given.
func shared(err error) error {
	if state := sqlState(err); state == statementUnknown || state == statementKnown {
		err = fmt.Errorf("a pool shares this connection between transactions, and needs unprepared statements (database-statements): %w", err)
	}
	return err
}

// reset forgets the arguments of the statement before.
func (c *postgresConn) reset() {
	clear(c.values)
	c.values, c.oids, c.buffer = c.values[:0], c.oids[:0], c.buffer[:0]
}

// bind adds an argument.
func (c *postgresConn) bind(arg any) error {
	switch v := arg.(type) {
	case string:
		start := len(c.buffer)
		c.buffer = append(c.buffer, v...)
		c.add(pgtype.TextOID, c.buffer[start:len(c.buffer):len(c.buffer)])
	case []byte:
		c.add(pgtype.ByteaOID, v)
	case int64:
		start := len(c.buffer)
		c.buffer = binary.BigEndian.AppendUint64(c.buffer, uint64(v))
		c.add(pgtype.Int8OID, c.buffer[start:len(c.buffer):len(c.buffer)])
	case nil:
		c.add(0, nil) // of whatever type the statement has there
	default:
		return fmt.Errorf("a %T", arg)
	}
	return nil
}

func (c *postgresConn) add(oid uint32, value []byte) {
	c.oids = append(c.oids, oid)
	c.values = append(c.values, value)
}

// bindArray adds a column of rows as an array, in its binary form: how many
// dimensions it has, whether there are nulls, the type of its elements, its
// length and first index, and the elements, each after its length.
func (c *postgresConn) bindArray(t Type, rows []Args, column int) error {
	array, element := uint32(pgtype.TextArrayOID), uint32(pgtype.TextOID)
	switch t {
	case Int:
		array, element = pgtype.Int8ArrayOID, pgtype.Int8OID
	case Bytes:
		array, element = pgtype.ByteaArrayOID, pgtype.ByteaOID
	case Text:
	}
	start := len(c.buffer)
	b := c.buffer
	for _, n := range []uint32{1, 1, element, uint32(len(rows)), 1} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	for _, row := range rows {
		if column >= len(row) {
			return fmt.Errorf("a row has %d columns", len(row))
		}
		var kind Type
		switch v := row[column].(type) {
		case string:
			kind, b = Text, append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
		case []byte:
			kind = Bytes
			if v == nil {
				b = binary.BigEndian.AppendUint32(b, null)
				break
			}
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
		case int64:
			kind, b = Int, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, 8), uint64(v))
		case nil:
			kind, b = t, binary.BigEndian.AppendUint32(b, null)
		}
		if kind != t {
			return fmt.Errorf("a %T", row[column])
		}
	}
	c.buffer = b
	c.add(array, b[start:len(b):len(b)])
	return nil
}

// null stands where the length of a value would.
const null = 1<<32 - 1

type postgresRow struct{ values [][]byte }

func (r postgresRow) Null(i int) bool   { return r.values[i] == nil }
func (r postgresRow) Text(i int) string { return string(r.values[i]) }

// Int reads what the server has as a bigint or, of a constant, as an integer.
func (r postgresRow) Int(i int) int64 {
	switch v := r.values[i]; len(v) {
	case 8:
		return int64(binary.BigEndian.Uint64(v))
	case 4:
		return int64(int32(binary.BigEndian.Uint32(v)))
	}
	return 0
}

func (r postgresRow) Bytes(i int) []byte {
	if r.values[i] == nil {
		return nil
	}
	return append(make([]byte, 0, len(r.values[i])), r.values[i]...)
}
