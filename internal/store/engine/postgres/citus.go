package postgres

import (
	"context"
	"errors"

	"atrium/internal/store/engine"
)

// errNotDistributable says what a database lacks.
var errNotDistributable = errors.New("the database has no extension citus: it must be the coordinator of a Citus cluster, with CREATE EXTENSION citus there and on every worker")

// Distribute hands the tables to Citus, one after the other, with the rows that
// they have. Those that are distributed already are left as they are, so that a
// run which was interrupted is finished by the next.
func (db *database) Distribute(ctx context.Context, tables engine.Tables) (done []string, err error) {
	if db.options.Sharded {
		return nil, nil // for tests, without a cluster
	}
	citus := false
	if err := db.Query(ctx, "SELECT 1 WHERE to_regproc('create_distributed_table') IS NOT NULL AND to_regclass('pg_dist_partition') IS NOT NULL", nil, func(engine.Row) error {
		citus = true
		return nil
	}); err != nil {
		return nil, err
	}
	if !citus {
		return nil, errNotDistributable
	}
	distribute := func(table, call string) error {
		is := false
		err := db.Migrate(ctx, func(tx engine.Tx) error {
			is = false
			if err := tx.Query("SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass($1)", engine.Args{table}, func(engine.Row) error {
				is = true
				return nil
			}); err != nil || is {
				return err
			}
			return tx.Script("SELECT " + call)
		})
		if err == nil && !is {
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
			call = "create_distributed_table('" + table + "', '" + engine.TenantColumn + "', colocate_with => '" + tables.Sharded[0] + "')"
		}
		if err := distribute(table, call); err != nil {
			return done, err
		}
	}
	db.sharded.Store(true)
	return done, nil
}
