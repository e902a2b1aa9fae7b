// Package requestlog stores what nodes have recorded about requests. The rows are no part of the audit
// log: they are written after the response, and only for a time.
package requestlog

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// A Store stores refused requests and reads of personal data. It is safe for concurrent use.
type Store struct {
	db *kernel.DB

	// MaxReads is the number of reads of a tenant that are stored: the newest ones. Set it before the first call.
	MaxReads int
}

// New returns a Store on a database.
func New(db *kernel.DB) *Store { return &Store{db, DefaultMaxReads} }

const (
	expiryBatch = 500 // rows per transaction
)

// A group has the rows of some tenants that one transaction stores.
type group map[atrium.TenantID][]engine.Args

// tenants returns the tenants, sorted: transactions lock rows in one order.
func (g group) tenants() []atrium.TenantID { return slices.Sorted(maps.Keys(g)) }

// store stores rows with a batch, and calls trim for each tenant in the same transaction. It leaves out the
// rows of tenants that do not exist. On a sharded database, each transaction is of one tenant, because those
// of several tenants need several servers; store then continues after an error, and returns the first one.
func (s *Store) store(ctx context.Context, rows group, insert *engine.Batch, trim func(engine.Tx, atrium.TenantID) error) (err error) {
	groups := []group{rows}
	if s.db.Engine.Traits().Sharded {
		groups = nil
		for _, tenant := range rows.tenants() {
			groups = append(groups, group{tenant: rows[tenant]})
		}
	}
	for _, g := range groups {
		if groupErr := s.storeGroup(ctx, g, insert, trim); groupErr != nil && err == nil {
			err = groupErr
		}
	}
	return err
}

func (s *Store) storeGroup(ctx context.Context, rows group, insert *engine.Batch, trim func(engine.Tx, atrium.TenantID) error) error {
	return s.db.Write(ctx, func(tx engine.Tx) error {
		tx.Invalidate() // no cached response has these rows
		existing, err := kernel.ExistingTenants(tx, rows.tenants())
		if err != nil {
			return err
		}
		var all []engine.Args
		for _, tenant := range existing {
			all = append(all, rows[tenant]...)
		}
		if _, err := tx.Batch(insert, all, nil); err != nil {
			return fmt.Errorf("insert: %w", err)
		}
		for _, tenant := range existing {
			if err := trim(tx, tenant); err != nil {
				return fmt.Errorf("trim: %w", err)
			}
		}
		return nil
	})
}

// deleteOldest deletes a batch of a tenant's rows from before a time. It writes only if there are any, and
// reports whether others may follow. It deletes a range, so that concurrent transactions lock the rows in the
// same order.
func (s *Store) deleteOldest(ctx context.Context, tenant atrium.TenantID, table string, before atrium.Time) (more bool, err error) {
	n, last := 0, int64(0)
	if err := s.db.Query(ctx, "SELECT at FROM "+table+" WHERE tenant_id = $1 AND at < $2 ORDER BY at LIMIT $3",
		engine.Args{kernel.IDArg(tenant), int64(before), int64(expiryBatch)}, func(r engine.Row) error {
			n, last = n+1, r.Int(0)
			return nil
		}); err != nil || n == 0 {
		return false, err
	}
	return n == expiryBatch, s.db.Write(ctx, func(tx engine.Tx) error {
		tx.Invalidate() // no cached response has these rows
		_, err := tx.Exec("DELETE FROM "+table+" WHERE tenant_id = $1 AND at <= $2", kernel.IDArg(tenant), last)
		return err
	})
}
