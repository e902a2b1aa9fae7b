// Package access stores tenants and API keys.
package access

import "atrium/internal/store/kernel"

// A Store reads and changes tenants and API keys. It is safe for concurrent use.
type Store struct {
	db *kernel.DB
}

// New returns the Store on a database.
func New(db *kernel.DB) *Store { return &Store{db: db} }
