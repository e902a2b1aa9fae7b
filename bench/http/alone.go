package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium/bench/workload"
)

// An engineAlone is SQLite without a service: a loop in this process uses a file that the
// service created and filled, with the service's settings. It executes only the statements
// that storage requires, without checks for rejected or replayed requests.
type engineAlone struct {
	dir      string
	conns    []*sqlite.Conn // one per CPU; the first one writes
	tenant   []byte
	accounts []account
	payload  []byte
	length   time.Duration
	batch    int   // rows per commit
	written  int64 // rows so far, from which keys and identifiers are made
	run      uint64
}

type account struct{ id, hash []byte }

var aloneSettings = []string{
	"journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 8000", "cache_size = -65536", "mmap_size = 1073741824", "foreign_keys = ON",
}

func (o options) openAlone(ctx context.Context) (_ *engineAlone, err error) {
	a := &engineAlone{length: o.round, payload: []byte(workload.Payload(o.payload)), run: mathrand.Uint64()}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if a.dir, err = os.MkdirTemp("", "atrium-bench-"); err != nil {
		return nil, err
	}
	path := filepath.Join(a.dir, "alone.db")
	node, err := o.startAtrium(ctx, "sqlite:"+path)
	if err != nil {
		return nil, err
	}
	_, err = workload.Prepare(ctx, node, o.size())
	node.Stop()
	if err != nil {
		return nil, err
	}
	for range runtime.NumCPU() {
		c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
		if err != nil {
			return nil, err
		}
		a.conns = append(a.conns, c)
		for _, setting := range aloneSettings {
			if err := sqlitex.ExecuteTransient(c, "PRAGMA "+setting, nil); err != nil {
				return nil, err
			}
		}
	}
	return a, sqlitex.Execute(a.conns[0], "SELECT tenant_id, account_id, domain_hash FROM accounts", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		a.tenant = bytesAt(s, 0)
		a.accounts = append(a.accounts, account{bytesAt(s, 1), bytesAt(s, 2)})
		return nil
	}})
}

func (a *engineAlone) close() {
	for _, c := range a.conns {
		_ = c.Close()
	}
	if a.dir != "" {
		_ = os.RemoveAll(a.dir)
	}
}

func bytesAt(s *sqlite.Stmt, column int) []byte {
	b := make([]byte, s.ColumnLen(column))
	s.ColumnBytes(column, b)
	return b
}

func (a *engineAlone) any() account { return a.accounts[mathrand.IntN(len(a.accounts))] }

// write stores entries for a round, in batches. Each looks its account up by domain and
// updates it.
func (a *engineAlone) write(ctx context.Context) (figure, error) {
	c := a.conns[0]
	rows, start := 0, time.Now()
	for time.Since(start) < a.length && ctx.Err() == nil {
		if err := a.commit(c); err != nil {
			return figure{}, err
		}
		rows += a.batch
	}
	return figure{rate: float64(rows) / time.Since(start).Seconds()}, ctx.Err()
}

func (a *engineAlone) commit(c *sqlite.Conn) (err error) {
	end, err := sqlitex.ImmediateTransaction(c)
	if err != nil {
		return err
	}
	defer end(&err)
	now := time.Now().UnixMicro()
	for range a.batch {
		if err := a.insert(c, now); err != nil {
			return err
		}
	}
	return nil
}

func (a *engineAlone) insert(c *sqlite.Conn, now int64) error {
	find := c.Prep(`SELECT account_id FROM accounts WHERE tenant_id = $tenant AND domain_hash = $hash`)
	find.SetBytes("$tenant", a.tenant)
	find.SetBytes("$hash", a.any().hash)
	if more, err := find.Step(); err != nil || !more {
		return errors.Join(err, find.Reset(), errors.New("account not found"))
	}
	id := bytesAt(find, 0)
	if err := find.Reset(); err != nil {
		return err
	}
	a.written++
	entry, fingerprint := make([]byte, 18), make([]byte, 32)
	_, _ = rand.Read(fingerprint) // never fails (crypto/rand)
	_, _ = rand.Read(entry[10:])
	binary.BigEndian.PutUint64(entry[2:], uint64(a.written)) // in the order of time, as in the service
	key := fmt.Sprintf("%x-%012d", a.run, a.written)
	insert := c.Prep(`INSERT INTO entries (tenant_id, entry_id, account_id, created_at, source, type, claimed_domain, idempotency_key, key_match, fingerprint, payload)
		VALUES ($tenant, $entry, $account, $at, 'bench', 'page.viewed', $domain, $key, $match, $fingerprint, $payload)`)
	insert.SetBytes("$tenant", a.tenant)
	insert.SetBytes("$entry", entry)
	insert.SetBytes("$account", id)
	insert.SetInt64("$at", now)
	insert.SetText("$domain", "company-1234.example")
	insert.SetText("$key", key)
	insert.SetBytes("$match", []byte(key))
	insert.SetBytes("$fingerprint", fingerprint)
	insert.SetBytes("$payload", a.payload)
	_, err := insert.Step()
	return errors.Join(err, insert.Reset())
}

// read reads accounts with their prospects for a round, on every CPU.
func (a *engineAlone) read(ctx context.Context) (figure, error) {
	counts, errs := make([]int, len(a.conns)), make([]error, len(a.conns))
	start := time.Now()
	var wg sync.WaitGroup
	for i, c := range a.conns {
		wg.Go(func() {
			for time.Since(start) < a.length && errs[i] == nil && ctx.Err() == nil {
				errs[i] = a.find(c)
				counts[i]++
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return figure{rate: float64(total) / time.Since(start).Seconds()}, errors.Join(append(errs, ctx.Err())...)
}

func (a *engineAlone) find(c *sqlite.Conn) error {
	find := c.Prep(`SELECT a.account_id, a.domain, a.name, a.created_at, a.updated_at, a.latest_activity_at, a.survivor_id,
		p.prospect_id, p.name, p.email, p.domain, p.slug, p.phone_number, p.linkedin_profile_url, p.created_at, p.updated_at
		FROM accounts a
		LEFT JOIN account_prospects l ON l.tenant_id = a.tenant_id AND l.account_id = a.account_id
		LEFT JOIN prospects p ON p.tenant_id = l.tenant_id AND p.prospect_id = l.prospect_id
		WHERE a.tenant_id = $tenant AND a.account_id = $account
		ORDER BY l.prospect_created_at, l.prospect_id`)
	find.SetBytes("$tenant", a.tenant)
	find.SetBytes("$account", a.any().id)
	rows := 0
	for {
		more, err := find.Step()
		if err != nil {
			return errors.Join(err, find.Reset())
		}
		if !more {
			break
		}
		rows++
		for column := range find.ColumnCount() {
			_ = find.ColumnText(column)
		}
	}
	if rows != workload.Prospects {
		return fmt.Errorf("an account has %d rows", rows)
	}
	return find.Reset()
}
