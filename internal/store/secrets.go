package store

import (
	"context"

	"atrium/internal/secrets"
	"atrium/internal/store/copies"
	"atrium/internal/store/kernel"
)

// UseSecrets sets the keys that encrypt and decrypt secrets. Call it before the Store is used.
func (s *Store) UseSecrets(keys *secrets.Keyring) { s.db.Secrets = keys }

// SecretKeys returns the IDs of the keys that the stored secrets may need.
func (s *Store) SecretKeys(ctx context.Context) ([]secrets.KeyID, error) {
	return kernel.SecretKeys(s.db.OutsideTx(ctx))
}

// MissingSecretKeys returns the IDs of the keys that the stored secrets may need and this process lacks. If it lacks
// none, it records the key with which the process encrypts; otherwise the process can store no secrets. Call it
// before the process stores one.
func (s *Store) MissingSecretKeys(ctx context.Context) ([]secrets.KeyID, error) {
	return s.db.MissingSecretKeys(ctx)
}

// Rewrapping is the result of Rewrap; see copies.Rewrapping.
type Rewrapping = copies.Rewrapping

// Rewrap encrypts all stored secrets with the first key of UseSecrets; see copies.Rewrap. There must be one, and
// MissingSecretKeys must be empty.
func (s *Store) Rewrap(ctx context.Context) (Rewrapping, error) {
	done, err := copies.Rewrap(ctx, s.db)
	return done, kernel.Public(err)
}

// ForgetSecretKeys declares keys lost, and with them the secrets that they encrypt. Processes without these keys then become ready.
func (s *Store) ForgetSecretKeys(ctx context.Context, ids ...secrets.KeyID) error {
	return s.db.ForgetSecretKeys(ctx, ids...)
}
