package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium/bench/workload"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

const (
	fillRounds = 20
	logRow     = 24 // keys in a row of the logs
)

// fill writes the entries of a new database, each with its keys in the form of every layout: as if the jobs had
// processed all but the recent ones. It writes all in the order of time, so that the pages of all trees are
// interleaved and as full as they are in a database that grew. Like bench/growth, it uses no journal.
func (d *dataset) fill(ctx context.Context) error {
	f := filler{dataset: d}
	if err := workload.WriteDirectly(f.pristine(), func(c *sqlite.Conn) error { return sqlitex.ExecScript(c, layoutTables) }); err != nil {
		return err
	}
	for round := range fillRounds {
		from, to := d.size*round/fillRounds, d.size*(round+1)/fillRounds
		if err := workload.WriteDirectly(f.pristine(), func(c *sqlite.Conn) error { return f.entries(ctx, c, from, to) }); err != nil {
			return err
		}
		if round%5 == 4 {
			say("%d of %d entries", to, d.size)
		}
	}
	return nil
}

type filler struct {
	*dataset
	segment  []pair // keys of the next segment
	segments int64
	log      []*entry // entries of the next row of the logs
	logs     int64
}

func (f *filler) entries(ctx context.Context, c *sqlite.Conn, from, to int) error {
	for n := from; n < to; n++ {
		e := f.entry(n)
		if err := insert(c, insertEntry, f.row(e, []byte(e.key), hash64(e.key))); err != nil {
			return err
		}
		var err error
		if n < f.size-f.fresh {
			err = f.older(c, e, n)
		} else {
			err = f.newer(c, e, n)
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// older adds a key that the jobs have processed.
func (f *filler) older(c *sqlite.Conn, e *entry, n int) error {
	p := pair{[]byte(e.key), e.id}
	for _, table := range []string{"table_merged", "log_merged"} {
		if err := insert(c, "INSERT INTO "+table+" (tenant_id, key_match, entry_id) VALUES ($1, $2, $3)", engine.Args{workload.PackedID(f.tenant), p.key, p.id}); err != nil {
			return err
		}
	}
	f.segment = append(f.segment, p)
	if len(f.segment) < f.fresh && n < f.size-f.fresh-1 {
		return nil
	}
	slices.SortFunc(f.segment, comparePairs)
	filter := newFilter(len(f.segment))
	for _, p := range f.segment {
		filter.add(kernel.Hash16(string(p.key)))
		if err := insert(c, "INSERT INTO key_segments (tenant_id, segment, key_match, entry_id) VALUES ($1, $2, $3, $4)",
			engine.Args{workload.PackedID(f.tenant), f.segments, p.key, p.id}); err != nil {
			return err
		}
	}
	err := insert(c, "INSERT INTO key_filters (tenant_id, segment, filter) VALUES ($1, $2, $3)", engine.Args{workload.PackedID(f.tenant), f.segments, filter.encode()})
	f.segments++
	f.segment = nil
	return err
}

// newer adds a recent key.
func (f *filler) newer(c *sqlite.Conn, e *entry, n int) error {
	if err := insert(c, "INSERT INTO recent_keys (tenant_id, key_match, entry_id) VALUES ($1, $2, $3)", engine.Args{workload.PackedID(f.tenant), []byte(e.key), e.id}); err != nil {
		return err
	}
	f.log = append(f.log, e)
	if len(f.log) < logRow && n < f.size-1 {
		return nil
	}
	f.logs++
	for _, table := range []string{"segment_log", "merge_log"} {
		if err := insert(c, "INSERT INTO "+table+" (tenant_id, batch, keys) VALUES ($1, $2, $3)", engine.Args{workload.PackedID(f.tenant), f.logs, encode(f.log)}); err != nil {
			return err
		}
	}
	f.log = f.log[:0]
	return nil
}

// insert runs a statement with the arguments that the engine of the store would take.
func insert(c *sqlite.Conn, sql string, args engine.Args) error {
	s, err := c.Prepare(sql)
	if err != nil {
		return err
	}
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			s.BindText(i+1, v)
		case []byte:
			s.BindBytes(i+1, v)
		case int64:
			s.BindInt64(i+1, v)
		default:
			return fmt.Errorf("argument %d of %q: unsupported type %T", i+1, sql, arg)
		}
	}
	_, err = s.Step()
	return errors.Join(err, s.Reset())
}
