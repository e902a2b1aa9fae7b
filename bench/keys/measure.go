package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"atrium/bench/workload"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
	"atrium/internal/store/kernel"
)

const pageBytes = 4096

// A work is what some entries or keys cost.
type work struct {
	units   int   // entries or keys
	frames  int64 // pages written to the WAL
	written int64 // bytes, including checkpoints
	read    int64 // bytes, including those that checkpoints read from the WAL
	cpu     time.Duration
	elapsed time.Duration
}

// checkpointed returns the number of pages that checkpoints wrote. Each was read from the WAL.
func (w work) checkpointed() int64 { return (w.written - w.frames*(pageBytes+24)) / pageBytes }

// pagesRead returns the number of pages that were read for statements.
func (w work) pagesRead() int64 { return w.read/pageBytes - w.checkpointed() }

func (w work) per(n int64) float64 { return float64(n) / float64(w.units) }

func (w work) micros() float64 { return w.per(w.cpu.Nanoseconds()) / 1000 }

// A session is the database of the store's engine, opened to measure one layout.
type session struct {
	engine.DB
	layout layout
	frames int64
	wal    int64 // pages, after the last commit

	memory int64         // bytes that the layout keeps in memory
	loaded time.Duration // time to read them
}

// open opens the working copy of a database with a layout. If counting, the writer does not map the file into
// memory: it reads the same pages, and each read is counted.
func (d *dataset) open(ctx context.Context, s subject, counting bool) (*session, error) {
	db, err := sqlite.Open(d.file(), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	o := &session{DB: db, layout: s.open(d)}
	before, start := heap(), time.Now()
	err = o.Write(ctx, func(tx engine.Tx) error {
		if counting {
			if err := tx.Script("PRAGMA mmap_size = 0"); err != nil {
				return err
			}
		}
		return o.layout.begin(tx)
	})
	o.loaded = time.Since(start)
	o.memory = heap() - before
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return o, nil
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Write counts the pages that a commit writes to the WAL. A commit that resets the WAL makes it shorter.
func (s *session) Write(ctx context.Context, f func(engine.Tx) error) error {
	err := s.DB.Write(ctx, f)
	now := s.Stats().WALBytes / pageBytes
	if now < s.wal {
		s.wal = 0
	}
	s.frames, s.wal = s.frames+now-s.wal, now
	return err
}

// measure returns the work of do, which returns a number of units, and of the checkpoints afterwards. It closes
// the session.
func (s *session) measure(do func() (int, error)) (w work, err error) {
	before, frames := now(), s.frames
	w.units, err = do()
	w.elapsed = time.Since(before.at)
	if err = errors.Join(err, s.Close()); err != nil {
		return w, err
	}
	after := now()
	w.frames, w.written, w.read, w.cpu = s.frames-frames, after.written-before.written, after.read-before.read, after.cpu-before.cpu
	return w, nil
}

// A moment has what this process has used so far.
type moment struct {
	at            time.Time
	read, written int64
	cpu           time.Duration
}

func now() (m moment) {
	m.at = time.Now()
	text, _ := os.ReadFile("/proc/self/io") // proc(5)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "rchar":
			m.read = n
		case "wchar":
			m.written = n
		}
	}
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail
	m.cpu = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	return m
}

// append appends entries in batches, as the store does: it locks the accounts of a batch, looks up its keys, and
// inserts its entries in the order of the keys.
func (d *dataset) append(ctx context.Context, s subject, o *session, entries []*entry, size int) (int, error) {
	for batch := range slices.Chunk(entries, size) {
		slices.SortFunc(batch, func(a, b *entry) int { return strings.Compare(a.key, b.key) })
		if err := o.Write(ctx, func(tx engine.Tx) error { return d.appendBatch(tx, s, o.layout, batch) }); err != nil {
			return 0, err
		}
	}
	return len(entries), nil
}

const (
	lockAccount  = "SELECT " + accounts.LockedColumns + " FROM accounts a WHERE a.tenant_id = $1 AND a.domain_hash = $2"
	insertActive = "INSERT INTO active_accounts (tenant_id, batch_id, accounts) VALUES ($1, $2, $3)"
)

func (d *dataset) appendBatch(tx engine.Tx, s subject, l layout, batch []*entry) error {
	tenant := workload.PackedID(d.tenant)
	for _, e := range batch {
		if err := engine.Find(tx.Query, lockAccount, engine.Args{tenant, kernel.Hash16(e.domain)}, func(r engine.Row) { _ = accounts.ScanLocked(r) }); err != nil {
			return fmt.Errorf("find account: %w", err)
		}
	}
	if err := l.begin(tx); err != nil {
		return err
	}
	var active []byte
	for _, e := range batch {
		if id, err := l.find(tx, e.key); err != nil || id != nil {
			return errors.Join(err, fmt.Errorf("key %s has the entry %x", e.key, id))
		}
	}
	for _, e := range batch {
		match, hash := s.columns(e)
		if _, err := tx.Exec(insertEntry, d.row(e, match, hash)...); err != nil {
			return err
		}
		active = append(active, e.account...)
	}
	if err := l.add(tx, batch); err != nil {
		return err
	}
	_, err := tx.Exec(insertActive, tenant, batch[0].id, active)
	return err
}

// lookUp looks up keys of entries, in transactions of the given size.
func (d *dataset) lookUp(ctx context.Context, o *session, entries []*entry, size int, want bool) (int, error) {
	for batch := range slices.Chunk(entries, size) {
		if err := o.Write(ctx, func(tx engine.Tx) error {
			if err := o.layout.begin(tx); err != nil {
				return err
			}
			for _, e := range batch {
				if id, err := o.layout.find(tx, e.key); err != nil || (id != nil) != want {
					return errors.Join(err, fmt.Errorf("key %s has the entry %x", e.key, id))
				}
			}
			return nil
		}); err != nil {
			return 0, err
		}
	}
	return len(entries), nil
}
