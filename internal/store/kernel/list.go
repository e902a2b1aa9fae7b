package kernel

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"atrium"
	"atrium/internal/store/engine"
)

// A SelectBuilder builds a SELECT statement and its arguments.
type SelectBuilder struct {
	SQL  strings.Builder
	Args engine.Args
}

// Select returns a builder that starts with sql followed by a parameter for arg.
func Select(sql string, arg any) *SelectBuilder {
	q := &SelectBuilder{}
	q.Add(sql, arg)
	return q
}

// Add appends sql followed by a parameter for arg.
func (q *SelectBuilder) Add(sql string, arg any) {
	q.Args = append(q.Args, arg)
	q.SQL.WriteString(sql)
	q.SQL.WriteString(param(len(q.Args)))
}

// After adds a condition for the rows after position p of a list that is sorted by key and id,
// both descending. It adds nothing if p is nil.
func (q *SelectBuilder) After(key, id string, p *atrium.Position) {
	if p == nil {
		return
	}
	q.Add(" AND ("+key+", "+id+") < (", p.Key)
	q.Add(", ", PackID(p.ID))
	q.SQL.WriteString(")")
}

// ListBytes is the size of text and JSON values, in bytes, at which a page ends. The item that
// reaches it is the last on the page.
const ListBytes = 1 << 20

// inlineBytes is the size up to which a text or document is read together with its row. Longer
// ones are read in a second query, only for the items on the page: a database server sends all
// rows of a statement, and the page may have room for only one of them.
const inlineBytes = 4 << 10

// InlineOrNull returns a SQL expression for a column that is NULL if the value is longer than
// inlineBytes.
func InlineOrNull(column string) string {
	return "CASE WHEN octet_length(" + column + ") <= " + strconv.Itoa(inlineBytes) + " THEN " + column + " END"
}

// OctetLength returns a SQL expression for the total size of columns in bytes.
func OctetLength(columns ...string) string {
	lengths := make([]string, len(columns))
	for i, c := range columns {
		lengths[i] = "COALESCE(octet_length(" + c + "), 0)"
	}
	return strings.Join(lengths, " + ")
}

// ErrPageFull ends a query early if it is returned for a row: the page or batch has reached its
// limit.
var ErrPageFull = errors.New("the page is full")

// A SizedRow adds up the bytes of the texts and documents that are read through it. Size
// accumulates across rows.
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
	Value   T
	Bytes   int  // added to the page
	Partial bool // values longer than inlineBytes are missing
}

// Items are the items of a page.
type Items[T any] struct {
	Values  []T
	partial []int // indexes of partial items in Values
	bytes   int
}

func (items *Items[T]) Add(i Item[T]) {
	if i.Partial {
		items.partial = append(items.partial, len(items.Values))
	}
	items.Values = append(items.Values, i.Value)
	items.bytes += i.Bytes
}

// full reports whether the page has reached its limit of items or bytes.
func (items *Items[T]) full(limit int) bool {
	return len(items.Values) == limit || items.bytes >= ListBytes
}

// List returns a page of up to limit items and about ListBytes, and whether more follow. q must
// select up to limit+1 rows.
func List[T any](ctx context.Context, db *DB, q *SelectBuilder, limit int, scan func(engine.Row) T) (found []T, more bool, err error) {
	items, more, err := ListItems(db.OutsideTx(ctx), q, limit, func(w *SizedRow) Item[T] {
		before := w.Size
		v := scan(w)
		return Item[T]{Value: v, Bytes: w.Size - before}
	})
	return items.Values, more, err
}

// ListItems is List for rows that may be partial.
func ListItems[T any](run QueryFunc, q *SelectBuilder, limit int, scan func(*SizedRow) Item[T]) (found Items[T], more bool, err error) {
	found.Values = make([]T, 0, limit)
	w := &SizedRow{}
	err = run(q.SQL.String(), q.Args, func(r engine.Row) error {
		if more = found.full(limit); more {
			return ErrPageFull
		}
		w.Row = r
		found.Add(scan(w))
		return nil
	})
	if errors.Is(err, ErrPageFull) {
		err = nil
	}
	return found, more, err
}

// usualPage is the initial capacity of a page in Filter, which may find far fewer items than limit.
const usualPage = 20

// ScanLimit is the maximum number of rows read for one page if no index serves the filter.
const ScanLimit = 1000

// Filter is ListItems for a filter that no index serves. q must select up to ScanLimit+1 rows.
// Filter returns up to limit items and about ListBytes that pass keep, and the position of the
// last row read, nil at the end of the list.
func Filter[T any](run QueryFunc, q *SelectBuilder, limit int, scan func(*SizedRow) Item[T], keep func(T) bool, position func(T) *atrium.Position) (found Items[T], next *atrium.Position, err error) {
	found.Values = make([]T, 0, min(limit, usualPage))
	var last *atrium.Position
	scanned, w := 0, &SizedRow{}
	err = run(q.SQL.String(), q.Args, func(r engine.Row) error {
		if scanned == ScanLimit || w.Size >= ListBytes || found.full(limit) {
			next = last
			return ErrPageFull
		}
		scanned++
		w.Row = r
		v := scan(w)
		last = position(v.Value)
		if keep(v.Value) {
			found.Add(v)
		}
		return nil
	})
	if errors.Is(err, ErrPageFull) {
		err = nil
	}
	return found, next, err
}

// ListComplete returns the values of the items that list returns. If some are partial, it calls
// list again in a transaction that also reads these completely with byID, a batch of tenants and
// identifiers.
func ListComplete[T any, ID atrium.Identifier](ctx context.Context, db *DB, tenant atrium.TenantID, list func(QueryFunc) (Items[T], error),
	byID *engine.Batch, scan func(engine.Row) T, id func(*T) ID,
) (items []T, err error) {
	found, err := list(db.OutsideTx(ctx))
	if err != nil || len(found.partial) == 0 {
		return found.Values, err
	}
	err = db.Read(ctx, func(tx engine.Tx) error {
		found, err := list(tx.Query)
		if err != nil {
			return err
		}
		items, err = CompleteItems(tx, tenant, found, byID, scan, id)
		return err
	})
	return items, err
}

// CompleteItems returns the values of found, and reads partial ones completely with byID.
func CompleteItems[T any, ID atrium.Identifier](tx engine.Tx, tenant atrium.TenantID, found Items[T],
	byID *engine.Batch, scan func(engine.Row) T, id func(*T) ID,
) ([]T, error) {
	if len(found.partial) == 0 {
		return found.Values, nil
	}
	indexes := make(map[ID]int, len(found.partial))
	rows := make([]engine.Args, len(found.partial))
	for n, i := range found.partial {
		itemID := id(&found.Values[i])
		indexes[itemID], rows[n] = i, engine.Args{IDArg(tenant), IDArg(itemID)}
	}
	_, err := tx.Batch(byID, rows, func(r engine.Row) error {
		v := scan(r)
		found.Values[indexes[id(&v)]] = v
		return nil
	})
	return found.Values, err
}

// param returns the nth parameter of a statement.
func param(n int) string { return "$" + strconv.Itoa(n) }
