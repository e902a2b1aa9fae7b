package engine

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Batch is a statement over a relation named batch, whose rows the caller provides. Each engine
// has its own efficient form: an embedded database runs the statement once per row, a server gets
// all rows in one round trip, and a sharded server needs the tenant as a separate parameter. All
// forms derive from one statement.
type Batch struct {
	Columns []Column

	Embedded string // takes one row as $1, $2, …, numbered in the order of first use
	Order    []int  // the column index of each parameter of Embedded

	Server string // takes one array per column
	Shard  string // takes the tenant and one array per other column; "" without a tenant column

	inserts []func() string // of ShardInsert
}

// Share makes b, a SELECT, lock its rows of a table, given by its alias: until the transaction
// ends, no other one deletes them or locks them with Tx.Lock. Other transactions can share the
// lock. Rows are locked in the order of columns, given as in ORDER BY, which should never change, so
// that transactions do not deadlock. It does nothing on an embedded database, which has a single
// writer.
func (b *Batch) Share(alias, columns string) *Batch { return b.lock("KEY SHARE", alias, columns) }

// Lock is Share with a lock that cannot be shared, as that of Tx.Lock.
func (b *Batch) Lock(alias, columns string) *Batch { return b.lock("UPDATE", alias, columns) }

func (b *Batch) lock(strength, alias, columns string) *Batch {
	clause := " ORDER BY " + columns + " FOR " + strength + " OF " + alias
	b.Server += clause
	if b.Shard != "" {
		b.Shard += clause
	}
	return b
}

// A Column is a column of a batch.
type Column struct {
	Name string
	Type Type
}

// A Type is the type of a column of a batch.
type Type string

// The types, by their PostgreSQL names.
const (
	Text  Type = "text"
	Int   Type = "bigint"
	Bytes Type = "bytea"
)

// TenantColumn is the column by which data is sharded.
const TenantColumn = "tenant_id"

var batchColumn = regexp.MustCompile(`\bbatch\.(\w+)`)

// NewBatch returns a batch with columns given as "name type" and the statement body: a SELECT, an
// INSERT … SELECT (with WHERE true before ON CONFLICT), an UPDATE or a DELETE. body contains FROM
// batch exactly once, or USING batch if it is a DELETE. It must qualify a column as batch.name if
// the column is the tenant, and everywhere in an UPDATE or DELETE. A column tenant_id comes first.
//
// NewBatch panics if body or columns break these rules: batches are created at program start.
func NewBatch(body string, columns ...string) *Batch {
	b := &Batch{}
	for _, c := range columns {
		name, kind, _ := strings.Cut(c, " ")
		if t := Type(kind); t != Text && t != Int && t != Bytes {
			panic(fmt.Sprintf("engine: batch column %q: unknown type", c)) //nolint:forbidigo // a constant of the store
		}
		b.Columns = append(b.Columns, Column{name, Type(kind)})
	}
	from := "FROM "
	if strings.HasPrefix(body, "DELETE") {
		from = "USING "
	}
	if strings.Count(body, from+"batch") != 1 {
		panic(fmt.Sprintf("engine: %q must contain %sbatch once", body, from)) //nolint:forbidigo // a constant of the store
	}
	b.embed(body, from)
	b.Server = strings.Replace(body, from+"batch", from+relation(b.Columns, 1), 1)
	if b.Columns[0].Name == TenantColumn {
		rest := relation(b.Columns[1:], 2)
		if len(b.Columns) == 1 {
			rest = "(SELECT 1) AS batch"
		}
		b.Shard = strings.Replace(body, from+"batch", from+rest, 1)
		b.Shard = batchColumn.ReplaceAllStringFunc(b.Shard, func(column string) string {
			if column == "batch."+TenantColumn {
				return "$1::" + string(b.Columns[0].Type)
			}
			return column
		})
		if !strings.Contains(b.Shard, "$1") {
			panic(fmt.Sprintf("engine: %q must contain batch.tenant_id", body)) //nolint:forbidigo // a constant of the store
		}
		b.inserts = b.shardInserts(body)
	}
	return b
}

// relation returns a FROM item that unnests one array parameter per column, numbered from first.
func relation(columns []Column, first int) string {
	arrays, names := make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		arrays[i], names[i] = fmt.Sprintf("$%d::%s[]", first+i, c.Type), c.Name
	}
	return fmt.Sprintf("unnest(%s) AS batch(%s)", strings.Join(arrays, ", "), strings.Join(names, ", "))
}

// insertBatch matches an INSERT whose only source is batch. Its groups are the text before the
// values, the values, and the text after them.
var insertBatch = regexp.MustCompile(`(?s)^(INSERT .*\S)\s+SELECT (.*)\s+FROM batch(?: WHERE true|$)(.*)$`)

// embed builds the statement for one row. SQLite materializes a joined one-row relation unless a
// CROSS JOIN forces it to be the outer loop. INSERT … SELECT from such a relation copies the row,
// and an UPDATE that joins one takes several times as long as an UPDATE with parameters. DELETE
// does not support joins. So all three use parameters instead.
func (b *Batch) embed(body, from string) {
	switch m := insertBatch.FindStringSubmatch(body); {
	case m != nil:
		b.Embedded = m[1] + " VALUES (" + b.withParameters(m[2], unqualifiedColumn) + ")" + m[3]
	case strings.HasPrefix(body, "UPDATE"), strings.HasPrefix(body, "DELETE"):
		b.Embedded = b.withParameters(strings.Replace(body, from+"batch", "", 1), batchColumn)
	default:
		names, params := make([]string, len(b.Columns)), make([]string, len(b.Columns))
		for i, c := range b.Columns {
			names[i], params[i] = c.Name, "$"+strconv.Itoa(i+1)
			b.Order = append(b.Order, i)
		}
		body = strings.Replace(body, "FROM batch JOIN ", "FROM batch CROSS JOIN ", 1)
		b.Embedded = fmt.Sprintf("WITH batch(%s) AS (VALUES (%s))\n%s",
			strings.Join(names, ", "), strings.Join(params, ", "), body)
	}
}

// unqualifiedColumn matches column names in an expression that refers to no other relation.
var unqualifiedColumn = regexp.MustCompile(`\b(?:batch\.)?([a-z_]+)`)

// withParameters replaces each batch column that pattern matches in text with its parameter.
func (b *Batch) withParameters(text string, pattern *regexp.Regexp) string {
	return pattern.ReplaceAllStringFunc(text, func(found string) string {
		name, qualified := strings.CutPrefix(found, "batch.")
		i := slices.IndexFunc(b.Columns, func(c Column) bool { return c.Name == name })
		switch {
		case i < 0 && !qualified:
			return found
		case i < 0:
			panic(fmt.Sprintf("engine: unknown batch column %s in %q", found, text)) //nolint:forbidigo // a constant of the store
		case !slices.Contains(b.Order, i):
			b.Order = append(b.Order, i)
		}
		return "$" + strconv.Itoa(slices.Index(b.Order, i)+1)
	})
}
