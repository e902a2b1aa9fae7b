package store

import (
	"context"
	"errors"
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

// listBytes is how much one page of a list holds, in bytes of texts and documents: with
// the item with which it reaches that, it ends.
const listBytes = 4 << 20

// errFull ends the reading of what has reached listBytes, where there is more.
var errFull = errors.New("the page is full")

// A weighed row counts what is read of it, and of those that were in its place before.
type weighed struct {
	engine.Row
	bytes int
}

func (w *weighed) Text(column int) string {
	text := w.Row.Text(column)
	w.bytes += len(text)
	return text
}

func (w *weighed) Bytes(column int) []byte {
	b := w.Row.Bytes(column)
	w.bytes += len(b)
	return b
}

func (w *weighed) View(column int) []byte {
	b := w.Row.View(column)
	w.bytes += len(b)
	return b
}

// list returns up to limit, and about listBytes, of what a selection with a limit of
// one more finds, and whether there is more.
func list[T any](ctx context.Context, s *Store, q *selection, limit int, scan func(engine.Row) T) (found []T, more bool, err error) {
	found = make([]T, 0, limit)
	w := &weighed{}
	err = s.query(ctx, q.sql.String(), q.args, func(r engine.Row) error {
		if more = len(found) == limit || w.bytes >= listBytes; more {
			return errFull
		}
		w.Row = r
		found = append(found, scan(w))
		return nil
	})
	if errors.Is(err, errFull) {
		err = nil
	}
	return found, more, err
}

// scanLimit is how many rows one page of a list reads at most where no index serves
// its filter.
const scanLimit = 1000

// sift is list for a filter that no index serves: of a selection with a limit of
// scanLimit and one more it returns up to limit, and about listBytes, that keep takes,
// and the position of the last one that it has looked at, nil at the end of the list.
// What a row stands for in the list may be more than is read of it: scan adds that to
// what the row weighs.
func sift[T any](ctx context.Context, s *Store, q *selection, limit int, scan func(*weighed) T, keep func(T) bool, position func(T) *atrium.Position) (found []T, next *atrium.Position, err error) {
	found = make([]T, 0, limit)
	var last *atrium.Position
	looked, bytes, w := 0, 0, &weighed{}
	err = s.query(ctx, q.sql.String(), q.args, func(r engine.Row) error {
		if looked == scanLimit || len(found) == limit || bytes >= listBytes {
			next = last
			return errFull
		}
		looked++
		*w = weighed{Row: r}
		v := scan(w)
		last = position(v)
		if keep(v) {
			found = append(found, v)
			bytes += w.bytes
		}
		return nil
	})
	if errors.Is(err, errFull) {
		err = nil
	}
	return found, next, err
}

// param returns the nth parameter of a statement.
func param(n int) string { return "$" + strconv.Itoa(n) }
