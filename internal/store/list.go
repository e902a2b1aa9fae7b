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

// listBytes is the size at which a page of a list ends, in bytes of its texts and
// documents as they are stored. The item that reaches it is the last one.
const listBytes = 1 << 20

// inlineBytes is the size up to which a text or a document is read with its row. A longer
// one is read only for an item that is on the page: a server sends all rows that a
// statement finds, and a page may have room for one of them.
const inlineBytes = 4 << 10

// inline returns SQL for a column that is null where it is longer than inlineBytes.
func inline(column string) string {
	return "CASE WHEN octet_length(" + column + ") <= " + strconv.Itoa(inlineBytes) + " THEN " + column + " END"
}

// bytesOf returns SQL for how many bytes columns have together.
func bytesOf(columns ...string) string {
	lengths := make([]string, len(columns))
	for i, c := range columns {
		lengths[i] = "COALESCE(octet_length(" + c + "), 0)"
	}
	return strings.Join(lengths, " + ")
}

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

// An item is a row of a list.
type item[T any] struct {
	value T
	bytes int  // that it adds to the page
	part  bool // it lacks what is longer than inlineBytes
}

// items are those of a page.
type items[T any] struct {
	values []T
	parts  []int // the places of those that are parts
	bytes  int
}

func (all *items[T]) add(i item[T]) {
	if i.part {
		all.parts = append(all.parts, len(all.values))
	}
	all.values = append(all.values, i.value)
	all.bytes += i.bytes
}

// full reports whether the page ends.
func (all *items[T]) full(limit int) bool { return len(all.values) == limit || all.bytes >= listBytes }

// list returns up to limit, and about listBytes, of what a selection with a limit of
// one more finds, and whether there is more.
func list[T any](ctx context.Context, s *Store, q *selection, limit int, scan func(engine.Row) T) (found []T, more bool, err error) {
	all, more, err := listItems(s.alone(ctx), q, limit, func(w *weighed) item[T] {
		before := w.bytes
		v := scan(w)
		return item[T]{value: v, bytes: w.bytes - before}
	})
	return all.values, more, err
}

// listItems is list for rows that may be larger than what is read of them.
func listItems[T any](run query, q *selection, limit int, scan func(*weighed) item[T]) (found items[T], more bool, err error) {
	found.values = make([]T, 0, limit)
	w := &weighed{}
	err = run(q.sql.String(), q.args, func(r engine.Row) error {
		if more = found.full(limit); more {
			return errFull
		}
		w.Row = r
		found.add(scan(w))
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

// sift is listItems for a filter that no index serves: of a selection with a limit of
// scanLimit and one more it returns up to limit, and about listBytes, that keep takes,
// and the position of the last one that it has looked at, nil at the end of the list.
func sift[T any](run query, q *selection, limit int, scan func(*weighed) item[T], keep func(T) bool, position func(T) *atrium.Position) (found items[T], next *atrium.Position, err error) {
	found.values = make([]T, 0, limit)
	var last *atrium.Position
	looked, w := 0, &weighed{}
	err = run(q.sql.String(), q.args, func(r engine.Row) error {
		if looked == scanLimit || w.bytes >= listBytes || found.full(limit) {
			next = last
			return errFull
		}
		looked++
		w.Row = r
		v := scan(w)
		last = position(v.value)
		if keep(v.value) {
			found.add(v)
		}
		return nil
	})
	if errors.Is(err, errFull) {
		err = nil
	}
	return found, next, err
}

// readWhole returns the values of the items that list returns. If some are parts, list
// runs again, in a transaction that also reads these whole, by a batch of tenants and
// identifiers.
func readWhole[T any, ID atrium.Identifier](ctx context.Context, s *Store, tenant atrium.TenantID, list func(query) (items[T], error),
	byID *engine.Batch, scan func(engine.Row) T, id func(*T) ID,
) (all []T, err error) {
	found, err := list(s.alone(ctx))
	if err != nil || len(found.parts) == 0 {
		return found.values, err
	}
	err = s.read(ctx, func(tx engine.Tx) error {
		found, err := list(tx.Query)
		if err != nil {
			return err
		}
		all, err = whole(tx, tenant, found, byID, scan, id)
		return err
	})
	return all, err
}

// whole returns the values of items, and reads those that are parts again.
func whole[T any, ID atrium.Identifier](tx engine.Tx, tenant atrium.TenantID, found items[T],
	byID *engine.Batch, scan func(engine.Row) T, id func(*T) ID,
) ([]T, error) {
	if len(found.parts) == 0 {
		return found.values, nil
	}
	places := make(map[ID]int, len(found.parts))
	rows := make([]engine.Args, len(found.parts))
	for n, i := range found.parts {
		part := id(&found.values[i])
		places[part], rows[n] = i, engine.Args{idArg(tenant), idArg(part)}
	}
	_, err := tx.Batch(byID, rows, func(r engine.Row) error {
		v := scan(r)
		found.values[places[id(&v)]] = v
		return nil
	})
	return found.values, err
}

// param returns the nth parameter of a statement.
func param(n int) string { return "$" + strconv.Itoa(n) }
