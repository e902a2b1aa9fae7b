package engine

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Batch is a statement over the rows of a relation named batch, whose
// columns the caller gives. Engines differ in how rows reach a statement
// cheaply: an embedded one runs it once for each row, a server gets all of them
// in one round trip, and a sharded one must be told the tenant apart from them.
// The statement is the same.
type Batch struct {
	Columns []Column

	Embedded string // takes a row as $1, $2, …, each first used in that order
	Order    []int  // the column of a row that is each parameter of Embedded

	Server string // takes an array for each column
	Shard  string // takes the tenant and an array for each other column; "" without a tenant
}

// A Column is a column of a batch.
type Column struct {
	Name string
	Type Type
}

// A Type is the type of a column of a batch.
type Type string

// The types, by the names that a server has for them.
const (
	Text  Type = "text"
	Int   Type = "bigint"
	Bytes Type = "bytea"
)

// TenantColumn is the column by which data is sharded.
const TenantColumn = "tenant_id"

var ofBatch = regexp.MustCompile(`\bbatch\.(\w+)`)

// NewBatch returns the batch whose columns are given as "name type" and whose
// statement is body: a SELECT, or an INSERT … SELECT (with WHERE true before ON
// CONFLICT), or an UPDATE, or a DELETE. It has the words FROM batch once, or USING
// batch if it is a DELETE, and names a column as batch.name where it is the tenant's,
// and everywhere in an UPDATE or a DELETE. If there is a column tenant_id it comes
// first.
//
// It panics if a rule is broken: batches are made when the program starts.
func NewBatch(body string, columns ...string) *Batch {
	b := &Batch{}
	for _, c := range columns {
		name, kind, _ := strings.Cut(c, " ")
		if t := Type(kind); t != Text && t != Int && t != Bytes {
			panic(fmt.Sprintf("engine: batch column %q has no known type", c)) //nolint:forbidigo // a constant of the store
		}
		b.Columns = append(b.Columns, Column{name, Type(kind)})
	}
	from := "FROM "
	if strings.HasPrefix(body, "DELETE") {
		from = "USING "
	}
	if strings.Count(body, from+"batch") != 1 {
		panic(fmt.Sprintf("engine: not once %sbatch in %q", from, body)) //nolint:forbidigo // a constant of the store
	}
	b.embed(body, from)
	b.Server = strings.Replace(body, from+"batch", from+relation(b.Columns, 1), 1)
	if b.Columns[0].Name == TenantColumn {
		rest := relation(b.Columns[1:], 2)
		if len(b.Columns) == 1 {
			rest = "(SELECT 1) AS batch"
		}
		b.Shard = strings.Replace(body, from+"batch", from+rest, 1)
		b.Shard = ofBatch.ReplaceAllStringFunc(b.Shard, func(column string) string {
			if column == "batch."+TenantColumn {
				return "$1::" + string(b.Columns[0].Type)
			}
			return column
		})
		if !strings.Contains(b.Shard, "$1") {
			panic(fmt.Sprintf("engine: no batch.tenant_id in %q", body)) //nolint:forbidigo // a constant of the store
		}
	}
	return b
}

// relation returns columns as what unnests arrays, the first of which is the
// parameter of the given number.
func relation(columns []Column, first int) string {
	arrays, names := make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		arrays[i], names[i] = fmt.Sprintf("$%d::%s[]", first+i, c.Type), c.Name
	}
	return fmt.Sprintf("unnest(%s) AS batch(%s)", strings.Join(arrays, ", "), strings.Join(names, ", "))
}

// insertsBatch is an INSERT of what batch alone has: what comes before the values, the
// values, and what comes behind.
var insertsBatch = regexp.MustCompile(`(?s)^(INSERT .*\S)\s+SELECT (.*)\s+FROM batch(?: WHERE true|$)(.*)$`)

// embed makes the statement for one row. Where a relation of one row is joined, SQLite
// makes a table for it, unless it has to read that first, which is what a CROSS JOIN
// tells it. What is inserted from one is copied, and an UPDATE that joins one takes
// several times as long as one whose values are parameters. A DELETE cannot join any.
func (b *Batch) embed(body, from string) {
	switch m := insertsBatch.FindStringSubmatch(body); {
	case m != nil:
		b.Embedded = m[1] + " VALUES (" + b.withParameters(m[2], ofBatchAlone) + ")" + m[3]
	case strings.HasPrefix(body, "UPDATE"), strings.HasPrefix(body, "DELETE"):
		b.Embedded = b.withParameters(strings.Replace(body, from+"batch", "", 1), ofBatch)
	default:
		names, params := make([]string, len(b.Columns)), make([]string, len(b.Columns))
		for i, c := range b.Columns {
			names[i], params[i] = c.Name, "$"+strconv.Itoa(i+1)
			b.Order = append(b.Order, i)
		}
		body = strings.Replace(body, "FROM batch JOIN ", "FROM batch CROSS JOIN ", 1)
		b.Embedded = fmt.Sprintf("WITH batch(%s) AS (VALUES (%s))\n%s", strings.Join(names, ", "), strings.Join(params, ", "), body)
	}
}

// ofBatchAlone finds the columns in an expression that has none of another relation.
var ofBatchAlone = regexp.MustCompile(`\b(?:batch\.)?([a-z_]+)`)

// withParameters replaces the columns that a pattern finds in a text.
func (b *Batch) withParameters(text string, columns *regexp.Regexp) string {
	return columns.ReplaceAllStringFunc(text, func(found string) string {
		name, qualified := strings.CutPrefix(found, "batch.")
		i := slices.IndexFunc(b.Columns, func(c Column) bool { return c.Name == name })
		switch {
		case i < 0 && !qualified:
			return found
		case i < 0:
			panic(fmt.Sprintf("engine: %s is no column of the batch in %q", found, text)) //nolint:forbidigo // a constant of the store
		case !slices.Contains(b.Order, i):
			b.Order = append(b.Order, i)
		}
		return "$" + strconv.Itoa(slices.Index(b.Order, i)+1)
	})
}
