package main

import (
	"context"
	"errors"

	"zombiezen.com/go/sqlite"

	"atrium"
	"atrium/bench/workload"
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

// entries writes the entries of a round.
func (b *bulk) entries(ctx context.Context, round int) error {
	return workload.WriteDirectly(b.path, func(c *sqlite.Conn) error {
		insert := c.Prep(`INSERT INTO entries (tenant_id, entry_id, account_id, created_at, source, type, claimed_domain,
			idempotency_key, key_match, fingerprint, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
		for n, t := range b.tenants {
			for account, e := range b.shape.entriesOf(n, round) {
				fingerprint, err := canonical.Fingerprint(e.Submission)
				if err != nil {
					return err
				}
				insert.BindBytes(1, workload.PackedID(t.ID))
				insert.BindBytes(2, workload.PackedID(e.ID))
				insert.BindBytes(3, workload.PackedID(e.AccountID))
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
	return workload.WriteDirectly(b.path, func(c *sqlite.Conn) error {
		update := c.Prep("UPDATE accounts SET active_minute = ?1 / 60000000 WHERE tenant_id = ?2 AND account_id = ?3")
		for i, at := range b.newest {
			if at == 0 {
				continue
			}
			update.BindInt64(1, int64(at))
			update.BindBytes(2, workload.PackedID(b.tenants[i/b.shape.accounts()].ID))
			update.BindBytes(3, workload.PackedID(workload.Numbered[atrium.AccountID](i%b.shape.accounts())))
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
