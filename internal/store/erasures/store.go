// Package erasures permanently deletes accounts, prospects, persons, tenants, and entries that retention
// rules select, in batches.
package erasures

import (
	"sync/atomic"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/kernel"
)

// A Store erases accounts, prospects and persons, and deletes tenants and old entries. It is safe for
// concurrent use.
type Store struct {
	db       *kernel.DB
	accounts *accounts.Store
	purges   purges
	passes   tenantPasses
	round    retentionRound
	pending  atomic.Int64 // tenants with incomplete erasures of persons, as of the last run
	deleting atomic.Int64 // tenants that are being deleted, as of the last run
	expired  atomic.Int64 // entries that retention rules have deleted
	waiting  atomic.Bool  // whether rules were not applied in the last round, because of the clock
}

// New returns a Store on a database.
func New(db *kernel.DB, accounts *accounts.Store) *Store {
	return &Store{
		db: db, accounts: accounts, purges: purges{slot: make(chan struct{}, 1)},
		passes: tenantPasses{all: map[atrium.TenantID]*tenantPass{}},
		round:  retentionRound{ended: map[atrium.TenantID]expiredCount{}},
	}
}
