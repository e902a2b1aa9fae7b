package store

import (
	"context"
	"maps"
	"slices"
	"time"

	"atrium"
	"atrium/internal/store/engine"
)

const keyColumns = "key_id, tenant_id, name, scopes, created_at, expires_at, revoked_at, previous_ends_at, last_used_at"

func scanKey(r engine.Row) atrium.APIKey {
	return atrium.APIKey{
		ID: idAt[atrium.KeyID](r, 0), TenantID: idAt[atrium.TenantID](r, 1), Name: r.Text(2), Scopes: atrium.ParseScopes(r.Text(3)),
		CreatedAt: atrium.Time(r.Int(4)), ExpiresAt: timeAt(r, 5), RevokedAt: timeAt(r, 6),
		PreviousEndsAt: timeAt(r, 7), LastUsedAt: timeAt(r, 8),
	}
}

// CreateKey stores a key with the hash of its secret, and returns it with the
// time at which that was. It is NotFound if there is no such tenant.
func (s *Store) CreateKey(ctx context.Context, k atrium.APIKey, secretHash []byte) (atrium.APIKey, error) {
	k.CreatedAt = atrium.At(s.now())
	err := s.write(ctx, func(tx engine.Tx) error {
		_, err := tx.Exec(`INSERT INTO api_keys (key_id, tenant_id, name, scopes, secret_hash, created_at, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			idArg(k.ID), idArg(k.TenantID), k.Name, k.Scopes.String(), secretHash, int64(k.CreatedAt), nullableTime(k.ExpiresAt))
		if engine.ClassOf(err) == engine.Conflict { // it is the tenant that is missing: identifiers are new
			return atrium.NotFound()
		}
		return err
	})
	return k, err
}

// Key returns a key, whether it works or not, with the hash of its secret and of
// the one before its last rotation, nil if there is none. It is NotFound if there
// is no such key.
func (s *Store) Key(ctx context.Context, id atrium.KeyID) (k atrium.APIKey, current, previous []byte, err error) {
	err = s.find(ctx, "SELECT "+keyColumns+", secret_hash, previous_hash FROM api_keys WHERE key_id = $1", engine.Args{idArg(id)},
		func(r engine.Row) { k, current, previous = scanKey(r), r.Bytes(9), r.Bytes(10) })
	return k, current, previous, err
}

// Keys returns the keys of a tenant, oldest identifier first.
func (s *Store) Keys(ctx context.Context, tenant atrium.TenantID) (all []atrium.APIKey, err error) {
	err = s.query(ctx, "SELECT "+keyColumns+" FROM api_keys WHERE tenant_id = $1 ORDER BY key_id", engine.Args{idArg(tenant)},
		func(r engine.Row) error {
			all = append(all, scanKey(r))
			return nil
		})
	return all, err
}

// RotateKey gives a key a new secret and returns it. The secret that it had goes on
// working for the grace; one that was rotated out before ends now. It is NotFound
// if there is no such key, and Conflict if it is revoked or expired.
func (s *Store) RotateKey(ctx context.Context, id atrium.KeyID, secretHash []byte, grace time.Duration) (k atrium.APIKey, err error) {
	err = s.write(ctx, func(tx engine.Tx) error {
		now := s.now()
		if err := engine.Find(tx.Lock, "SELECT "+keyColumns+" FROM api_keys WHERE key_id = $1", engine.Args{idArg(id)},
			func(r engine.Row) { k = scanKey(r) }); err != nil {
			return err
		}
		if !k.WorksAt(atrium.At(now)) {
			return atrium.Errorf(atrium.CodeConflict, "The key is revoked or expired: make a new one.")
		}
		ends := atrium.At(now.Add(grace))
		k.PreviousEndsAt = &ends
		_, err := tx.Exec(`UPDATE api_keys SET previous_hash = secret_hash, previous_ends_at = $1, secret_hash = $2 WHERE key_id = $3`,
			int64(ends), secretHash, idArg(id))
		return err
	})
	return k, err
}

var useKeys = engine.NewBatch(`UPDATE api_keys SET last_used_at = batch.at FROM batch
	WHERE api_keys.key_id = batch.key_id AND (api_keys.last_used_at IS NULL OR api_keys.last_used_at < batch.at)`,
	"key_id bytea", "at bigint")

// UseKeys notes when keys were last used. Keys that are not there any more, or
// that were used later, are left alone.
func (s *Store) UseKeys(ctx context.Context, used map[atrium.KeyID]atrium.Time) error {
	rows := make([]engine.Args, 0, len(used))
	for _, id := range slices.Sorted(maps.Keys(used)) {
		rows = append(rows, engine.Args{idArg(id), int64(used[id])})
	}
	return s.write(ctx, func(tx engine.Tx) error {
		_, err := tx.Batch(useKeys, rows, nil)
		return err
	})
}

// RevokeKey ends a key for good and returns it. A key that was revoked before
// keeps its first time. It is NotFound if there is no such key.
func (s *Store) RevokeKey(ctx context.Context, id atrium.KeyID) (k atrium.APIKey, err error) {
	err = s.write(ctx, func(tx engine.Tx) error {
		return engine.Find(tx.Query, "UPDATE api_keys SET revoked_at = COALESCE(revoked_at, $1) WHERE key_id = $2 RETURNING "+keyColumns,
			engine.Args{int64(atrium.At(s.now())), idArg(id)}, func(r engine.Row) { k = scanKey(r) })
	})
	return k, err
}
