// Package pages stores brands, their pages, and the audiences and versions of pages.
package pages

import "atrium/internal/store/kernel"

// A Store reads and changes brands and pages. It is safe for concurrent use.
type Store struct {
	db *kernel.DB

	// KeepVersions is how many versions an audience keeps in addition to the published one,
	// newest first; 0 keeps all. Set it before the Store is used.
	KeepVersions int
}

// New returns the Store on a database.
func New(db *kernel.DB) *Store { return &Store{db: db} }
