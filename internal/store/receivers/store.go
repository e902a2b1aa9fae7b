// Package receivers stores receivers, their secrets, and their deliveries in quarantine.
//
// A receiver belongs to one tenant. Requests to it name only the receiver, so the shared table receiver_tenants has
// the tenant; all other statements name it.
//
// A tenant has a bounded number of deliveries in quarantine, and of bytes of them. Each transaction that adds or deletes some
// changes the tenant's row in quarantine_totals, which is counted again before a delivery is refused, once a minute. A receiver with
// deliveries in quarantine is not deleted. Transactions lock the receiver first, then its deliveries in the order
// of their identifiers, then the totals, then accounts, then the head of the audit log.
package receivers

import (
	"time"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// A Store stores receivers and what they have in quarantine. It is safe for concurrent use.
type Store struct {
	db       *kernel.DB
	append   Append
	recounts recounts

	// QuarantineRetention is how long deliveries are in quarantine before they are deleted. Set it before the first call.
	QuarantineRetention time.Duration
}

// Append stores drafts in a transaction; see entries.Store.AppendIn.
type Append func(tx engine.Tx, drafts []*atrium.Draft) (outcomes []atrium.Outcome, committed func(), err error)

// New returns a Store on a database, whose entries appendIn stores.
func New(db *kernel.DB, appendIn Append) *Store {
	return &Store{db: db, append: appendIn, QuarantineRetention: atrium.DefaultQuarantineRetention}
}
