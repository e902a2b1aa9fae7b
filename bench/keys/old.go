package main

import (
	"context"
	"encoding/binary"

	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// A tree stores older keys in one table that is clustered by key.
type tree struct {
	table  string
	tenant []byte
}

func (tree) begin(engine.Tx) error { return nil }

func (t tree) find(tx engine.Tx, key string, is func(id []byte) bool) error {
	return findIn(tx, "SELECT entry_id FROM "+t.table+" WHERE tenant_id = $1 AND key_match = $2", engine.Args{t.tenant, []byte(key)}, is)
}

func (t tree) absorb(ctx context.Context, db engine.DB, pairs []pair) error {
	return inChunks(ctx, db, pairs, func(tx engine.Tx, pairs []pair) error {
		for _, p := range pairs {
			if _, err := tx.Exec("INSERT INTO "+t.table+` (tenant_id, key_match, entry_id) VALUES ($1, $2, $3)
				ON CONFLICT (tenant_id, key_match) DO UPDATE SET entry_id = excluded.entry_id`, t.tenant, p.key, p.id); err != nil {
				return err
			}
		}
		return nil
	})
}

// segments stores older keys in segments, each with the keys of a period. It has a filter of each segment in
// memory. A segment and its filter never change.
type segments struct {
	tenant  []byte
	filters []filter // of the segments from 0
}

// begin reads the filters of segments that are new.
func (s *segments) begin(tx engine.Tx) error {
	return tx.Query("SELECT filter FROM key_filters WHERE tenant_id = $1 AND segment >= $2 ORDER BY segment", engine.Args{s.tenant, int64(len(s.filters))}, func(r engine.Row) error {
		s.filters = append(s.filters, decodeFilter(r.View(0)))
		return nil
	})
}

func (s *segments) find(tx engine.Tx, key string, is func(id []byte) bool) (err error) {
	h := kernel.Hash16(key)
	for n := len(s.filters) - 1; n >= 0; n-- {
		if !s.filters[n].mayHave(h) {
			continue
		}
		done := false
		err := findIn(tx, "SELECT entry_id FROM key_segments WHERE tenant_id = $1 AND segment = $2 AND key_match = $3",
			engine.Args{s.tenant, int64(n), []byte(key)}, func(id []byte) bool {
				done = is(id)
				return done
			})
		if err != nil || done {
			return err
		}
	}
	return nil
}

// absorb adds a segment. Its filter, which is stored last, makes it visible.
func (s *segments) absorb(ctx context.Context, db engine.DB, pairs []pair) error {
	if err := db.Write(ctx, s.begin); err != nil {
		return err
	}
	segment, filter := int64(len(s.filters)), newFilter(len(pairs))
	for _, p := range pairs {
		filter.add(kernel.Hash16(string(p.key)))
	}
	if err := inChunks(ctx, db, pairs, func(tx engine.Tx, pairs []pair) error {
		for _, p := range pairs {
			if _, err := tx.Exec(`INSERT INTO key_segments (tenant_id, segment, key_match, entry_id) VALUES ($1, $2, $3, $4)
				ON CONFLICT (tenant_id, segment, key_match) DO UPDATE SET entry_id = excluded.entry_id`, s.tenant, segment, p.key, p.id); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return db.Write(ctx, func(tx engine.Tx) error {
		_, err := tx.Exec("INSERT INTO key_filters (tenant_id, segment, filter) VALUES ($1, $2, $3)", s.tenant, segment, filter.encode())
		return err
	})
}

// A filter is a Bloom filter (Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970). With
// 16 bits for each key and 6 of them set, it finds 1 in 1,000 keys that it does not have.
type filter []uint64

const (
	filterBits = 16
	filterSet  = 6
)

func newFilter(keys int) filter { return make(filter, max(keys*filterBits/64, 1)) }

// bit returns the position of the nth bit of a key, given its hash of 16 bytes.
func (f filter) bit(hash []byte, n int) (word int, mask uint64) {
	h := binary.BigEndian.Uint64(hash) + uint64(n)*(binary.BigEndian.Uint64(hash[8:])|1)
	h %= uint64(len(f)) * 64
	return int(h / 64), 1 << (h % 64)
}

func (f filter) add(hash []byte) {
	for n := range filterSet {
		word, mask := f.bit(hash, n)
		f[word] |= mask
	}
}

func (f filter) mayHave(hash []byte) bool {
	for n := range filterSet {
		if word, mask := f.bit(hash, n); f[word]&mask == 0 {
			return false
		}
	}
	return true
}

func (f filter) encode() (b []byte) {
	for _, word := range f {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	return b
}

func decodeFilter(b []byte) filter {
	f := make(filter, len(b)/8)
	for i := range f {
		f[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return f
}
