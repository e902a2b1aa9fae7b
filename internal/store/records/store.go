// Package records exports and imports all data of a tenant.
package records

import (
	"atrium/internal/store/access"
	"atrium/internal/store/kernel"
)

// A Store exports and imports records. It is safe for concurrent use.
type Store struct {
	db     *kernel.DB
	access *access.Store
}

// New returns the Store on a database.
func New(db *kernel.DB, access *access.Store) *Store { return &Store{db: db, access: access} }
