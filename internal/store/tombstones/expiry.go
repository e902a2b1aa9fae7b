package tombstones

import (
	"context"
	"fmt"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

const (
	expiryTenants = 100 // tenants per call of DeleteExpired
	expiryBatch   = 500 // tombstones per transaction
)

// A Store deletes expired tombstones. It is safe for concurrent use.
type Store struct{ db *kernel.DB }

// New returns a Store on a database.
func New(db *kernel.DB) *Store { return &Store{db} }

// DeleteExpiredTombstones deletes expired tombstones of up to expiryTenants tenants after the given
// one, "" for the first. It returns the tenant to continue after, "" at the end. Tenants take turns,
// with pauses (kernel.DB.InTurn). On an error it continues with the next tenant, and returns the first
// error. Until it is deleted, an expired tombstone still works.
func (s *Store) DeleteExpiredTombstones(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, err error) {
	tenants, err := s.db.TenantsAfter(ctx, after, expiryTenants)
	if err != nil {
		return after, err
	}
	if len(tenants) == expiryTenants {
		next = tenants[len(tenants)-1]
	}
	now := int64(atrium.At(s.db.Now()))
	if turnErr := s.db.InTurn(ctx, tenants, func(ctx context.Context, tenant atrium.TenantID) (bool, error) {
		more, tenantErr := s.deleteExpiredOf(ctx, tenant, now)
		if tenantErr != nil && err == nil {
			err = fmt.Errorf("delete expired tombstones of %s: %w", tenant, tenantErr)
		}
		return more && tenantErr == nil, nil
	}); turnErr != nil {
		return after, turnErr
	}
	return next, err
}

// deleteExpiredOf deletes a batch of a tenant's expired tombstones. It writes only if there are any, and
// reports whether others may follow.
func (s *Store) deleteExpiredOf(ctx context.Context, tenant atrium.TenantID, now int64) (more bool, err error) {
	found := false
	if err := s.db.Query(ctx, "SELECT 1 FROM tombstones WHERE tenant_id = $1 AND expires_at <= $2 LIMIT 1", engine.Args{kernel.IDArg(tenant), now},
		func(engine.Row) error {
			found = true
			return nil
		}); err != nil || !found {
		return false, err
	}
	err = s.db.Write(ctx, func(tx engine.Tx) error {
		n, err := tx.Exec(`DELETE FROM tombstones WHERE tenant_id = $1 AND entry_id IN
			(SELECT entry_id FROM tombstones WHERE tenant_id = $1 AND expires_at <= $2 ORDER BY expires_at LIMIT $3)`,
			kernel.IDArg(tenant), now, int64(expiryBatch))
		more = n == expiryBatch
		return err
	})
	return more, err
}
