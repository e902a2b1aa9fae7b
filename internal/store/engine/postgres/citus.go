package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"

	"atrium/internal/store/engine"
)

// errNotDistributable is returned for a database that is not a Citus cluster.
var errNotDistributable = errors.New("the database has no extension citus: " +
	"use the coordinator of a Citus cluster, and run CREATE EXTENSION citus there and on every worker")

// Distribute distributes the tables, with their rows, one after the other. It skips tables that are
// distributed already, so an interrupted run can be repeated. At the end it removes the rows that
// remain on the coordinator: Citus copies them to the shards and hides the originals.
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
	isDistributed, err := distributedTables(func(sql string, each func(engine.Row) error) error {
		return db.Query(ctx, sql, nil, each)
	})
	if err != nil {
		return nil, err
	}
	for _, table := range slices.Concat(tables.Reference, tables.Sharded) {
		if isDistributed[table] {
			continue
		}
		did, err := db.distribute(ctx, table, distribution(tables, table))
		if err != nil {
			return done, err
		}
		if did {
			done = append(done, table)
		}
	}
	db.sharded.Store(true)
	return done, db.truncateOriginals(ctx)
}

// truncateOriginals removes the rows of distributed tables that are still stored on the coordinator
// as well.
func (db *database) truncateOriginals(ctx context.Context) error {
	var calls []string
	err := db.Query(ctx, `SELECT 'SELECT truncate_local_data_after_distributing_table(' || quote_literal(c.relname) || ')'
		FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid
		WHERE pg_table_is_visible(c.oid) AND pg_relation_size(c.oid) > 0`, nil, func(r engine.Row) error {
		calls = append(calls, r.Text(0))
		return nil
	})
	if err != nil || len(calls) == 0 {
		return err
	}
	return db.Migrate(ctx, func(tx engine.Tx) error { return tx.Script(strings.Join(calls, ";\n")) })
}

// distribution returns the call that distributes a table.
func distribution(tables engine.Tables, table string) string {
	first := tables.Sharded[0]
	switch {
	case slices.Contains(tables.Reference, table):
		return "create_reference_table('" + table + "')"
	case table == first:
		return "create_distributed_table('" + table + "', '" + engine.TenantColumn + "')"
	default:
		return "create_distributed_table('" + table + "', '" + engine.TenantColumn + "', colocate_with => '" + first + "')"
	}
}

// distribute runs call, unless the table was distributed in the meantime, and reports whether it
// did.
func (db *database) distribute(ctx context.Context, table, call string) (did bool, err error) {
	err = db.Migrate(ctx, func(tx engine.Tx) error {
		did = false
		isDistributed, err := distributedTables(func(sql string, each func(engine.Row) error) error {
			return tx.Query(sql, nil, each)
		})
		if err != nil || isDistributed[table] {
			return err
		}
		did = true
		return tx.Script("SELECT " + call)
	})
	return did && err == nil, err
}

// distributedTables returns the names of the tables on the search path that are sharded or copied
// to all servers. When a table is distributed, Citus adds the tables that reference it to its
// catalog, as tables of the coordinator.
func distributedTables(query func(sql string, each func(engine.Row) error) error) (names map[string]bool, err error) {
	names = map[string]bool{}
	err = query(`SELECT c.relname::text FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid
		WHERE pg_table_is_visible(c.oid) AND (p.partmethod = 'h' OR p.partmethod = 'n' AND p.repmodel = 't')`,
		func(r engine.Row) error {
			names[r.Text(0)] = true
			return nil
		})
	return names, err
}

// cluster asks every server of a Citus cluster for its version, and the coordinator for its tables.
func (db *database) cluster(ctx context.Context) (*engine.Cluster, error) {
	c := &engine.Cluster{}
	if err := db.Query(ctx, `SELECT CASE WHEN success THEN result ELSE '' END FROM run_command_on_all_nodes(
		'SELECT extversion FROM pg_extension WHERE extname = ''citus''', give_warning_for_connection_errors => true)
		ORDER BY nodeid`, nil, func(r engine.Row) error {
		c.Versions = append(c.Versions, r.Text(0))
		return nil
	}); err != nil {
		return nil, err
	}
	err := db.Query(ctx, `SELECT count(DISTINCT p.colocationid) FROM pg_dist_partition p
		WHERE p.partmethod = 'h' AND pg_table_is_visible(p.logicalrelid)`, nil, func(r engine.Row) error {
		c.Colocations = int(r.Int(0))
		return nil
	})
	if err != nil {
		return nil, err
	}
	isDistributed, err := distributedTables(func(sql string, each func(engine.Row) error) error {
		return db.Query(ctx, sql, nil, each)
	})
	if err != nil {
		return nil, err
	}
	tables, err := db.Tables(ctx)
	for _, table := range tables {
		if !isDistributed[table] {
			c.NotDistributed = append(c.NotDistributed, table)
		}
	}
	return c, err
}
