package main

import (
	"bytes"
	"context"
	"slices"

	"atrium/internal/store/engine"
)

// perTx is the number of keys that a job writes in a transaction.
const perTx = 1000

// inChunks calls f with perTx pairs at a time, each in a write transaction.
func inChunks(ctx context.Context, db engine.DB, pairs []pair, f func(tx engine.Tx, pairs []pair) error) error {
	for chunk := range slices.Chunk(pairs, perTx) {
		if err := db.Write(ctx, func(tx engine.Tx) error { return f(tx, chunk) }); err != nil {
			return err
		}
	}
	return nil
}

func comparePairs(a, b pair) int { return bytes.Compare(a.key, b.key) }

// A keyLog stores recent keys as rows in the order of commits, and in memory the row of each.
type keyLog struct {
	table  string
	tenant []byte
	hash   func(key string) int64
	last   int64             // number of the last row that was read
	rows   map[int64]int64   // by hash
	others map[int64][]int64 // rows of other keys with the same hash
	upTo   int64             // row of the last key that sorted has returned
}

func newKeyLog(table string, tenant []byte) *keyLog {
	return &keyLog{table: table, tenant: tenant, hash: hash64, rows: map[int64]int64{}, others: map[int64][]int64{}}
}

// begin reads rows that were added since the last call, by this process or another.
func (l *keyLog) begin(tx engine.Tx) error {
	return tx.Query("SELECT batch, keys FROM "+l.table+" WHERE tenant_id = $1 AND batch > $2 ORDER BY batch", engine.Args{l.tenant, l.last}, func(r engine.Row) error {
		l.last = r.Int(0)
		for _, p := range decode(r.View(1)) {
			h := l.hash(string(p.key))
			if row, taken := l.rows[h]; taken {
				l.others[h] = append(l.others[h], row)
			}
			l.rows[h] = l.last
		}
		return nil
	})
}

func (l *keyLog) add(tx engine.Tx, batch []*entry) error {
	_, err := tx.Exec("INSERT INTO "+l.table+" (tenant_id, batch, keys) VALUES ($1, $2, $3)", l.tenant, l.last+1, encode(batch))
	return err
}

func (l *keyLog) find(tx engine.Tx, key string, is func(id []byte) bool) error {
	h := l.hash(key)
	row, found := l.rows[h]
	if !found {
		return nil
	}
	for _, row := range append([]int64{row}, l.others[h]...) {
		var pairs []pair
		if err := tx.Query("SELECT keys FROM "+l.table+" WHERE tenant_id = $1 AND batch = $2", engine.Args{l.tenant, row}, func(r engine.Row) error {
			pairs = decode(r.Bytes(0))
			return nil
		}); err != nil {
			return err
		}
		for _, p := range pairs {
			if string(p.key) == key && is(p.id) {
				return nil
			}
		}
	}
	return nil
}

// sorted returns the last entry of each key.
func (l *keyLog) sorted(ctx context.Context, db engine.DB) (pairs []pair, err error) {
	err = db.Query(ctx, "SELECT batch, keys FROM "+l.table+" WHERE tenant_id = $1 ORDER BY batch DESC", engine.Args{l.tenant}, func(r engine.Row) error {
		if pairs == nil {
			l.upTo = r.Int(0)
		}
		pairs = append(pairs, decode(r.Bytes(1))...)
		return nil
	})
	slices.SortStableFunc(pairs, comparePairs)
	return slices.CompactFunc(pairs, func(a, b pair) bool { return bytes.Equal(a.key, b.key) }), err
}

// drop keeps the last row, which numbers the next one. Other processes keep the keys in memory, and find that
// their rows are gone.
func (l *keyLog) drop(ctx context.Context, db engine.DB, _ []pair) error {
	const rows = 100 // per transaction
	for more := true; more; {
		if err := db.Write(ctx, func(tx engine.Tx) error {
			n, err := tx.Exec("DELETE FROM "+l.table+" WHERE tenant_id = $1 AND batch IN (SELECT batch FROM "+l.table+
				" WHERE tenant_id = $1 AND batch < $2 ORDER BY batch LIMIT $3)", l.tenant, l.upTo, int64(rows))
			more = n == rows
			return err
		}); err != nil {
			return err
		}
	}
	clear(l.rows)
	clear(l.others)
	l.last = l.upTo - 1
	return nil
}

// encode returns the keys and identifiers of entries, each after its length.
func encode(batch []*entry) (b []byte) {
	for _, e := range batch {
		b = append(append(b, byte(len(e.key))), e.key...)
		b = append(append(b, byte(len(e.id))), e.id...)
	}
	return b
}

func decode(b []byte) (pairs []pair) {
	next := func() []byte {
		part := b[1 : 1+b[0]]
		b = b[1+len(part):]
		return part
	}
	for len(b) > 0 {
		pairs = append(pairs, pair{next(), next()})
	}
	return pairs
}

// A recentTable stores recent keys in a table that is clustered by key.
type recentTable struct{ tenant []byte }

func (recentTable) begin(engine.Tx) error { return nil }

func (t recentTable) add(tx engine.Tx, batch []*entry) error {
	for _, e := range batch {
		if _, err := tx.Exec(`INSERT INTO recent_keys (tenant_id, key_match, entry_id) VALUES ($1, $2, $3)
			ON CONFLICT (tenant_id, key_match) DO UPDATE SET entry_id = excluded.entry_id`, t.tenant, []byte(e.key), e.id); err != nil {
			return err
		}
	}
	return nil
}

func (t recentTable) find(tx engine.Tx, key string, is func(id []byte) bool) error {
	return findIn(tx, "SELECT entry_id FROM recent_keys WHERE tenant_id = $1 AND key_match = $2", engine.Args{t.tenant, []byte(key)}, is)
}

// findIn calls is with the entry that a statement finds.
func findIn(tx engine.Tx, sql string, args engine.Args, is func(id []byte) bool) error {
	var id []byte
	err := tx.Query(sql, args, func(r engine.Row) error {
		id = r.Bytes(0)
		return nil
	})
	if err == nil && id != nil {
		is(id)
	}
	return err
}

func (t recentTable) sorted(ctx context.Context, db engine.DB) (pairs []pair, err error) {
	err = db.Query(ctx, "SELECT key_match, entry_id FROM recent_keys WHERE tenant_id = $1 ORDER BY key_match", engine.Args{t.tenant}, func(r engine.Row) error {
		pairs = append(pairs, pair{r.Bytes(0), r.Bytes(1)})
		return nil
	})
	return pairs, err
}

func (t recentTable) drop(ctx context.Context, db engine.DB, pairs []pair) error {
	return inChunks(ctx, db, pairs, func(tx engine.Tx, pairs []pair) error {
		for _, p := range pairs {
			if _, err := tx.Exec("DELETE FROM recent_keys WHERE tenant_id = $1 AND key_match = $2 AND entry_id = $3", t.tenant, p.key, p.id); err != nil {
				return err
			}
		}
		return nil
	})
}
