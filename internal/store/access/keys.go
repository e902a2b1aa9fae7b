package access

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

const keyColumns = "key_id, tenant_id, name, scopes, created_at, expires_at, revoked_at, previous_ends_at, last_used_at, origins"

func scanKey(r engine.Row) atrium.APIKey {
	k := atrium.APIKey{
		ID: kernel.IDAt[atrium.KeyID](r, 0), TenantID: kernel.IDAt[atrium.TenantID](r, 1), Name: r.Text(2), Scopes: atrium.ParseScopes(r.Text(3)),
		CreatedAt: atrium.Time(r.Int(4)), ExpiresAt: kernel.TimeAt(r, 5), RevokedAt: kernel.TimeAt(r, 6),
		PreviousEndsAt: kernel.TimeAt(r, 7), LastUsedAt: kernel.TimeAt(r, 8),
	}
	if origins := r.Text(9); origins != "" {
		k.Origins = strings.Fields(origins)
	}
	return k
}

func keyFields(k *atrium.APIKey) kernel.Fields {
	return kernel.Fields{"name": k.Name, "scopes": k.Scopes, "expiresAt": k.ExpiresAt, "revokedAt": k.RevokedAt, "previousEndsAt": k.PreviousEndsAt, "origins": k.Origins}
}

// ownerArg returns the tenant_id of the keys of a change: null for keys of operators, whose
// changes are in the operators' audit log.
func ownerArg(tenant atrium.TenantID) any {
	if tenant == atrium.OperatorChain {
		return nil
	}
	return kernel.IDArg(tenant)
}

// CreateKey stores a key with the hash of its secret. It returns the key with its creation time,
// and whether the same request created it before: then its secret is lost. The key belongs to the
// tenant of the change, or to an operator for atrium.OperatorChain. It returns NotFound if the
// tenant does not exist.
func (s *Store) CreateKey(ctx context.Context, c atrium.Change, k atrium.APIKey, secretHash []byte) (atrium.APIKey, bool, error) {
	return kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.APIKey, error) {
		made := k
		if made.CreatedAt, made.TenantID = tx.At, c.TenantID; c.TenantID == atrium.OperatorChain {
			made.TenantID = ""
		}
		given := keyFields(&made)
		delete(given, "revokedAt") // null in a new key
		delete(given, "previousEndsAt")
		if len(made.Origins) == 0 {
			delete(given, "origins")
		}
		tx.Record("key.create", string(made.ID), nil, given)
		_, err := tx.Exec(`INSERT INTO api_keys (key_id, tenant_id, name, scopes, secret_hash, created_at, expires_at, origins)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			kernel.IDArg(made.ID), ownerArg(c.TenantID), made.Name, made.Scopes.String(), secretHash, int64(made.CreatedAt), kernel.NullableTime(made.ExpiresAt),
			kernel.Nullable(strings.Join(made.Origins, " ")))
		if engine.ClassOf(err) == engine.Conflict { // the tenant does not exist: identifiers are new
			err = atrium.NotFound()
		}
		return made, err
	})
}

// keyExists is a condition on a key. A key of a tenant that is being deleted does not exist.
const keyExists = "NOT EXISTS (SELECT 1 FROM tenants x WHERE x.tenant_id = api_keys.tenant_id AND x.deleting_at IS NOT NULL)"

// Key returns a key, valid or not, with the hash of its current secret and of its previous
// secret, nil if there is none. It returns NotFound if the key does not exist.
func (s *Store) Key(ctx context.Context, id atrium.KeyID) (k atrium.APIKey, current, previous []byte, err error) {
	err = s.db.Find(ctx, "SELECT "+keyColumns+", secret_hash, previous_hash FROM api_keys WHERE key_id = $1 AND "+keyExists, engine.Args{kernel.IDArg(id)},
		func(r engine.Row) { k, current, previous = scanKey(r), r.Bytes(10), r.Bytes(11) })
	return k, current, previous, err
}

var keysByID = engine.NewBatch(`SELECT api_keys.key_id, api_keys.tenant_id, name, scopes, created_at, expires_at, revoked_at,
	previous_ends_at, last_used_at, origins, secret_hash, previous_hash FROM batch JOIN api_keys ON api_keys.key_id = batch.key_id
	WHERE `+keyExists, "key_id bytea")

// EachKey calls f with each of the keys that exist, valid or not, and with the hashes that Key
// returns, in any order.
func (s *Store) EachKey(ctx context.Context, ids []atrium.KeyID, f func(k atrium.APIKey, current, previous []byte)) error {
	rows := make([]engine.Args, len(ids))
	for i, id := range ids {
		rows[i] = engine.Args{kernel.IDArg(id)}
	}
	return s.db.Read(ctx, func(tx engine.Tx) error {
		_, err := tx.Batch(keysByID, rows, func(r engine.Row) error {
			f(scanKey(r), r.Bytes(10), r.Bytes(11))
			return nil
		})
		return err
	})
}

// TenantKey returns a key of a tenant, or of an operator for atrium.OperatorChain, valid or not.
// It returns NotFound if the key does not exist.
func (s *Store) TenantKey(ctx context.Context, tenant atrium.TenantID, id atrium.KeyID) (k atrium.APIKey, err error) {
	err = s.db.Find(ctx, selectKey, engine.Args{ownerArg(tenant), kernel.IDArg(id)}, func(r engine.Row) { k = scanKey(r) })
	return k, err
}

const selectKey = "SELECT " + keyColumns + " FROM api_keys WHERE tenant_id IS NOT DISTINCT FROM $1 AND key_id = $2"

// Keys returns up to limit keys of a tenant, or of operators for atrium.OperatorChain, by
// descending identifier, after the position, or from the first if it is nil. If keep is not nil,
// it returns only the keys for which keep returns true. next is the position to continue after,
// nil at the end of the list. One call reads at most kernel.ScanLimit rows and may return fewer
// keys than limit before the end, or none.
func (s *Store) Keys(ctx context.Context, tenant atrium.TenantID, keep func(atrium.APIKey) bool, after *atrium.Position, limit int) (keys []atrium.APIKey, next *atrium.Position, err error) {
	most := kernel.ScanLimit
	if keep == nil {
		most, keep = limit, func(atrium.APIKey) bool { return true }
	}
	q := &kernel.SelectBuilder{}
	q.SQL.WriteString("SELECT " + keyColumns + " FROM api_keys WHERE ")
	if tenant == atrium.OperatorChain {
		q.Add("tenant_id IS NULL AND key_id < ", idBefore(after))
	} else {
		q.Add("tenant_id = ", kernel.IDArg(tenant))
		q.Add(" AND key_id < ", idBefore(after))
	}
	q.Add(" ORDER BY key_id DESC LIMIT ", int64(most)+1)
	found, next, err := kernel.Filter(s.db.OutsideTx(ctx), q, limit, func(r *kernel.SizedRow) kernel.Item[atrium.APIKey] {
		before := r.Size
		k := scanKey(r)
		return kernel.Item[atrium.APIKey]{Value: k, Bytes: r.Size - before}
	}, keep, func(k atrium.APIKey) *atrium.Position { return atrium.PositionAt(0, k.ID) })
	return found.Values, next, err
}

// idBefore returns the exclusive upper bound of the identifiers after a position of a list by
// descending identifier.
func idBefore(p *atrium.Position) []byte {
	if p == nil {
		return []byte{0xff} // greater than all identifiers
	}
	return kernel.PackID(p.ID)
}

// lockKey locks a key until the end of the transaction and returns it.
func lockKey(tx *kernel.Mutation, id atrium.KeyID) (k atrium.APIKey, err error) {
	err = engine.Find(tx.Lock, selectKey, engine.Args{ownerArg(tx.Change.TenantID), kernel.IDArg(id)}, func(r engine.Row) { k = scanKey(r) })
	return k, err
}

// RotateKey gives a key a new secret and returns the key, and whether the same request rotated it
// before: then the hash is not stored. The current secret becomes the previous one and works
// until the grace period ends; with a grace of 0 it is removed, so that it stops working even on
// nodes whose clock is behind. The secret of an earlier rotation stops working now. RotateKey
// first calls check with the current key; an error of check ends the call. It returns NotFound if
// the tenant has no such key, and Conflict if it is revoked or expired.
func (s *Store) RotateKey(ctx context.Context, c atrium.Change, id atrium.KeyID, secretHash []byte, grace time.Duration, check func(atrium.APIKey) error) (atrium.APIKey, bool, error) {
	return kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.APIKey, error) {
		k, err := lockKey(tx, id)
		if err != nil {
			return k, err
		}
		if err := check(k); err != nil {
			return k, err
		}
		if !k.WorksAt(tx.At) {
			return k, atrium.Errorf(atrium.CodeConflict, "The key is revoked or expired: make a new one.")
		}
		before, ends := keyFields(&k), atrium.At(tx.At.Std().Add(grace))
		k.PreviousEndsAt = &ends
		tx.Record("key.rotate", string(id), before, keyFields(&k))
		former := "secret_hash"
		if grace <= 0 {
			former = "NULL"
		}
		_, err = tx.Exec("UPDATE api_keys SET previous_hash = "+former+`, previous_ends_at = $1, secret_hash = $2
			WHERE tenant_id IS NOT DISTINCT FROM $3 AND key_id = $4`, int64(ends), secretHash, ownerArg(c.TenantID), kernel.IDArg(id))
		return k, err
	})
}

var useKeys = engine.NewBatch(`UPDATE api_keys SET last_used_at = batch.at FROM batch
	WHERE api_keys.key_id = batch.key_id AND (api_keys.last_used_at IS NULL OR api_keys.last_used_at < batch.at)`,
	"key_id bytea", "at bigint")

// UseKeys stores when keys were last used. It ignores keys that do not exist, and times before
// the stored one.
func (s *Store) UseKeys(ctx context.Context, used map[atrium.KeyID]atrium.Time) error {
	rows := make([]engine.Args, 0, len(used))
	for _, id := range slices.Sorted(maps.Keys(used)) {
		rows = append(rows, engine.Args{kernel.IDArg(id), int64(used[id])})
	}
	return s.db.Write(ctx, func(tx engine.Tx) error {
		tx.Invalidate() // none: no cached response has last_used_at
		_, err := tx.Batch(useKeys, rows, nil)
		return err
	})
}

// RevokeKey revokes a key permanently and returns it. A key that was revoked before keeps its
// revocation time. RevokeKey first calls check with the current key; an error of check ends the
// call. It returns NotFound if the tenant has no such key.
func (s *Store) RevokeKey(ctx context.Context, c atrium.Change, id atrium.KeyID, check func(atrium.APIKey) error) (atrium.APIKey, error) {
	k, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.APIKey, error) {
		k, err := lockKey(tx, id)
		if err != nil {
			return k, err
		}
		if err := check(k); err != nil || k.RevokedAt != nil {
			return k, err
		}
		before := keyFields(&k)
		k.RevokedAt = tx.NotBefore(k.CreatedAt)
		tx.Record("key.revoke", string(id), before, keyFields(&k))
		_, err = tx.Exec("UPDATE api_keys SET revoked_at = $1 WHERE tenant_id IS NOT DISTINCT FROM $2 AND key_id = $3",
			int64(*k.RevokedAt), ownerArg(c.TenantID), kernel.IDArg(id))
		return k, err
	})
	return k, err
}
