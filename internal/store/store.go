// Package store keeps everything that tenants have, on any engine: it owns the
// schema, all SQL, and the rules that must hold inside of a transaction.
//
// Every method that touches what a tenant has takes the tenant, and finds
// nothing of another one. Errors that a caller may see are *atrium.Error:
// NotFound, Conflict and so on as the method says, and Unavailable whenever the
// database could not do its work and nothing was changed. Any other error is a
// bug or a damaged database.
package store

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/engine/sqlite"
)

// A Store is one database with its schema. It is safe for concurrent use.
type Store struct {
	db  engine.DB
	now func() time.Time

	// How many versions an audience keeps beside the one that is published, the newest
	// ones; 0 for all. It is set before the Store is used.
	KeepVersions int

	// AdmitCheck waits until a tenant may have a precondition checked that depends on many
	// prospects: that takes a connection and a processor. yield is called from time to time,
	// so that others can have the processor. nil admits everyone. It is set before the Store
	// is used.
	AdmitCheck func(context.Context, atrium.TenantID) (yield func() error, release func(), err error)

	purges  purges
	merging sync.Map     // the tenants to one of whose merged accounts an entry has gone
	careful atomic.Int32 // how many appends look for their keys first; see carefulBatches
}

// An Observer is told what the database does; see engine.Observer.
type Observer = engine.Observer

// Options are how a Store uses its database. They may all be left out.
type Options struct {
	Observer Observer // nil for none

	// Of an embedded database alone: whether one that was not closed is checked before
	// it is used. That takes some seconds, and is not done above 1 GiB.
	CheckAfterCrash bool

	// Of an embedded database alone: it is there, and is only read. Neither it nor its log
	// is changed.
	ReadOnly bool

	// Of a server alone.
	Connections int           // how many at most; 0 for the engine's default
	Timeout     time.Duration // of a statement, and of the wait for a connection; 0 for the engine's default
	Unprepared  bool          // keep nothing on the server between transactions, for a pool that shares connections
}

// Open returns the store at a database URL: "sqlite:" and the path of a file,
// which is made if there is none, or the postgres:// URL of a server that answers.
// Migrations are the caller's to run.
func Open(ctx context.Context, url string, options Options) (*Store, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	var db engine.DB
	var err error
	switch {
	case scheme == "sqlite" && rest != "":
		db, err = sqlite.Open(rest, sqlite.Options{
			Observer: options.Observer, CheckAfterCrash: options.CheckAfterCrash, ReadOnly: options.ReadOnly,
		})
	case scheme == "postgres" || scheme == "postgresql":
		db, err = postgres.Open(ctx, url, postgres.Options{
			Connections: options.Connections, Timeout: options.Timeout, Unprepared: options.Unprepared, Observer: options.Observer,
		})
	default:
		err = errors.New("the database must be sqlite:PATH or postgres://…")
	}
	if err != nil {
		return nil, err
	}
	return New(db, time.Now), nil
}

// New returns the store on an open database. now is its clock.
func New(db engine.DB, now func() time.Time) *Store {
	return &Store{db: db, now: now, purges: purges{turn: make(chan struct{}, 1)}}
}

// Close releases the database when running calls have ended.
func (s *Store) Close() error { return s.db.Close() }

// Ping returns nil if the database answers with something that it has stored, its files are
// in their place, and no damage to it has been met.
func (s *Store) Ping(ctx context.Context) error {
	if err := errors.Join(s.db.Damage(), s.db.CheckFiles()); err != nil {
		return public(err)
	}
	return s.find(ctx, "SELECT MAX(number) FROM schema_migrations", nil, func(engine.Row) {})
}

// Fatal returns the database's channel: see engine.DB. Whoever serves ends the process when
// it receives an error.
func (s *Store) Fatal() <-chan error { return s.db.Fatal() }

// CheckFiles returns Unavailable if a file of an embedded database was removed or replaced
// while it is open. Until it is back, nothing is written.
func (s *Store) CheckFiles() error { return public(s.db.CheckFiles()) }

// CacheVersion is the database's: see engine.DB. The cache tag of an account is its identifier.
func (s *Store) CacheVersion(tag string) (engine.CacheVersion, bool) { return s.db.CacheVersion(tag) }

// Traits are what a caller may know about the database to use it well.
type Traits = engine.Traits

// Traits returns what the database is like.
func (s *Store) Traits() Traits { return s.db.Traits() }

// Stats returns what the database is doing at the moment.
func (s *Store) Stats() engine.Stats { return s.db.Stats() }

// A Problem is something that is wrong with what the database has stored.
type Problem = engine.Problem

// Check looks for damage in what is stored and returns what it found, none if all
// is sound. A full check reads all of an embedded database, and can be ended by ctx;
// one that is not takes some milliseconds. The error says that the check could not
// be made.
func (s *Store) Check(ctx context.Context, full bool) ([]Problem, error) {
	found, err := s.db.Check(ctx, full)
	return found, public(err)
}

// Damaged reports whether an error of a Store says that what is stored is damaged.
func Damaged(err error) bool { return engine.ClassOf(err) == engine.Corrupt }

// Now returns what the Store's clock shows. Instants that are stored come from it, so
// whoever compares one with the present asks it, and not another clock.
func (s *Store) Now() time.Time { return s.now() }
