package access

import (
	"context"
	"fmt"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// Limits of ReportExpiringKeys.
const (
	noticeTenants = 100 // of one call
	noticeKeys    = 100 // read at a time
)

// ReportExpiringKeys adds an audit record, and so an event, for each valid key that expires within
// atrium.KeyExpiryNotice and has no such record yet. It looks at up to noticeTenants tenants after the given one, ""
// for the first, and leaves out those without events. It returns the tenant to continue after, "" at the end. If a
// tenant fails, it continues with the others and returns the first error.
func (s *Store) ReportExpiringKeys(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, err error) {
	tenants, err := s.db.TenantsAfter(ctx, after, noticeTenants)
	if err != nil {
		return after, err
	}
	if len(tenants) == noticeTenants {
		next = tenants[len(tenants)-1]
	}
	for _, tenant := range tenants {
		if tenantErr := s.reportExpiringKeys(ctx, tenant); tenantErr != nil && err == nil {
			err = fmt.Errorf("report the keys of %s that expire: %w", tenant, tenantErr)
		}
	}
	return next, err
}

// findExpiring lists keys of a tenant that expire, by identifier.
const findExpiring = `SELECT key_id FROM api_keys WHERE tenant_id = $1 AND key_id > $2 AND revoked_at IS NULL
	AND expires_at > $3 AND expires_at <= $4 ORDER BY key_id LIMIT $5`

func (s *Store) reportExpiringKeys(ctx context.Context, tenant atrium.TenantID) error {
	query := s.db.OutsideTx(ctx)
	enabled, err := kernel.EventsEnabled(query, tenant)
	if err != nil || !enabled {
		return err
	}
	now := s.db.Now()
	from, until := int64(atrium.At(now)), int64(atrium.At(now.Add(atrium.KeyExpiryNotice)))
	for last, n := any([]byte{}), noticeKeys; n == noticeKeys; {
		n = 0
		var ids []atrium.KeyID
		if err := query(findExpiring, engine.Args{kernel.IDArg(tenant), last, from, until, int64(noticeKeys)}, func(r engine.Row) error {
			n, last, ids = n+1, r.Bytes(0), append(ids, kernel.IDAt[atrium.KeyID](r, 0))
			return nil
		}); err != nil {
			return err
		}
		for _, id := range ids {
			if reported, err := isReported(query, tenant, id); err != nil {
				return err
			} else if reported {
				continue
			}
			if err := s.reportExpiring(ctx, tenant, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// isReported reports whether there is a record of the expiry of a key.
func isReported(query kernel.QueryFunc, tenant atrium.TenantID, id atrium.KeyID) (found bool, err error) {
	err = query("SELECT number FROM audit WHERE tenant_id = $1 AND subject = $2 AND action = $3 ORDER BY number LIMIT 1",
		engine.Args{kernel.IDArg(tenant), string(id), atrium.ActionKeyExpiring}, func(engine.Row) error {
			found = true
			return nil
		})
	return found, err
}

// reportExpiring adds the record about a key, unless another node has, or the key was revoked.
func (s *Store) reportExpiring(ctx context.Context, tenant atrium.TenantID, id atrium.KeyID) error {
	c := atrium.Change{TenantID: tenant, Actor: atrium.ActorExpiry}
	_, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (none struct{}, err error) {
		k, err := lockKey(tx, id)
		if err != nil {
			return none, err
		}
		reported, err := isReported(tx.Query, tenant, id)
		if err != nil || reported || k.RevokedAt != nil || k.ExpiresAt == nil {
			return none, err
		}
		tx.RecordDetail(atrium.ActionKeyExpiring, string(id), map[string]any{"name": k.Name, "expiresAt": *k.ExpiresAt})
		return none, nil
	})
	return err
}
