// Package audit reads and verifies audit logs.
package audit

import "atrium/internal/store/kernel"

// A Store reads audit logs. The transactions of changes write them. It is safe for concurrent
// use.
type Store struct {
	db *kernel.DB
}

// New returns the Store on a database.
func New(db *kernel.DB) *Store { return &Store{db: db} }
