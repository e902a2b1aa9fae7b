package main

import (
	"context"
	"encoding/binary"
	"errors"
	"strconv"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium"
	"atrium/internal/canonical"
)

// A bulk writes entries into a file that no other process uses, and updates their
// accounts. The service's import commits durably every few thousand entries, each of which
// lies in another page of two indexes: at ten million entries it writes 30 KB per entry. A
// bulk writes each round in one transaction without a journal, and stores the same
// (TestBulkStoresWhatAnImportStores).
type bulk struct {
	path    string
	shape   shape
	tenants []tenant
	newest  []atrium.Time // time of the newest entry of each account, tenant by tenant
}

func newBulk(path string, s shape, tenants []tenant) *bulk {
	return &bulk{path, s, tenants, make([]atrium.Time, s.tenants*s.accounts())}
}

// bulkCacheKB is the size of the page cache, which holds the pages that a round changes.
const bulkCacheKB = 1 << 20

func (b *bulk) transaction(f func(*sqlite.Conn) error) (err error) {
	c, err := sqlite.OpenConn(b.path, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for _, pragma := range []string{"journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", "cache_size = -" + strconv.Itoa(bulkCacheKB)} {
		if err := sqlitex.ExecuteTransient(c, "PRAGMA "+pragma, nil); err != nil {
			return err
		}
	}
	end, err := sqlitex.ImmediateTransaction(c)
	if err != nil {
		return err
	}
	defer end(&err)
	return f(c)
}

// entries writes the entries of a round.
func (b *bulk) entries(ctx context.Context, round int) error {
	return b.transaction(func(c *sqlite.Conn) error {
		insert := c.Prep(`INSERT INTO entries (tenant_id, entry_id, account_id, created_at, source, type, claimed_domain,
			idempotency_key, key_match, fingerprint, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
		for n, t := range b.tenants {
			for account, e := range b.shape.entriesOf(n, round) {
				fingerprint, err := canonical.Fingerprint(e.Submission)
				if err != nil {
					return err
				}
				insert.BindBytes(1, packed(t.ID))
				insert.BindBytes(2, packed(e.ID))
				insert.BindBytes(3, packed(e.AccountID))
				insert.BindInt64(4, int64(e.CreatedAt))
				insert.BindText(5, e.Source)
				insert.BindText(6, e.Type)
				insert.BindText(7, e.Claim.Domain)
				insert.BindText(8, e.IdempotencyKey)
				insert.BindBytes(9, []byte(e.IdempotencyKey)) // in the stored form of short keys
				insert.BindBytes(10, fingerprint)
				insert.BindBytes(11, e.Payload)
				if err := step(insert); err != nil {
					return err
				}
				at := &b.newest[n*b.shape.accounts()+account]
				*at = max(*at, e.CreatedAt)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
}

// activity updates the accounts of the entries.
func (b *bulk) activity() error {
	return b.transaction(func(c *sqlite.Conn) error {
		update := c.Prep("UPDATE accounts SET active_minute = ?1 / 60000000 WHERE tenant_id = ?2 AND account_id = ?3")
		for i, at := range b.newest {
			if at == 0 {
				continue
			}
			update.BindInt64(1, int64(at))
			update.BindBytes(2, packed(b.tenants[i/b.shape.accounts()].ID))
			update.BindBytes(3, packed(id[atrium.AccountID](i%b.shape.accounts())))
			if err := step(update); err != nil {
				return err
			}
		}
		return nil
	})
}

func step(s *sqlite.Stmt) error {
	_, err := s.Step()
	return errors.Join(err, s.Reset())
}

// packed returns an identifier in the service's stored form: base-36 numbers.
func packed[T atrium.Identifier](id T) []byte {
	text := string(id)[len(id.Prefix()):]
	b := make([]byte, 0, 18)
	first, _ := strconv.ParseUint(text[:2], 36, 16)
	second, _ := strconv.ParseUint(text[2:14], 36, 64)
	third, _ := strconv.ParseUint(text[14:], 36, 64)
	b = binary.BigEndian.AppendUint16(b, uint16(first))
	b = binary.BigEndian.AppendUint64(b, second)
	return binary.BigEndian.AppendUint64(b, third)
}
