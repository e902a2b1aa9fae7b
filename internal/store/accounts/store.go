// Package accounts stores accounts and prospects, with merges, links and search terms. Merged
// accounts form a group: a tree whose root, the survivor, is shown for all of them. An identifier
// or domain leads to an account: to itself, or to the survivor if its account was merged.
package accounts

import (
	"context"

	"atrium"
	"atrium/internal/store/kernel"
)

// A Store stores accounts and prospects. It is safe for concurrent use.
type Store struct {
	db *kernel.DB

	renames kernel.Groups[*rename]

	// AdmitCheck waits until a tenant may run an expensive precondition check, which depends on
	// many prospects and uses a connection and a CPU. The check calls yield regularly, to let
	// others use the CPU, and release at the end. A nil AdmitCheck admits all checks. It must be
	// set before the Store is used.
	AdmitCheck func(context.Context, atrium.TenantID) (yield func() error, release func(), err error)
}

// New returns a Store on a database.
func New(db *kernel.DB) *Store { return &Store{db: db} }
