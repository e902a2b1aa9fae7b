package store

import (
	"context"

	"atrium"
	"atrium/internal/store/engine"
)

const keyColumns = "key_id, tenant_id, name, scopes, created_at, expires_at, revoked_at"

func scanKey(r engine.Row) atrium.APIKey {
	return atrium.APIKey{
		ID: idAt[atrium.KeyID](r, 0), TenantID: idAt[atrium.TenantID](r, 1), Name: r.Text(2), Scopes: atrium.ParseScopes(r.Text(3)),
		CreatedAt: atrium.Time(r.Int(4)), ExpiresAt: timeAt(r, 5), RevokedAt: timeAt(r, 6),
	}
}

// CreateKey stores a key with the hash of its secret, and returns it with the
// time at which that was. It is NotFound if there is no such tenant.
func (s *Store) CreateKey(ctx context.Context, k atrium.APIKey, secretHash []byte) (atrium.APIKey, error) {
	k.CreatedAt = atrium.At(s.now())
	err := s.write(ctx, func(tx engine.Tx) error {
		n, err := tx.Exec(`INSERT INTO api_keys (key_id, tenant_id, name, scopes, secret_hash, created_at, expires_at)
			SELECT $1, tenant_id, $2, $3, $4, $5, $6 FROM tenants WHERE tenant_id = $7`,
			idArg(k.ID), k.Name, k.Scopes.String(), secretHash, int64(k.CreatedAt), nullableTime(k.ExpiresAt), idArg(k.TenantID))
		if err == nil && n == 0 {
			return atrium.NotFound()
		}
		return err
	})
	return k, err
}

// Key returns a key and the hash of its secret, whether it works or not, or
// NotFound.
func (s *Store) Key(ctx context.Context, id atrium.KeyID) (k atrium.APIKey, secretHash []byte, err error) {
	err = s.read(ctx, func(tx engine.Tx) error {
		return engine.One(tx, "SELECT "+keyColumns+", secret_hash FROM api_keys WHERE key_id = $1", engine.Args{idArg(id)},
			func(r engine.Row) { k, secretHash = scanKey(r), r.Bytes(7) })
	})
	return k, secretHash, err
}

// Keys returns the keys of a tenant, oldest identifier first.
func (s *Store) Keys(ctx context.Context, tenant atrium.TenantID) (all []atrium.APIKey, err error) {
	err = s.read(ctx, func(tx engine.Tx) error {
		return tx.Query("SELECT "+keyColumns+" FROM api_keys WHERE tenant_id = $1 ORDER BY key_id", engine.Args{idArg(tenant)},
			func(r engine.Row) error {
				all = append(all, scanKey(r))
				return nil
			})
	})
	return all, err
}

// RevokeKey ends a key for good and returns it. A key that was revoked before
// keeps its first time. It is NotFound if there is no such key.
func (s *Store) RevokeKey(ctx context.Context, id atrium.KeyID) (k atrium.APIKey, err error) {
	err = s.write(ctx, func(tx engine.Tx) error {
		return engine.One(tx, "UPDATE api_keys SET revoked_at = COALESCE(revoked_at, $1) WHERE key_id = $2 RETURNING "+keyColumns,
			engine.Args{int64(atrium.At(s.now())), idArg(id)}, func(r engine.Row) { k = scanKey(r) })
	})
	return k, err
}
