package receivers

import (
	"context"
	"fmt"
	"time"

	"atrium"
	"atrium/internal/secrets"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// placeOf returns where a secret is stored, as secrets.Keyring needs it.
func placeOf(tenant atrium.TenantID, receiver atrium.ReceiverID, id atrium.ReceiverSecretID) secrets.Ref {
	return secrets.RowRef("receiver_secrets", tenant, kernel.IDArg(receiver).([]byte), kernel.IDArg(id).([]byte))
}

// insertSecret stores a secret, encrypted.
func (s *Store) insertSecret(tx *kernel.Mutation, id atrium.ReceiverID, made atrium.ReceiverSecret) error {
	sealed, err := s.db.Secrets.Seal(placeOf(tx.Change.TenantID, id, made.ID), made.Value)
	if err != nil {
		return err
	}
	_, err = tx.Exec("INSERT INTO receiver_secrets (tenant_id, receiver_id, secret_id, sealed, created_at) VALUES ($1, $2, $3, $4, $5)",
		kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id), kernel.IDArg(made.ID), sealed, int64(tx.At))
	return err
}

// findTenant returns the tenant of a receiver that exists and is not being deleted.
var findTenant = "SELECT t.tenant_id FROM receiver_tenants t WHERE t.receiver_id = $1 AND " + kernel.Exists("t.tenant_id") + " = 1"

const findReceiver = "SELECT " + receiverColumns + `, s.secret_id, s.sealed, s.created_at, s.expires_at
	FROM receivers r LEFT JOIN receiver_secrets s ON s.tenant_id = $1 AND s.receiver_id = $2
	WHERE r.tenant_id = $1 AND r.receiver_id = $2 ORDER BY s.secret_id DESC`

// FindReceiver returns a receiver of any tenant, for a request to it, and its secrets that are valid now, decrypted, the current
// one first. It returns NotFound if there is no such receiver, and an error of package secrets if the keys of the process
// do not decrypt them.
func (s *Store) FindReceiver(ctx context.Context, id atrium.ReceiverID) (found atrium.Receiver, valid []atrium.ReceiverSecret, err error) {
	var tenant atrium.TenantID
	if err := s.db.Find(ctx, findTenant, engine.Args{kernel.IDArg(id)}, func(r engine.Row) { tenant = kernel.IDAt[atrium.TenantID](r, 0) }); err != nil {
		return found, nil, err
	}
	now, scan := atrium.At(s.db.Now()), scanner{tenant: tenant}
	if err := s.db.Query(ctx, findReceiver, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) error {
		found = scan.scan(r)
		const at = receiverColumnCount
		if expires := kernel.TimeAt(r, at+3); !r.Null(at) && (expires == nil || now < *expires) {
			valid = append(valid, atrium.ReceiverSecret{
				ID: kernel.IDAt[atrium.ReceiverSecretID](r, at), Value: r.Bytes(at + 1), CreatedAt: atrium.Time(r.Int(at + 2)), ExpiresAt: expires,
			})
		}
		return scan.err
	}); err != nil {
		return found, nil, err
	}
	if found.ID == "" { // it was deleted after the first query
		return found, nil, atrium.NotFound()
	}
	for i := range valid {
		v := &valid[i]
		if v.Value, err = s.db.Secrets.Open(placeOf(tenant, id, v.ID), v.Value); err != nil {
			return found, nil, fmt.Errorf("decrypt a secret of receiver %s: %w", id, err)
		}
	}
	return found, valid, nil
}

// RotateReceiverSecret gives a receiver a new secret, and returns the receiver. The current secret is valid as well until the
// grace period ends; one of an earlier rotation is invalid from now on. It first calls check with the receiver; an error of
// check ends the call. It returns NotFound if the tenant has no such receiver.
func (s *Store) RotateReceiverSecret(ctx context.Context, c atrium.Change, id atrium.ReceiverID, secret atrium.ReceiverSecret, grace time.Duration,
	check func(atrium.Receiver) error,
) (atrium.Receiver, error) {
	return s.change(ctx, c, id, check, func(tx *kernel.Mutation, r *atrium.Receiver) error {
		ends := atrium.At(tx.At.Std().Add(grace))
		key := engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(id)}
		obsolete := " AND expires_at IS NOT NULL"
		if grace <= 0 {
			obsolete = ""
		}
		if _, err := tx.Exec("DELETE FROM receiver_secrets WHERE tenant_id = $1 AND receiver_id = $2"+obsolete, key...); err != nil {
			return err
		}
		if _, err := tx.Exec("UPDATE receiver_secrets SET expires_at = $1 WHERE tenant_id = $2 AND receiver_id = $3", int64(ends), key[0], key[1]); err != nil {
			return err
		}
		if err := s.insertSecret(tx, id, secret); err != nil {
			return err
		}
		r.UpdatedAt = *tx.NotBefore(r.UpdatedAt + millisecond)
		tx.RecordDetail("receiver.rotate_secret", string(id), map[string]any{"previousEndsAt": ends})
		_, err := tx.Exec("UPDATE receivers SET updated_at = $1 WHERE tenant_id = $2 AND receiver_id = $3", int64(r.UpdatedAt), key[0], key[1])
		return err
	})
}
