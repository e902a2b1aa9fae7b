package tombstones

import (
	"context"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// expiryBatch is how many tombstones a transaction deletes.
const expiryBatch = 500

// A Store finds tombstones, and deletes expired ones. It is safe for concurrent use.
type Store struct{ db *kernel.DB }

// New returns a Store on a database.
func New(db *kernel.DB) *Store { return &Store{db} }

// Tombstone returns what is left of a deleted entry. It returns NotFound if there is nothing.
func (s *Store) Tombstone(ctx context.Context, tenant atrium.TenantID, id atrium.EntryID) (t atrium.Tombstone, err error) {
	err = s.db.Find(ctx, selectTombstone, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) { t = Scan(r, tenant) })
	return t, err
}

var selectTombstone = "SELECT " + Columns("$1") + " FROM tombstones t WHERE t.tenant_id = $1 AND t.entry_id = $2"

// DeleteExpiredTombstones deletes expired tombstones of some tenants: see kernel.DB.Expire. Until it is
// deleted, an expired tombstone still works.
func (s *Store) DeleteExpiredTombstones(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, err error) {
	now := int64(atrium.At(s.db.Now()))
	return s.db.Expire(ctx, after, func(ctx context.Context, tenant atrium.TenantID) (bool, error) {
		return s.deleteExpiredOf(ctx, tenant, now)
	})
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
