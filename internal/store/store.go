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
	"time"

	"atrium"
	"atrium/internal/store/access"
	"atrium/internal/store/accounts"
	"atrium/internal/store/audit"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/engine/sqlite"
	"atrium/internal/store/entries"
	"atrium/internal/store/erasures"
	"atrium/internal/store/kernel"
	"atrium/internal/store/pages"
	"atrium/internal/store/records"
)

// The parts of a Store. Their names are not exported, so that a Store has their methods and
// settings, and not the parts themselves.
type (
	accountStore = accounts.Store
	entryStore   = entries.Store
	erasureStore = erasures.Store
	pageStore    = pages.Store
	accessStore  = access.Store
	auditStore   = audit.Store
	recordStore  = records.Store
)

// A Store is one database with its schema. It is safe for concurrent use.
type Store struct {
	db *kernel.DB

	*accountStore
	*entryStore
	*erasureStore
	*pageStore
	*accessStore
	*auditStore
	*recordStore
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
	k := &kernel.DB{Engine: db, Now: now}
	s := &Store{
		db: k, accountStore: accounts.New(k), entryStore: entries.New(k), pageStore: pages.New(k), accessStore: access.New(k), auditStore: audit.New(k),
	}
	s.erasureStore = erasures.New(k, s.accountStore)
	s.recordStore = records.New(k, s.accessStore)
	return s
}

// Close releases the database when running calls have ended.
func (s *Store) Close() error { return s.db.Engine.Close() }

// Ping returns nil if the database answers with something that it has stored, its files are
// in their place, and no damage to it has been met.
func (s *Store) Ping(ctx context.Context) error {
	if err := errors.Join(s.db.Engine.Damage(), s.db.Engine.CheckFiles()); err != nil {
		return kernel.Public(err)
	}
	return s.db.Find(ctx, "SELECT MAX(number) FROM schema_migrations", nil, func(engine.Row) {})
}

// Fatal returns the database's channel: see engine.DB. Whoever serves ends the process when
// it receives an error.
func (s *Store) Fatal() <-chan error { return s.db.Engine.Fatal() }

// CheckFiles returns Unavailable if a file of an embedded database was removed or replaced
// while it is open. Until it is back, nothing is written.
func (s *Store) CheckFiles() error { return kernel.Public(s.db.Engine.CheckFiles()) }

// CacheVersion is the database's: see engine.DB. The cache tag of an account is its identifier.
func (s *Store) CacheVersion(tag string) (engine.CacheVersion, bool) {
	return s.db.Engine.CacheVersion(tag)
}

// Traits are what a caller may know about the database to use it well.
type Traits = engine.Traits

// Traits returns what the database is like.
func (s *Store) Traits() Traits { return s.db.Engine.Traits() }

// Secret returns 32 random bytes that every node on this database shares under
// the name. The first one to ask makes them.
func (s *Store) Secret(ctx context.Context, name string) ([]byte, error) {
	return s.db.Secret(ctx, name)
}

// DeleteExpiredRequests deletes the requests with an idempotency key that need not be known
// any more, of a bounded number of tenants; see kernel.DB.
func (s *Store) DeleteExpiredRequests(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, err error) {
	return s.db.DeleteExpiredRequests(ctx, after)
}

// Stats returns what the database is doing at the moment.
func (s *Store) Stats() engine.Stats { return s.db.Engine.Stats() }

// A Problem is something that is wrong with what the database has stored.
type Problem = engine.Problem

// Check looks for damage in what is stored and returns what it found, none if all
// is sound. A full check reads all of an embedded database, and can be ended by ctx;
// one that is not takes some milliseconds. The error says that the check could not
// be made.
func (s *Store) Check(ctx context.Context, full bool) ([]Problem, error) {
	found, err := s.db.Engine.Check(ctx, full)
	return found, kernel.Public(err)
}

// Damaged reports whether an error of a Store says that what is stored is damaged.
func Damaged(err error) bool { return engine.ClassOf(err) == engine.Corrupt }

// Now returns what the Store's clock shows. Instants that are stored come from it, so
// whoever compares one with the present asks it, and not another clock.
func (s *Store) Now() time.Time { return s.db.Now() }
