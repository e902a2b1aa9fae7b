package engine_test

import (
	"testing"

	"atrium/internal/store/engine"
)

func TestAnInsertOfABatchIsShardedAsValues(t *testing.T) {
	b := engine.NewBatch(`INSERT INTO a (tenant_id, id, minute)
		SELECT batch.tenant_id, batch.id, at / 60 FROM batch WHERE true ON CONFLICT DO NOTHING`, "tenant_id bytea", "id bytea", "at bigint")
	const one = "INSERT INTO a (tenant_id, id, minute) VALUES ($1::bytea, $2::bytea, $3::bigint / 60) ON CONFLICT DO NOTHING"
	const two = "INSERT INTO a (tenant_id, id, minute) VALUES ($1::bytea, $2::bytea, $3::bigint / 60), " +
		"($1::bytea, $4::bytea, $5::bigint / 60) ON CONFLICT DO NOTHING"
	for _, test := range []struct {
		n, rows int
		sql     string
	}{{1, 1, one}, {2, 2, two}, {3, 2, two}} {
		if sql, rows := b.ShardInsert(test.n); sql != test.sql || rows != test.rows {
			t.Errorf("%d rows: %d in\n%s\nwant %d in\n%s", test.n, rows, sql, test.rows, test.sql)
		}
	}
	if _, rows := b.ShardInsert(1000); rows != 64 {
		t.Errorf("of 1,000 rows a statement has %d, want 64", rows)
	}
	for _, other := range []*engine.Batch{
		engine.NewBatch("INSERT INTO a (tenant_id, id) SELECT l.tenant_id, l.id FROM batch JOIN l ON l.tenant_id = batch.tenant_id", "tenant_id bytea"),
		engine.NewBatch("DELETE FROM a USING batch WHERE a.tenant_id = batch.tenant_id", "tenant_id bytea"),
		engine.NewBatch("INSERT INTO a (id) SELECT id FROM batch", "id bytea"),
	} {
		if sql, rows := other.ShardInsert(1); rows != 0 {
			t.Errorf("%s\nis no INSERT of a batch's rows of one tenant: %s", other.Server, sql)
		}
	}
}
