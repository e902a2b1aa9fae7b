package postgres

import (
	"context"
	"errors"

	"atrium/internal/store/engine"
)

// errNotDistributable is returned for a database that is not a Citus cluster.
var errNotDistributable = errors.New("the database has no extension citus: " +
	"use the coordinator of a Citus cluster, and run CREATE EXTENSION citus there and on every worker")

// Distribute distributes the tables, with their rows, one after the other. It skips tables that are
// distributed already, so an interrupted run can be repeated.
func (db *database) Distribute(ctx context.Context, tables engine.Tables) (done []string, err error) {
	if db.options.Sharded {
		return nil, nil // for tests, without a cluster
	}
	citus := false
	if err := db.Query(ctx, `SELECT 1 WHERE to_regproc('create_distributed_table') IS NOT NULL
		AND to_regclass('pg_dist_partition') IS NOT NULL`, nil, func(engine.Row) error {
		citus = true
		return nil
	}); err != nil {
		return nil, err
	}
	if !citus {
		return nil, errNotDistributable
	}
	distribute := func(table, call string) error {
		distributed := false
		err := db.Migrate(ctx, func(tx engine.Tx) error {
			distributed = false
			const sql = "SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass($1)"
			if err := tx.Query(sql, engine.Args{table}, func(engine.Row) error {
				distributed = true
				return nil
			}); err != nil || distributed {
				return err
			}
			return tx.Script("SELECT " + call)
		})
		if err == nil && !distributed {
			done = append(done, table)
		}
		return err
	}
	for _, table := range tables.Copied {
		if err := distribute(table, "create_reference_table('"+table+"')"); err != nil {
			return done, err
		}
	}
	for i, table := range tables.Sharded {
		call := "create_distributed_table('" + table + "', '" + engine.TenantColumn + "')"
		if i > 0 {
			call = "create_distributed_table('" + table + "', '" + engine.TenantColumn +
				"', colocate_with => '" + tables.Sharded[0] + "')"
		}
		if err := distribute(table, call); err != nil {
			return done, err
		}
	}
	db.sharded.Store(true)
	return done, nil
}
