package main

import (
	"errors"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// writer is the one writing connection of a database.
type writer struct {
	conn *sqlite.Conn
	l    layout
	w    *workload

	begin, end, lookup, touch, insert, insertKey, insertPayload *sqlite.Stmt
}

// openWriter makes the database with its accounts. It is not yet durable: load
// what is needed, then call durable.
func openWriter(path string, l layout, o options) (*writer, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return nil, err
	}
	d := &writer{conn: conn, l: l, w: newWorkload(l, o)}
	// The load needs no crash safety, and a cache that holds every index.
	err = pragmas(conn, fmt.Sprintf("page_size = %d", o.pageSize), "journal_mode = OFF", "synchronous = OFF", "cache_size = -131072")
	if err != nil {
		return nil, err
	}
	if err := sqlitex.ExecuteScript(conn, l.schema(), nil); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", l.name, err)
	}
	d.begin = conn.Prep("BEGIN IMMEDIATE")
	d.end = conn.Prep("COMMIT")
	d.lookup = conn.Prep(l.lookupSQL())
	d.touch = conn.Prep(l.touchSQL())
	d.insert = conn.Prep(l.insertSQL())
	if l.splitKeys {
		d.insertKey = conn.Prep("INSERT INTO account_log_keys (tenant_id, account_log_id, idempotency_key, fingerprint) VALUES (?1, ?2, ?3, ?4)")
	}
	if l.splitPayload {
		d.insertPayload = conn.Prep("INSERT INTO account_log_payloads (tenant_id, account_log_id, payload) VALUES (?1, ?2, ?3)")
	}
	return d, d.addAccounts()
}

func (d *writer) addAccounts() error {
	return d.transaction(func() error {
		s := d.conn.Prep(`INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, name, name_folded, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)`)
		for i, a := range d.w.accounts {
			a.tenantID.bind(s, 1)
			a.id.bind(s, 2)
			s.BindText(3, a.domain)
			s.BindBytes(4, a.domainHash)
			s.BindText(5, fmt.Sprintf("Company %06d Limited", i))
			s.BindText(6, fmt.Sprintf("company %06d limited", i))
			s.BindInt64(7, d.w.ids.now.UnixMicro())
			if err := run(s); err != nil {
				return err
			}
		}
		return nil
	})
}

// durable turns on what the service runs with.
func (d *writer) durable(o options) error {
	return pragmas(d.conn, "journal_mode = WAL", "synchronous = FULL",
		fmt.Sprintf("wal_autocheckpoint = %d", o.autocheckpoint),
		fmt.Sprintf("cache_size = -%d", o.cacheKB),
		fmt.Sprintf("mmap_size = %d", o.mmapMB<<20),
		"shrink_memory")
}

func (d *writer) transaction(f func() error) error {
	if err := run(d.begin); err != nil {
		return err
	}
	if err := f(); err != nil {
		return errors.Join(err, sqlitex.ExecuteTransient(d.conn, "ROLLBACK", nil))
	}
	return run(d.end)
}

// touched is an account of the open batch.
type touched struct {
	newest   value // the last entry of the batch that goes to it
	previous value // what the next entry written for it points back to
	chained  bool  // previous is set
}

// commit writes a batch in one transaction: every key looked up, every touched
// account updated once, in the order of their identifiers, then the entries.
func (d *writer) commit(batch []entry) error {
	return d.transaction(func() error {
		accounts := make(map[int]*touched, len(batch))
		order := make([]int, 0, len(batch))
		for i := range batch {
			e := &batch[i]
			if e.keyed {
				if err := d.mustBeNew(e); err != nil {
					return err
				}
			}
			t := accounts[e.account]
			if t == nil {
				t = new(touched)
				accounts[e.account] = t
				order = append(order, e.account)
			}
			t.newest = e.id
		}
		slices.Sort(order)
		for _, i := range order {
			if err := d.touchAccount(i, accounts[i], batch[len(batch)-1].createdAt); err != nil {
				return err
			}
		}
		for i := range batch {
			if err := d.add(&batch[i], accounts[batch[i].account]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *writer) mustBeNew(e *entry) error {
	d.w.accounts[e.account].tenantID.bind(d.lookup, 1)
	e.key.bind(d.lookup, 2)
	found, err := d.lookup.Step()
	if err != nil {
		return err
	}
	if found {
		return errors.New("the workload repeated a key")
	}
	return d.lookup.Reset()
}

func (d *writer) touchAccount(i int, t *touched, at int64) error {
	a, s := &d.w.accounts[i], d.touch
	a.tenantID.bind(s, 1)
	s.BindBytes(4, a.domainHash)
	if !d.l.untouched {
		a.id.bind(s, 2)
		s.BindText(3, a.domain)
		s.BindInt64(5, at)
	}
	if d.l.chain {
		t.newest.bind(s, 6)
	}
	found, err := s.Step()
	if err != nil {
		return err
	}
	if !found {
		return errors.New("the account did not come back")
	}
	if d.l.chain && !s.ColumnIsNull(1) {
		t.chained = true
		if d.l.ids == idPacked {
			t.previous = value{blob: make([]byte, packedLength)}
			s.ColumnBytes(1, t.previous.blob)
		} else {
			t.previous = value{text: s.ColumnText(1)}
		}
	} else {
		_ = s.ColumnText(0) // the service needs it for the answer
	}
	if _, err := s.Step(); err != nil {
		return err
	}
	return s.Reset()
}

func (d *writer) add(e *entry, t *touched) error {
	a, s := &d.w.accounts[e.account], d.insert
	a.tenantID.bind(s, 1)
	e.id.bind(s, 2)
	a.id.bind(s, 3)
	s.BindText(4, "crm-production")
	s.BindText(5, "webhook")
	s.BindInt64(6, e.createdAt)
	s.BindText(7, a.domain)
	if !d.l.splitKeys {
		if e.keyed {
			e.key.bind(s, 8)
			s.BindBytes(9, e.fingerprint)
		} else {
			s.BindNull(8)
			s.BindNull(9)
		}
	}
	if !d.l.splitPayload {
		s.BindBytes(10, e.payload)
	}
	if d.l.chain {
		if t.chained {
			t.previous.bind(s, 11)
		} else {
			s.BindNull(11)
		}
		t.previous, t.chained = e.id, true
	}
	if err := run(s); err != nil {
		return err
	}
	if s := d.insertKey; s != nil && e.keyed {
		a.tenantID.bind(s, 1)
		e.id.bind(s, 2)
		e.key.bind(s, 3)
		s.BindBytes(4, e.fingerprint)
		if err := run(s); err != nil {
			return err
		}
	}
	if s := d.insertPayload; s != nil {
		a.tenantID.bind(s, 1)
		e.id.bind(s, 2)
		s.BindBytes(3, e.payload)
		if err := run(s); err != nil {
			return err
		}
	}
	return nil
}

// run steps a statement that returns no rows and makes it ready for the next
// use. Bindings stay; each use sets all of them.
func run(s *sqlite.Stmt) error {
	if _, err := s.Step(); err != nil {
		return err
	}
	return s.Reset()
}

func pragmas(conn *sqlite.Conn, settings ...string) error {
	for _, p := range settings {
		if err := sqlitex.ExecuteTransient(conn, "PRAGMA "+p, nil); err != nil {
			return fmt.Errorf("pragma %s: %w", p, err)
		}
	}
	return nil
}
