package sqlite

import (
	"context"
	"fmt"

	"atrium/internal/store/engine"
)

// The checks. Each is a statement that returns one problem per row.
const (
	// SQLite reads the header and the schema to run this, so it also verifies that the file is a
	// database of the stated length. The first byte of a root page is the type of its b-tree
	// (https://www.sqlite.org/fileformat.html, 1.6).
	checkRoots = `SELECT type || ' ' || name || ' does not begin on page ' || rootpage
		FROM sqlite_schema LEFT JOIN sqlite_dbpage ON pgno = rootpage
		WHERE rootpage > 0 AND coalesce(hex(substr(data, 1, 1)), '') NOT IN ('02', '05', '0A', '0D')`

	// Every page is used once, rows are in order, and columns satisfy their constraints.
	checkPages = "PRAGMA quick_check"

	// The same, and indexes match their tables.
	checkIndexes = "PRAGMA integrity_check"

	checkReferences = `SELECT 'foreign key violation: a row of ' || "table" || ' refers to no row of ' || parent
		FROM pragma_foreign_key_check`
)

// A full Check reads the whole file. A quick one reads the schema and the root page of each table
// and index.
func (db *database) Check(ctx context.Context, full bool) ([]engine.Problem, error) {
	checks := []string{checkRoots}
	if full {
		checks = append(checks, checkIndexes, checkReferences)
	}
	var found []engine.Problem
	err := db.withReader(ctx, func(c *connection) (err error) {
		if err := ctx.Err(); err != nil {
			return &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("check: %w", context.Cause(ctx))}
		}
		c.conn.SetInterrupt(ctx.Done())
		defer c.conn.SetInterrupt(nil)
		found, err = c.check(checks...)
		if err != nil && ctx.Err() != nil {
			err = &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("check: %w: %w", context.Cause(ctx), err)}
		}
		return err
	})
	return found, err
}

// check runs checks until one finds a problem. Corruption that makes a check fail is a problem,
// too.
func (c *connection) check(checks ...string) (found []engine.Problem, err error) {
	for _, check := range checks {
		err := c.run(check, nil, func(r engine.Row) error {
			if r.Text(0) != "ok" && len(found) < engine.MaxProblems {
				found = append(found, engine.Problem{Detail: r.Text(0)})
			}
			return nil
		})
		if engine.ClassOf(err) == engine.Corrupt {
			found, err = append(found, engine.Problem{Detail: err.Error()}), nil
		}
		if err != nil || len(found) > 0 {
			return found, err
		}
	}
	return nil, nil
}
