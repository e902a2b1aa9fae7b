// Package kernel contains what all parts of the store share: transactions, audited changes,
// idempotency keys, identifiers, columns and pagination.
package kernel

import (
	"time"

	"atrium/internal/secrets"
	"atrium/internal/store/engine"
)

// A DB is a database with its schema. It is safe for concurrent use.
type DB struct {
	Engine engine.DB // returns engine errors; see Public
	Now    func() time.Time
	Events PendingEvents

	// Secrets encrypts and decrypts what is stored encrypted; nil if the process has no keys.
	Secrets *secrets.Keyring

	background pauses
}
