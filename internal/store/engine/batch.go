package engine

import (
	"fmt"
	"strings"
)

// A Batch is a statement over the rows of a relation named batch, whose
// columns the caller gives. Engines differ in how rows reach a statement
// cheaply: an embedded one runs it once for each row, a server gets all of them
// in one round trip. The statement is the same.
type Batch struct {
	embedded string
	body     string
	columns  []Column
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

// NewBatch returns the batch whose columns are given as "name type" and whose
// statement is body: a SELECT, or an INSERT … SELECT (with WHERE true before ON
// CONFLICT), UPDATE or DELETE that reads from batch. It panics if a column has
// no known type: batches are made when the program starts.
func NewBatch(body string, columns ...string) *Batch {
	b := &Batch{body: body}
	names, params := make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		name, kind, _ := strings.Cut(c, " ")
		if t := Type(kind); t != Text && t != Int && t != Bytes {
			panic(fmt.Sprintf("engine: batch column %q has no known type", c)) //nolint:forbidigo // a constant of the store
		}
		b.columns = append(b.columns, Column{name, Type(kind)})
		names[i], params[i] = name, fmt.Sprintf("$%d", i+1)
	}
	b.embedded = fmt.Sprintf("WITH batch(%s) AS (VALUES (%s))\n%s", strings.Join(names, ", "), strings.Join(params, ", "), body)
	return b
}
