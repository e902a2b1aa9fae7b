package kernel

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"atrium"
	"atrium/internal/store/engine"
)

// A Selection is a statement that is put together, with its arguments.
type Selection struct {
	SQL  strings.Builder
	Args engine.Args
}

// Select returns a selection that begins with sql and an argument behind it.
func Select(sql string, arg any) *Selection {
	q := &Selection{}
	q.Add(sql, arg)
	return q
}

// Add appends sql and an argument behind it.
func (q *Selection) Add(sql string, arg any) {
	q.Args = append(q.Args, arg)
	q.SQL.WriteString(sql)
	q.SQL.WriteString(param(len(q.Args)))
}

// After leaves out all up to a position, nil for none, of a list that is ordered by
// two columns, both descending.
func (q *Selection) After(key, id string, p *atrium.Position) {
	if p == nil {
		return
	}
	q.Add(" AND ("+key+", "+id+") < (", p.Key)
	q.Add(", ", Packed(p.ID))
	q.SQL.WriteString(")")
}

// ListBytes is the size at which a page of a list ends, in bytes of its texts and
// documents as they are stored. The item that reaches it is the last one.
const ListBytes = 1 << 20

// inlineBytes is the size up to which a text or a document is read with its row. A longer
// one is read only for an item that is on the page: a server sends all rows that a
// statement finds, and a page may have room for one of them.
const inlineBytes = 4 << 10

// Inline returns SQL for a column that is null where it is longer than inlineBytes.
func Inline(column string) string {
	return "CASE WHEN octet_length(" + column + ") <= " + strconv.Itoa(inlineBytes) + " THEN " + column + " END"
}

// BytesOf returns SQL for how many bytes columns have together.
func BytesOf(columns ...string) string {
	lengths := make([]string, len(columns))
	for i, c := range columns {
		lengths[i] = "COALESCE(octet_length(" + c + "), 0)"
	}
	return strings.Join(lengths, " + ")
}

// ErrFull ends the reading of what has reached ListBytes, where there is more.
var ErrFull = errors.New("the page is full")

// A SizedRow counts the bytes of the texts and documents that are read of it, and of all rows that
// it held before.
type SizedRow struct {
	engine.Row
	Size int
}

func (w *SizedRow) Text(column int) string {
	text := w.Row.Text(column)
	w.Size += len(text)
	return text
}

func (w *SizedRow) Bytes(column int) []byte {
	b := w.Row.Bytes(column)
	w.Size += len(b)
	return b
}

func (w *SizedRow) View(column int) []byte {
	b := w.Row.View(column)
	w.Size += len(b)
	return b
}

// An Item is a row of a list.
type Item[T any] struct {
	Value T
	Bytes int  // that it adds to the page
	Part  bool // it lacks what is longer than inlineBytes
}

// Items are those of a page.
type Items[T any] struct {
	Values []T
	parts  []int // the places of those that are parts
	bytes  int
}

func (all *Items[T]) Add(i Item[T]) {
	if i.Part {
		all.parts = append(all.parts, len(all.Values))
	}
	all.Values = append(all.Values, i.Value)
	all.bytes += i.Bytes
}

// full reports whether the page ends.
func (all *Items[T]) full(limit int) bool { return len(all.Values) == limit || all.bytes >= ListBytes }

// List returns up to limit, and about ListBytes, of what a selection with a limit of
// one more finds, and whether there is more.
func List[T any](ctx context.Context, s *DB, q *Selection, limit int, scan func(engine.Row) T) (found []T, more bool, err error) {
	all, more, err := ListItems(s.NoTx(ctx), q, limit, func(w *SizedRow) Item[T] {
		before := w.Size
		v := scan(w)
		return Item[T]{Value: v, Bytes: w.Size - before}
	})
	return all.Values, more, err
}

// ListItems is list for rows that may be larger than what is read of them.
func ListItems[T any](run Query, q *Selection, limit int, scan func(*SizedRow) Item[T]) (found Items[T], more bool, err error) {
	found.Values = make([]T, 0, limit)
	w := &SizedRow{}
	err = run(q.SQL.String(), q.Args, func(r engine.Row) error {
		if more = found.full(limit); more {
			return ErrFull
		}
		w.Row = r
		found.Add(scan(w))
		return nil
	})
	if errors.Is(err, ErrFull) {
		err = nil
	}
	return found, more, err
}

// ScanLimit is how many rows one page of a list reads at most where no index serves
// its filter.
const ScanLimit = 1000

// Filter is ListItems for a filter that no index serves: of a selection with a limit of
// ScanLimit and one more it returns up to limit, and about ListBytes, that keep takes,
// and the position of the last one that it has looked at, nil at the end of the list.
func Filter[T any](run Query, q *Selection, limit int, scan func(*SizedRow) Item[T], keep func(T) bool, position func(T) *atrium.Position) (found Items[T], next *atrium.Position, err error) {
	found.Values = make([]T, 0, limit)
	var last *atrium.Position
	looked, w := 0, &SizedRow{}
	err = run(q.SQL.String(), q.Args, func(r engine.Row) error {
		if looked == ScanLimit || w.Size >= ListBytes || found.full(limit) {
			next = last
			return ErrFull
		}
		looked++
		w.Row = r
		v := scan(w)
		last = position(v.Value)
		if keep(v.Value) {
			found.Add(v)
		}
		return nil
	})
	if errors.Is(err, ErrFull) {
		err = nil
	}
	return found, next, err
}

// ReadWhole returns the values of the items that list returns. If some are parts, list
// runs again, in a transaction that also reads these whole, by a batch of tenants and
// identifiers.
func ReadWhole[T any, ID atrium.Identifier](ctx context.Context, s *DB, tenant atrium.TenantID, list func(Query) (Items[T], error),
	byID *engine.Batch, scan func(engine.Row) T, id func(*T) ID,
) (all []T, err error) {
	found, err := list(s.NoTx(ctx))
	if err != nil || len(found.parts) == 0 {
		return found.Values, err
	}
	err = s.Read(ctx, func(tx engine.Tx) error {
		found, err := list(tx.Query)
		if err != nil {
			return err
		}
		all, err = Whole(tx, tenant, found, byID, scan, id)
		return err
	})
	return all, err
}

// Whole returns the values of items, and reads those that are parts again.
func Whole[T any, ID atrium.Identifier](tx engine.Tx, tenant atrium.TenantID, found Items[T],
	byID *engine.Batch, scan func(engine.Row) T, id func(*T) ID,
) ([]T, error) {
	if len(found.parts) == 0 {
		return found.Values, nil
	}
	places := make(map[ID]int, len(found.parts))
	rows := make([]engine.Args, len(found.parts))
	for n, i := range found.parts {
		part := id(&found.Values[i])
		places[part], rows[n] = i, engine.Args{IDArg(tenant), IDArg(part)}
	}
	_, err := tx.Batch(byID, rows, func(r engine.Row) error {
		v := scan(r)
		found.Values[places[id(&v)]] = v
		return nil
	})
	return found.Values, err
}

// param returns the nth parameter of a statement.
func param(n int) string { return "$" + strconv.Itoa(n) }
