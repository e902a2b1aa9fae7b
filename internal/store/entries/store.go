// Package entries appends entries to accounts, reads their timelines, and moves them.
package entries

import (
	"sync"
	"sync/atomic"

	"atrium/internal/store/kernel"
)

// A Store keeps entries. It is safe for concurrent use.
type Store struct {
	db *kernel.DB

	merging sync.Map     // the tenants to one of whose merged accounts an entry has gone
	careful atomic.Int32 // how many appends look for their keys first; see carefulBatches
}

// New returns the Store on a database.
func New(db *kernel.DB) *Store { return &Store{db: db} }
