package sqlite

import (
	"context"
	"fmt"

	"atrium/internal/store/engine"
)

// What the checks read, each a statement whose rows are problems.
const (
	// The header and the schema are read on the way to this: the file is a database,
	// and is as long as it says. A page that begins a table or an index says so in its
	// first byte (https://www.sqlite.org/fileformat.html, 1.6).
	checkRoots = `SELECT type || ' ' || name || ' does not begin on page ' || rootpage FROM sqlite_schema LEFT JOIN sqlite_dbpage ON pgno = rootpage
		WHERE rootpage > 0 AND coalesce(hex(substr(data, 1, 1)), '') NOT IN ('02', '05', '0A', '0D')`

	// Every page: that it is used once, that its rows are in order, and that columns
	// hold what they may.
	checkPages = "PRAGMA quick_check"

	// The same, and that indexes have what their tables have.
	checkIndexes = "PRAGMA integrity_check"

	checkReferences = `SELECT 'a row of ' || "table" || ' refers to none of ' || parent FROM pragma_foreign_key_check`
)

// Check that is full reads all of the file. One that is not reads the schema and where
// each table and index begins.
func (db *database) Check(ctx context.Context, full bool) ([]engine.Problem, error) {
	checks := []string{checkRoots}
	if full {
		checks = append(checks, checkIndexes, checkReferences)
	}
	var found []engine.Problem
	err := db.reading(ctx, func(c *connection) (err error) {
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

// check runs checks until one has found something. Damage that keeps one from being
// made is a problem that it has found.
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
