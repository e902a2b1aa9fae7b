package engine

import (
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"
)

// values are the arguments of a statement in the protocol's binary form. Of the
// three types that the store has it is written here directly: they are bytes as
// they are, or eight of them.
type values struct {
	args   [][]byte
	oids   []uint32 // of their types; 0 for a null, which has none
	buffer []byte   // where the args are, if nowhere else; never nil, because an empty text is not null
}

// maxKept is how much memory is kept for the next arguments.
const maxKept = 1 << 20

// release lets go of what the arguments were.
func (v *values) release() {
	clear(v.args)
	if cap(v.buffer) > maxKept {
		v.buffer = make([]byte, 0, 512)
	}
}

// setArgs makes args the arguments.
func (v *values) setArgs(args Args) error {
	v.reset()
	for i, arg := range args {
		if err := v.bind(arg); err != nil {
			return fmt.Errorf("argument %d: %w", i+1, err)
		}
	}
	return nil
}

// setRows makes the columns of rows the arguments: the first so many as the first
// row has them, since all rows have the same, and the others as arrays.
func (v *values) setRows(columns []Column, rows []Args, single int) error {
	v.reset()
	for i, column := range columns {
		var err error
		if i < single {
			err = v.bind(rows[0][i])
		} else {
			err = v.bindArray(column.Type, rows, i)
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", column.Name, err)
		}
	}
	return nil
}

// reset forgets the arguments of the statement before.
func (v *values) reset() {
	v.args, v.oids, v.buffer = v.args[:0], v.oids[:0], v.buffer[:0]
}

// bind adds an argument.
func (v *values) bind(arg any) error {
	switch a := arg.(type) {
	case string:
		start := len(v.buffer)
		v.buffer = append(v.buffer, a...)
		v.add(pgtype.TextOID, v.buffer[start:len(v.buffer):len(v.buffer)])
	case []byte:
		v.add(pgtype.ByteaOID, a)
	case int64:
		start := len(v.buffer)
		v.buffer = binary.BigEndian.AppendUint64(v.buffer, uint64(a))
		v.add(pgtype.Int8OID, v.buffer[start:len(v.buffer):len(v.buffer)])
	case nil:
		v.add(0, nil) // of whatever type the statement has there
	default:
		return fmt.Errorf("a %T", arg)
	}
	return nil
}

func (v *values) add(oid uint32, value []byte) {
	v.oids = append(v.oids, oid)
	v.args = append(v.args, value)
}

// bindArray adds a column of rows as an array, in its binary form: how many
// dimensions it has, whether there are nulls, the type of its elements, its
// length and first index, and the elements, each after its length.
func (v *values) bindArray(t Type, rows []Args, column int) error {
	array, element := uint32(pgtype.TextArrayOID), uint32(pgtype.TextOID)
	switch t {
	case Int:
		array, element = pgtype.Int8ArrayOID, pgtype.Int8OID
	case Bytes:
		array, element = pgtype.ByteaArrayOID, pgtype.ByteaOID
	case Text:
	}
	start := len(v.buffer)
	b := v.buffer
	for _, n := range []uint32{1, 1, element, uint32(len(rows)), 1} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	for _, row := range rows {
		if column >= len(row) {
			return fmt.Errorf("a row has %d columns", len(row))
		}
		var kind Type
		switch a := row[column].(type) {
		case string:
			kind, b = Text, append(binary.BigEndian.AppendUint32(b, uint32(len(a))), a...)
		case []byte:
			kind = Bytes
			if a == nil {
				b = binary.BigEndian.AppendUint32(b, null)
				break
			}
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(a))), a...)
		case int64:
			kind, b = Int, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, 8), uint64(a))
		case nil:
			kind, b = t, binary.BigEndian.AppendUint32(b, null)
		}
		if kind != t {
			return fmt.Errorf("a %T", row[column])
		}
	}
	v.buffer = b
	v.add(array, b[start:len(b):len(b)])
	return nil
}

// null stands where the length of a value would.
const null = 1<<32 - 1

type postgresRow struct{ values [][]byte }

func (r postgresRow) Null(i int) bool   { return r.values[i] == nil }
func (r postgresRow) Text(i int) string { return string(r.values[i]) }
func (r postgresRow) View(i int) []byte { return r.values[i] }

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
