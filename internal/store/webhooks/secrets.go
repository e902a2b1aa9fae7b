package webhooks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"atrium"
	"atrium/internal/secrets"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// urlHash returns what the audit log has of a URL.
func urlHash(url string) string {
	sum := sha256.Sum256([]byte(url))
	return hex.EncodeToString(sum[:])
}

const secretColumns = "secret_id, kind, sealed, created_at, expires_at"

// placeOf returns where a value is stored, as secrets.Keyring needs it.
func placeOf(tenant atrium.TenantID, webhook atrium.WebhookID, id atrium.WebhookSecretID) secrets.Ref {
	return secrets.RowRef("webhook_secrets", tenant, kernel.IDArg(webhook).([]byte), kernel.IDArg(id).([]byte))
}

// insertSecrets stores values, encrypted.
func (s *Store) insertSecrets(tx *kernel.Mutation, id atrium.WebhookID, values []atrium.WebhookSecret) error {
	for i := range values {
		made := &values[i]
		sealed, err := s.db.Secrets.Seal(placeOf(tx.Change.TenantID, id, made.ID), made.Value)
		if err != nil {
			return err
		}
		if _, err := tx.Exec("INSERT INTO webhook_secrets (tenant_id, webhook_id, secret_id, kind, sealed, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
			kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id), kernel.IDArg(made.ID), string(made.Kind), sealed, int64(tx.At)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) replaceHeaders(tx *kernel.Mutation, id atrium.WebhookID, headers []atrium.WebhookSecret) error {
	if _, err := tx.Exec("DELETE FROM webhook_secrets WHERE tenant_id = $1 AND webhook_id = $2 AND kind = $3",
		kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id), string(atrium.SecretHeaders)); err != nil {
		return err
	}
	return s.insertSecrets(tx, id, headers)
}

const selectSecrets = "SELECT " + secretColumns + " FROM webhook_secrets WHERE tenant_id = $1 AND webhook_id = $2 ORDER BY secret_id"

// WebhookSecrets returns the values of a webhook, decrypted, none if it does not exist: its custom headers, if it has any, and
// one or two secrets, the current one last. One that has expired is still there if no rotation has followed. It returns
// an error of package secrets if the keys of the process do not decrypt them.
func (s *Store) WebhookSecrets(ctx context.Context, tenant atrium.TenantID, id atrium.WebhookID) ([]atrium.WebhookSecret, error) {
	return s.secretsOf(s.db.OutsideTx(ctx), tenant, id)
}

func (s *Store) secretsOf(query kernel.QueryFunc, tenant atrium.TenantID, id atrium.WebhookID) (values []atrium.WebhookSecret, err error) {
	if err := query(selectSecrets, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) error {
		values = append(values, atrium.WebhookSecret{
			ID: kernel.IDAt[atrium.WebhookSecretID](r, 0), Kind: atrium.WebhookSecretKind(r.Text(1)), Value: r.Bytes(2),
			CreatedAt: atrium.Time(r.Int(3)), ExpiresAt: kernel.TimeAt(r, 4),
		})
		return nil
	}); err != nil {
		return nil, err
	}
	for i := range values {
		v := &values[i]
		if v.Value, err = s.db.Secrets.Open(placeOf(tenant, id, v.ID), v.Value); err != nil {
			return nil, fmt.Errorf("decrypt a secret of webhook %s: %w", id, err)
		}
	}
	return values, nil
}

// RotateWebhookSecret gives a webhook a new secret, and returns the webhook. The current secret signs as well until the
// grace period ends; one of an earlier rotation stops now. It first calls check with the webhook; an error of check ends
// the call. It returns NotFound if the tenant has no such webhook.
func (s *Store) RotateWebhookSecret(ctx context.Context, c atrium.Change, id atrium.WebhookID, secret atrium.WebhookSecret, grace time.Duration,
	check func(atrium.Webhook) error,
) (atrium.Webhook, error) {
	return s.change(ctx, c, id, check, func(tx *kernel.Mutation, w *atrium.Webhook) error {
		ends := atrium.At(tx.At.Std().Add(grace))
		key := engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(id), string(atrium.SecretSigning)}
		obsolete := " AND expires_at IS NOT NULL"
		if grace <= 0 {
			obsolete = ""
		}
		if _, err := tx.Exec("DELETE FROM webhook_secrets WHERE tenant_id = $1 AND webhook_id = $2 AND kind = $3"+obsolete, key...); err != nil {
			return err
		}
		if _, err := tx.Exec("UPDATE webhook_secrets SET expires_at = $1 WHERE tenant_id = $2 AND webhook_id = $3 AND kind = $4", int64(ends), key[0], key[1], key[2]); err != nil {
			return err
		}
		if err := s.insertSecrets(tx, id, []atrium.WebhookSecret{secret}); err != nil {
			return err
		}
		w.UpdatedAt = *tx.NotBefore(w.UpdatedAt + millisecond)
		tx.RecordDetail("webhook.rotate_secret", string(id), map[string]any{"previousEndsAt": ends})
		_, err := tx.Exec("UPDATE webhooks SET updated_at = $1 WHERE tenant_id = $2 AND webhook_id = $3", int64(w.UpdatedAt), key[0], key[1])
		return err
	})
}
