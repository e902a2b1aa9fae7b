package store

import (
	"context"
	"strconv"
	"strings"

	"atrium"
	"atrium/internal/store/engine"
)

// A selection is a statement that is put together, with its arguments.
type selection struct {
	sql  strings.Builder
	args engine.Args
}

// selecting returns a selection that begins with sql and an argument behind it.
func selecting(sql string, arg any) *selection {
	q := &selection{}
	q.add(sql, arg)
	return q
}

// add appends sql and an argument behind it.
func (q *selection) add(sql string, arg any) {
	q.args = append(q.args, arg)
	q.sql.WriteString(sql)
	q.sql.WriteString(param(len(q.args)))
}

// after leaves out all up to a position, nil for none, of a list that is ordered by
// two columns, both descending.
func (q *selection) after(key, id string, p *atrium.Position) {
	if p == nil {
		return
	}
	q.add(" AND ("+key+", "+id+") < (", p.Key)
	q.add(", ", packed(p.ID))
	q.sql.WriteString(")")
}

// list returns up to limit of what a selection with a limit of one more finds, and
// whether there is more.
func list[T any](ctx context.Context, s *Store, q *selection, limit int, scan func(engine.Row) T) (found []T, more bool, err error) {
	found = make([]T, 0, limit)
	err = s.query(ctx, q.sql.String(), q.args, func(r engine.Row) error {
		if more = len(found) == limit; !more {
			found = append(found, scan(r))
		}
		return nil
	})
	return found, more, err
}

// scanLimit is how many rows one page of a list reads at most where no index serves
// its filter.
const scanLimit = 1000

// sift is list for a filter that no index serves: of a selection with a limit of
// scanLimit and one more it returns up to limit that keep takes, and the position of
// the last one that it has looked at, nil at the end of the list.
func sift[T any](ctx context.Context, s *Store, q *selection, limit int, scan func(engine.Row) T, keep func(T) bool, position func(T) *atrium.Position) (found []T, next *atrium.Position, err error) {
	found = make([]T, 0, limit)
	var last *atrium.Position
	looked := 0
	err = s.query(ctx, q.sql.String(), q.args, func(r engine.Row) error {
		if next != nil {
			return nil
		}
		if looked == scanLimit || len(found) == limit {
			next = last
			return nil
		}
		looked++
		v := scan(r)
		last = position(v)
		if keep(v) {
			found = append(found, v)
		}
		return nil
	})
	return found, next, err
}

// param returns the nth parameter of a statement.
func param(n int) string { return "$" + strconv.Itoa(n) }
