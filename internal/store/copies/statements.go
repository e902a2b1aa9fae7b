package copies

import (
	"encoding/binary"
	"errors"
	"hash"
	"strconv"
	"strings"
	"sync"

	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
	"atrium/internal/store/register"
)

// A table has the statements that read and write the rows of a tenant in a table of the register.
type table struct {
	*register.Table
	copied []register.Column // the first is the tenant
	key    []int             // indexes of the columns of the primary key in copied
	expiry int               // index of the column of the expiry in copied, if rows expire
	sealed int               // index of the sealed column in copied, if there is one

	forTenant, forOperators statements
	insert                  *engine.Batch
	rewrap                  string // replaces the sealed value of a row; the parameters are the new one, the tenant, the key and the old one
	delete                  deletion
}

// The statements for the rows of a tenant, or of operators. The parameters are the tenant if there
// is one, the key, and the limit.
type statements struct {
	first string // the first rows
	next  string // the rows after a key
	last  string // the highest key
}

// tables returns all tables, in the order of the register. The first call makes their statements: few
// commands copy.
var tables = sync.OnceValue(func() (all []*table) {
	for _, t := range register.Tables() {
		all = append(all, newTable(t))
	}
	return all
})

func newTable(listed *register.Table) *table {
	t := &table{Table: listed}
	var names, values, specs []string
	indexes := map[string]int{}
	for _, c := range listed.Columns {
		if c.Copying == register.Excluded && listed.Copied() { // otherwise, its rows are only deleted
			continue
		}
		indexes[c.Name] = len(t.copied)
		t.copied = append(t.copied, c)
		names, values, specs = append(names, c.Name), append(values, c.Name), append(specs, c.Name+" "+string(c.Type))
	}
	for _, name := range listed.Key {
		t.key = append(t.key, indexes[name])
	}
	values[0] = "batch." + values[0]
	t.expiry, t.sealed = indexes[listed.Expiry.Column], indexes[listed.Sealed]
	columns := strings.Join(names, ", ")
	t.insert = engine.NewBatch("INSERT INTO "+t.Name+" ("+columns+") SELECT "+strings.Join(values, ", ")+" FROM batch", specs...)

	t.delete = newDeletion(listed)
	if t.Sealed != "" {
		conditions := []string{}
		for i, name := range listed.Key {
			conditions = append(conditions, name+" = $"+strconv.Itoa(i+3)+" AND ")
		}
		t.rewrap = "UPDATE " + t.Name + " SET " + t.Sealed + " = $1 WHERE tenant_id = $2 AND " + strings.Join(conditions, "") + t.Sealed + " = $" + strconv.Itoa(len(t.Key)+3)
	}
	t.forTenant = t.newStatements(columns, "tenant_id = $1", 1)
	t.forOperators = t.newStatements(columns, "tenant_id IS NULL", 0)
	return t
}

// newStatements returns the statements for rows that a condition selects, which has some parameters.
func (t *table) newStatements(columns, condition string, parameters int) statements {
	parameter := func(n int) string { return "$" + strconv.Itoa(parameters+n) }
	from := " FROM " + t.Name + " WHERE " + condition
	if len(t.key) == 0 {
		return statements{first: "SELECT " + columns + from + " LIMIT " + parameter(1), last: "SELECT 1" + from}
	}
	key, position := strings.Join(t.Key, ", "), list(parameters+1, len(t.key))
	left, right := key, position
	if len(t.key) > 1 {
		left, right = "("+key+")", "("+position+")"
	}
	return statements{
		first: "SELECT " + columns + from + " ORDER BY " + key + " LIMIT " + parameter(1),
		next:  "SELECT " + columns + from + " AND " + left + " > " + right + " ORDER BY " + key + " LIMIT " + parameter(len(t.key)+1),
		last:  "SELECT " + key + from + " ORDER BY " + strings.Join(t.Key, " DESC, ") + " DESC LIMIT 1",
	}
}

// list returns n parameters.
func list(first, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = "$" + strconv.Itoa(first+i)
	}
	return strings.Join(all, ", ")
}

// value returns the value of a column of a row, as an argument.
func value(r engine.Row, i int, kind engine.Type) any {
	switch {
	case r.Null(i):
		return nil
	case kind == engine.Int:
		return r.Int(i)
	case kind == engine.Text:
		return r.Text(i)
	default:
		return r.Bytes(i)
	}
}

// scan returns the copied columns of a row, and their size in bytes.
func (t *table) scan(r engine.Row) (row engine.Args, size int) {
	row = make(engine.Args, len(t.copied))
	for i, c := range t.copied {
		row[i] = value(r, i, c.Type)
		switch v := row[i].(type) {
		case string:
			size += len(v)
		case []byte:
			size += len(v)
		default:
			size += 8
		}
	}
	return row, size
}

// keyOf returns the primary key of a row, without the tenant.
func (t *table) keyOf(row engine.Args) (key engine.Args) {
	for _, i := range t.key {
		key = append(key, row[i])
	}
	return key
}

// expires reports whether a row expires until a time in microseconds since 1970.
func (t *table) expires(row engine.Args, until int64) bool {
	if t.Expiry.Column == "" {
		return false
	}
	at, ok := row[t.expiry].(int64) // unless it is null
	return ok && at+t.Expiry.After.Microseconds() <= until
}

// digest writes the compared columns of a row to h. Each value has its type and length before it, so
// that different rows have different encodings.
func (t *table) digest(h hash.Hash, row engine.Args, buffer []byte) []byte {
	buffer = buffer[:0]
	for i, c := range t.copied {
		if c.Copying != register.Copied {
			continue
		}
		switch v := row[i].(type) {
		case nil:
			buffer = append(buffer, 'n')
		case int64:
			buffer = binary.BigEndian.AppendUint64(append(buffer, 'i'), uint64(v))
		case string:
			buffer = append(binary.BigEndian.AppendUint64(append(buffer, 't'), uint64(len(v))), v...)
		case []byte:
			buffer = append(binary.BigEndian.AppendUint64(append(buffer, 'b'), uint64(len(v))), v...)
		}
	}
	_, _ = h.Write(buffer) // never fails
	return buffer
}

// Limits of a batch, which is one transaction.
const (
	firstRows  = 4
	batchRows  = 500
	batchBytes = 4 << 20
)

// A reader reads the rows of a tenant, or of operators, in a table, in the order of the primary
// key. Like an export, it asks for few rows first, and then for as many as the last batch had room
// for, because a server sends all rows that a query asks for.
type reader struct {
	query  kernel.QueryFunc
	table  *table
	tenant any         // nil for operators
	after  engine.Args // the key of the last row, nil at the beginning
	limit  int
	done   bool
}

func (t *table) read(query kernel.QueryFunc, tenant any) *reader {
	return &reader{query: query, table: t, tenant: tenant, limit: firstRows}
}

// statementsFor returns the statements for the rows of a tenant, or of operators for nil, and their
// first arguments.
func (t *table) statementsFor(tenant any) (*statements, engine.Args) {
	if tenant == nil {
		return &t.forOperators, nil
	}
	return &t.forTenant, engine.Args{tenant}
}

// next returns the next rows, none at the end.
func (r *reader) next() (rows []engine.Args, err error) {
	if r.done {
		return nil, nil
	}
	s, args := r.table.statementsFor(r.tenant)
	sql := s.first
	if r.after != nil {
		sql, args = s.next, append(args, r.after...)
	}
	size := 0
	err = r.query(sql, append(args, int64(r.limit)), func(row engine.Row) error {
		values, n := r.table.scan(row)
		rows = append(rows, values)
		if size += n; size >= batchBytes {
			return kernel.ErrPageFull
		}
		return nil
	})
	full := errors.Is(err, kernel.ErrPageFull)
	if engine.ClassOf(err) == engine.Unavailable && r.limit > firstRows {
		// If rows are suddenly much larger, the server may take too long to send those beyond the
		// batch.
		r.limit = firstRows
		return r.next()
	}
	if err != nil && !full {
		return nil, err
	}
	r.done = len(rows) < r.limit && !full || len(r.table.key) == 0
	if len(rows) > 0 {
		r.after = r.table.keyOf(rows[len(rows)-1])
	}
	r.limit = min(2*r.limit, batchRows)
	if full {
		r.limit = len(rows)
	}
	return rows, nil
}

// resume lets the reader continue after the highest key that the table has for the tenant in
// another database.
func (r *reader) resume(query kernel.QueryFunc) error {
	s, args := r.table.statementsFor(r.tenant)
	return query(s.last, args, func(row engine.Row) error {
		r.done = len(r.table.key) == 0 // it has one row
		for n, i := range r.table.key {
			r.after = append(r.after, value(row, n, r.table.copied[i].Type))
		}
		return nil
	})
}
