// Package erasures deletes accounts and prospects for good, in parts, with everything that says
// something of them.
package erasures

import (
	"atrium/internal/store/accounts"
	"atrium/internal/store/kernel"
)

// A Store erases accounts and prospects. It is safe for concurrent use.
type Store struct {
	db       *kernel.DB
	accounts *accounts.Store
	purges   purges
}

// New returns the Store on a database.
func New(db *kernel.DB, accounts *accounts.Store) *Store {
	return &Store{db: db, accounts: accounts, purges: purges{turn: make(chan struct{}, 1)}}
}
