package store

import (
	"context"
	"errors"
	"slices"
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

// A query runs a statement, as engine.Tx.Query does.
type query func(sql string, args engine.Args, each func(engine.Row) error) error

// alone returns a query that is no part of a transaction.
func (s *Store) alone(ctx context.Context) query {
	return func(sql string, args engine.Args, each func(engine.Row) error) error {
		return s.query(ctx, sql, args, each)
	}
}

// list returns up to limit, and about listBytes, of what a selection with a limit of
// one more finds, and whether there is more.
func list[T any](ctx context.Context, s *Store, q *selection, limit int, scan func(engine.Row) T) (found []T, more bool, err error) {
	items, more, err := listItems(s.alone(ctx), q, limit, func(w *weighed) item[T] {
		before := w.bytes
		v := scan(w)
		return item[T]{value: v, bytes: w.bytes - before}
	})
	return values(items), more, err
}

// listItems is list for rows that may be larger than what is read of them.
func listItems[T any](run query, q *selection, limit int, scan func(*weighed) item[T]) (found []item[T], more bool, err error) {
	found = make([]item[T], 0, limit)
	bytes, w := 0, &weighed{}
	err = run(q.sql.String(), q.args, func(r engine.Row) error {
		if more = len(found) == limit || bytes >= listBytes; more {
			return errFull
		}
		w.Row = r
		found = append(found, scan(w))
		bytes += found[len(found)-1].bytes
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
func sift[T any](run query, q *selection, limit int, scan func(*weighed) item[T], keep func(T) bool, position func(T) *atrium.Position) (found []item[T], next *atrium.Position, err error) {
	found = make([]item[T], 0, limit)
	var last *atrium.Position
	looked, bytes, w := 0, 0, &weighed{}
	err = run(q.sql.String(), q.args, func(r engine.Row) error {
		if looked == scanLimit || len(found) == limit || bytes >= listBytes || w.bytes >= listBytes {
			next = last
			return errFull
		}
		looked++
		w.Row = r
		v := scan(w)
		last = position(v.value)
		if keep(v.value) {
			found = append(found, v)
			bytes += v.bytes
		}
		return nil
	})
	if errors.Is(err, errFull) {
		err = nil
	}
	return found, next, err
}

func values[T any](items []item[T]) []T {
	all := make([]T, len(items))
	for i := range items {
		all[i] = items[i].value
	}
	return all
}

// readWhole returns the values of the items that list returns. If some are parts, list
// runs again, in a transaction that also reads these whole, by a batch of tenants and
// identifiers.
func readWhole[T any, ID atrium.Identifier](ctx context.Context, s *Store, tenant atrium.TenantID, list func(query) ([]item[T], error),
	byID *engine.Batch, scan func(engine.Row) T, id func(*T) ID,
) (all []T, err error) {
	items, err := list(s.alone(ctx))
	if err != nil || !slices.ContainsFunc(items, func(i item[T]) bool { return i.part }) {
		return values(items), err
	}
	err = s.read(ctx, func(tx engine.Tx) error {
		items, err := list(tx.Query)
		if err != nil {
			return err
		}
		all, err = whole(tx, tenant, items, byID, scan, id)
		return err
	})
	return all, err
}

// whole returns the values of items, and reads those that are parts again.
func whole[T any, ID atrium.Identifier](tx engine.Tx, tenant atrium.TenantID, items []item[T],
	byID *engine.Batch, scan func(engine.Row) T, id func(*T) ID,
) ([]T, error) {
	all, parts := values(items), map[ID]int{}
	var rows []engine.Args
	for i := range items {
		if items[i].part {
			parts[id(&all[i])] = i
			rows = append(rows, engine.Args{idArg(tenant), idArg(id(&all[i]))})
		}
	}
	if len(rows) == 0 {
		return all, nil
	}
	_, err := tx.Batch(byID, rows, func(r engine.Row) error {
		v := scan(r)
		all[parts[id(&v)]] = v
		return nil
	})
	return all, err
}

// param returns the nth parameter of a statement.
func param(n int) string { return "$" + strconv.Itoa(n) }
