package copies

import (
	"errors"
	"slices"
	"strings"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
	"atrium/internal/store/register"
)

// Limits of the rows that one transaction deletes.
const (
	deleteRows  = 500
	deleteBytes = 2 << 20 // unless one row is larger
)

// A Deletion deletes the rows of a tenant in the tables of the register, those that jobs and requests
// look for first. It is used by one goroutine.
type Deletion struct {
	tenant any
	left   []*table
	after  engine.Args // the key of the last deleted row in left[0], nil for none
}

// NewDeletion returns a Deletion for all tables except some.
func NewDeletion(tenant atrium.TenantID, except ...string) *Deletion {
	d := &Deletion{tenant: tenantArg(tenant)}
	data, access, jobs := stages()
	for _, stage := range [][]*table{jobs, access, data} { // rows before those that they refer to
		for _, t := range slices.Backward(stage) {
			if !slices.Contains(except, t.Name) {
				d.left = append(d.left, t)
			}
		}
	}
	return d
}

// Rows are rows that one transaction deletes.
type Rows struct {
	Table string
	sql   string
	args  engine.Args
	last  engine.Args // the key of the last row
}

// Delete deletes the rows, and returns how many there were.
func (r *Rows) Delete(tx engine.Tx) (n int64, err error) { return tx.Exec(r.sql, r.args...) }

// Next returns the next rows, nil at the end. It returns the same until Done is called.
func (d *Deletion) Next(query kernel.QueryFunc) (*Rows, error) {
	for len(d.left) > 0 {
		t := d.left[0]
		sql, args := t.delete.first, engine.Args{d.tenant}
		if d.after != nil {
			sql, args = t.delete.next, append(args, d.after...)
		}
		var last engine.Args
		found, bytes := false, int64(0)
		if err := query(sql, append(slices.Clone(args), int64(deleteRows)), func(r engine.Row) error {
			if bytes += r.Int(len(t.key)); bytes > deleteBytes && found {
				return kernel.ErrPageFull
			}
			found, last = true, last[:0]
			for n, i := range t.key {
				last = append(last, value(r, n, t.copied[i].Type))
			}
			return nil
		}); err != nil && !errors.Is(err, kernel.ErrPageFull) {
			return nil, err
		}
		if found {
			rows := &Rows{Table: t.Name, sql: t.delete.drop, args: append(args, last...), last: last}
			if d.after != nil {
				rows.sql = t.delete.dropNext
			}
			return rows, nil
		}
		d.left, d.after = d.left[1:], nil
	}
	return nil, nil
}

// Done lets Next continue after rows, which were deleted.
func (d *Deletion) Done(rows *Rows) {
	if d.after = rows.last; len(rows.last) == 0 { // the table has one row
		d.left = d.left[1:]
	}
}

// A deletion has the statements of Deletion. The parameters are the tenant, the key after which rows
// are, and the limit of a query or the last key of a DELETE.
type deletion struct {
	first, next    string // select the keys and sizes of rows
	drop, dropNext string
}

func newDeletion(t *register.Table) deletion {
	var sized []string
	for _, c := range t.Columns {
		if c.Type != engine.Int {
			sized = append(sized, c.Name)
		}
	}
	size := kernel.OctetLength(sized...)
	from := " FROM " + t.Name + " WHERE tenant_id = $1"
	if len(t.Key) == 0 {
		return deletion{first: "SELECT " + size + from + " LIMIT $2", drop: "DELETE" + from}
	}
	n := len(t.Key)
	key := strings.Join(t.Key, ", ")
	left, first, second := key, list(2, n), list(2+n, n)
	if n > 1 {
		left, first, second = "("+key+")", "("+first+")", "("+second+")"
	}
	order := " ORDER BY " + key + " LIMIT "
	return deletion{
		first:    "SELECT " + key + ", " + size + from + order + list(2, 1),
		next:     "SELECT " + key + ", " + size + from + " AND " + left + " > " + first + order + list(2+n, 1),
		drop:     "DELETE" + from + " AND " + left + " <= " + first,
		dropNext: "DELETE" + from + " AND " + left + " > " + first + " AND " + left + " <= " + second,
	}
}
