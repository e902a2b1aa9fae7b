// Package kernel is what all parts of the store share: transactions, changes with their record
// in the audit log, idempotency keys, identifiers and columns, and pages of lists.
package kernel

import (
	"time"

	"atrium/internal/store/engine"
)

// A DB is a database with its schema. It is safe for concurrent use.
type DB struct {
	Engine engine.DB        // its errors are not public
	Now    func() time.Time // the clock
}
