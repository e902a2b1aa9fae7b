package main

import (
	"context"

	"atrium/bench/workload"
	"atrium/internal/store/engine"
)

// A layout is a way to store the idempotency keys of a tenant's entries so that a key is found exactly, for as
// long as its entry exists, whichever process has stored it. The methods with a transaction are called in write
// transactions, of which there is one at a time.
type layout interface {
	// begin reads what other processes have committed. It is called first in each transaction.
	begin(tx engine.Tx) error

	// find returns the identifier of the entry with a key, nil if there is none.
	find(tx engine.Tx, key string) ([]byte, error)

	// add stores the keys of new entries.
	add(tx engine.Tx, batch []*entry) error

	// job processes recent keys in the background, and returns how many.
	job(ctx context.Context, db engine.DB) (keys int, err error)
}

// A subject is a layout to measure.
type subject struct {
	name   string
	open   func(d *dataset) layout
	match  bool // entries have key_match
	hash   bool // entries have key_hash
	tables []string
}

// indexed is the number of the layout that Atrium uses.
const indexed = 1

var subjects = []subject{
	{name: "no index", open: func(*dataset) layout { return unindexed{} }},
	{name: "unique index", match: true, tables: []string{"entries_by_key"}, open: func(d *dataset) layout {
		return column{workload.PackedID(d.tenant), findMatch, func(key string) engine.Args { return engine.Args{[]byte(key)} }}
	}},
	{name: "segments, filters", tables: []string{"segment_log", "key_segments", "key_filters"}, open: func(d *dataset) layout {
		return &layered{workload.PackedID(d.tenant), newKeyLog("segment_log", workload.PackedID(d.tenant)), &segments{tenant: workload.PackedID(d.tenant)}}
	}},
	{name: "table, merges", tables: []string{"recent_keys", "table_merged"}, open: func(d *dataset) layout {
		return &layered{workload.PackedID(d.tenant), recentTable{workload.PackedID(d.tenant)}, tree{"table_merged", workload.PackedID(d.tenant)}}
	}},
	{name: "log, merges", tables: []string{"merge_log", "log_merged"}, open: func(d *dataset) layout {
		return &layered{workload.PackedID(d.tenant), newKeyLog("merge_log", workload.PackedID(d.tenant)), tree{"log_merged", workload.PackedID(d.tenant)}}
	}},
	{name: "64-bit hashes", hash: true, tables: []string{"entries_by_hash"}, open: func(d *dataset) layout {
		return column{workload.PackedID(d.tenant), findHash, func(key string) engine.Args { return engine.Args{hash64(key), key} }}
	}},
}

// columns returns key_match and key_hash of an entry.
func (s subject) columns(e *entry) (match, hash any) {
	if s.match {
		match = []byte(e.key)
	}
	if s.hash {
		hash = hash64(e.key)
	}
	return match, hash
}

// rowBytes returns the size of these columns in the row of an entry.
func (s subject) rowBytes() (n int64) {
	if s.match {
		n += 32
	}
	if s.hash {
		n += 8
	}
	return n
}

// layoutTables are the tables of all layouts next to the schema of Atrium. Recent keys are in the logs, a row
// for each commit, or in recent_keys.
const layoutTables = `
ALTER TABLE entries ADD COLUMN key_hash INTEGER;
CREATE INDEX entries_by_hash ON entries (tenant_id, key_hash) WHERE key_hash IS NOT NULL;
CREATE TABLE segment_log (tenant_id BLOB NOT NULL, batch INTEGER NOT NULL, keys BLOB NOT NULL, PRIMARY KEY (tenant_id, batch)) STRICT, WITHOUT ROWID;
CREATE TABLE merge_log (tenant_id BLOB NOT NULL, batch INTEGER NOT NULL, keys BLOB NOT NULL, PRIMARY KEY (tenant_id, batch)) STRICT, WITHOUT ROWID;
CREATE TABLE recent_keys (tenant_id BLOB NOT NULL, key_match BLOB NOT NULL, entry_id BLOB NOT NULL, PRIMARY KEY (tenant_id, key_match)) STRICT, WITHOUT ROWID;
CREATE TABLE table_merged (tenant_id BLOB NOT NULL, key_match BLOB NOT NULL, entry_id BLOB NOT NULL, PRIMARY KEY (tenant_id, key_match)) STRICT, WITHOUT ROWID;
CREATE TABLE log_merged (tenant_id BLOB NOT NULL, key_match BLOB NOT NULL, entry_id BLOB NOT NULL, PRIMARY KEY (tenant_id, key_match)) STRICT, WITHOUT ROWID;
CREATE TABLE key_segments (tenant_id BLOB NOT NULL, segment INTEGER NOT NULL, key_match BLOB NOT NULL, entry_id BLOB NOT NULL,
	PRIMARY KEY (tenant_id, segment, key_match)) STRICT, WITHOUT ROWID;
CREATE TABLE key_filters (tenant_id BLOB NOT NULL, segment INTEGER NOT NULL, filter BLOB NOT NULL, PRIMARY KEY (tenant_id, segment)) STRICT;
`

// The columns of an entry from which the response to a retry is made.
const receipt = "entry_id, account_id, created_at, source, type, acknowledged_account_id, fingerprint"

const (
	findEntry = "SELECT " + receipt + " FROM entries WHERE tenant_id = $1 AND entry_id = $2"
	findMatch = "SELECT " + receipt + " FROM entries WHERE tenant_id = $1 AND key_match = $2"
	findHash  = "SELECT " + receipt + " FROM entries WHERE tenant_id = $1 AND key_hash = $2 AND idempotency_key = $3"
)

// unindexed finds no keys. It is what the index would cost if it were free.
type unindexed struct{}

func (unindexed) begin(engine.Tx) error                       { return nil }
func (unindexed) find(engine.Tx, string) ([]byte, error)      { return nil, nil }
func (unindexed) add(engine.Tx, []*entry) error               { return nil }
func (unindexed) job(context.Context, engine.DB) (int, error) { return 0, nil }

// A column finds entries by an index on one of their columns.
type column struct {
	tenant []byte
	sql    string
	args   func(key string) engine.Args // after the tenant
}

func (column) begin(engine.Tx) error                       { return nil }
func (column) add(engine.Tx, []*entry) error               { return nil }
func (column) job(context.Context, engine.DB) (int, error) { return 0, nil }
func (c column) find(tx engine.Tx, key string) ([]byte, error) {
	return readReceipt(tx, c.sql, append(engine.Args{c.tenant}, c.args(key)...))
}

// readReceipt returns the identifier of the entry that a statement finds, nil for none.
func readReceipt(tx engine.Tx, sql string, args engine.Args) (id []byte, err error) {
	err = tx.Query(sql, args, func(r engine.Row) error {
		id = r.Bytes(0)
		return nil
	})
	return id, err
}

// A pair is a key with the identifier of its entry.
type pair struct{ key, id []byte }

// A layered has recent keys, and older ones, to which a job adds the recent ones in the order of the keys. A key is
// bound if its entry exists, so nothing has to be deleted here together with an entry.
type layered struct {
	tenant []byte
	recent recentKeys
	old    oldKeys
}

// recentKeys stores keys as they arrive.
type recentKeys interface {
	begin(tx engine.Tx) error
	add(tx engine.Tx, batch []*entry) error

	// find calls is with the entries that a key may belong to, until is returns true.
	find(tx engine.Tx, key string, is func(id []byte) bool) error

	// sorted returns all keys, in their order.
	sorted(ctx context.Context, db engine.DB) ([]pair, error)

	// drop deletes the keys that the last call of sorted has returned.
	drop(ctx context.Context, db engine.DB, pairs []pair) error
}

// oldKeys stores keys for good.
type oldKeys interface {
	begin(tx engine.Tx) error
	find(tx engine.Tx, key string, is func(id []byte) bool) error

	// absorb adds keys in their order. Until it returns, only some of them may be found.
	absorb(ctx context.Context, db engine.DB, pairs []pair) error
}

func (l *layered) begin(tx engine.Tx) error {
	if err := l.old.begin(tx); err != nil {
		return err
	}
	return l.recent.begin(tx)
}

func (l *layered) add(tx engine.Tx, batch []*entry) error { return l.recent.add(tx, batch) }

func (l *layered) find(tx engine.Tx, key string) (found []byte, err error) {
	var failure error
	is := func(id []byte) bool {
		found, failure = readReceipt(tx, findEntry, engine.Args{l.tenant, id})
		return found != nil || failure != nil
	}
	err = l.recent.find(tx, key, is)
	if err == nil && found == nil && failure == nil {
		err = l.old.find(tx, key, is)
	}
	if err == nil {
		err = failure
	}
	return found, err
}

func (l *layered) job(ctx context.Context, db engine.DB) (int, error) {
	pairs, err := l.recent.sorted(ctx, db)
	if err != nil || len(pairs) == 0 {
		return 0, err
	}
	if err := l.old.absorb(ctx, db, pairs); err != nil {
		return 0, err
	}
	return len(pairs), l.recent.drop(ctx, db, pairs)
}
