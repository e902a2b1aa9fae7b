// Package accounts keeps accounts and prospects, what is merged and linked, and the terms by
// which they are found.
package accounts

import (
	"context"

	"atrium"
	"atrium/internal/store/kernel"
)

// A Store keeps accounts and prospects. It is safe for concurrent use.
type Store struct {
	db *kernel.DB

	// AdmitCheck waits until a tenant may have a precondition checked that depends on many
	// prospects: that takes a connection and a processor. yield is called from time to time,
	// so that others can have the processor. nil admits everyone. It is set before the Store
	// is used.
	AdmitCheck func(context.Context, atrium.TenantID) (yield func() error, release func(), err error)
}

// New returns the Store on a database.
func New(db *kernel.DB) *Store { return &Store{db: db} }
