package engine

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxInsertRows is the maximum number of rows of an INSERT … VALUES. Statements have a power of two
// of rows, so that a connection prepares few of them.
const maxInsertRows = 64

// ShardInsert returns an INSERT of the first rows of n rows of one tenant, and their number. Its
// parameters are the tenant, and then for each row the columns after the tenant. The number is 0 if
// the batch is not an INSERT of its own rows, which has this form in addition to Shard.
//
// A Citus coordinator sends an INSERT … VALUES to the shard of its tenant. It would run an
// INSERT … SELECT from arrays itself and copy the result to the shard, which takes several times as
// long and reports a duplicate key as an internal error.
func (b *Batch) ShardInsert(n int) (sql string, rows int) {
	if b.inserts == nil {
		return "", 0
	}
	size := min(bits.Len(uint(n)), len(b.inserts)) - 1
	return b.inserts[size](), 1 << size
}

// shardInserts returns functions that return an INSERT of 1, 2, 4, … rows, nil if body is not an
// INSERT of the rows of the batch alone.
func (b *Batch) shardInserts(body string) (inserts []func() string) {
	m := insertBatch.FindStringSubmatch(body)
	if m == nil {
		return nil
	}
	for rows := 1; rows <= maxInsertRows; rows *= 2 {
		inserts = append(inserts, sync.OnceValue(func() string {
			lists := make([]string, rows)
			for row := range lists {
				lists[row] = "(" + b.valuesOfRow(m[2], row) + ")"
			}
			return m[1] + " VALUES " + strings.Join(lists, ", ") + m[3]
		}))
	}
	return inserts
}

// valuesOfRow replaces each batch column in text with its parameter for a row of ShardInsert.
func (b *Batch) valuesOfRow(text string, row int) string {
	return unqualifiedColumn.ReplaceAllStringFunc(text, func(found string) string {
		name := strings.TrimPrefix(found, "batch.")
		i := slices.IndexFunc(b.Columns, func(c Column) bool { return c.Name == name })
		if i < 0 {
			return found
		}
		parameter := 1
		if i > 0 {
			parameter += row*(len(b.Columns)-1) + i
		}
		return "$" + strconv.Itoa(parameter) + "::" + string(b.Columns[i].Type)
	})
}
