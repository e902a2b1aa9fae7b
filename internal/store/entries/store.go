// Package entries appends entries to accounts, reads their timelines, and moves entries between
// accounts. It stores the templates of their summaries.
package entries

import (
	"sync"

	"atrium/internal/store/counts"
	"atrium/internal/store/kernel"
	"atrium/internal/store/tombstones"
)

// A Store stores entries. It is safe for concurrent use.
type Store struct {
	db  *kernel.DB
	due *counts.Due

	active        activeTenants
	mergedTenants sync.Map // tenants for which an append has found merged accounts
	secrets       tombstones.Cache
}

// New returns a Store on a database. It tells due which tenants have new entries.
func New(db *kernel.DB, due *counts.Due) *Store { return &Store{db: db, due: due} }
