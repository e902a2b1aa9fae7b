// Package pages keeps brands, their pages, and the audiences and versions of pages.
package pages

import "atrium/internal/store/kernel"

// A Store keeps brands and pages. It is safe for concurrent use.
type Store struct {
	db *kernel.DB

	// How many versions an audience keeps beside the one that is published, the newest
	// ones; 0 for all. It is set before the Store is used.
	KeepVersions int
}

// New returns the Store on a database.
func New(db *kernel.DB) *Store { return &Store{db: db} }
