// Package store stores the data of all tenants in a database: embedded SQLite or a PostgreSQL
// server. It owns the schema, all SQL, and the rules that must hold within a transaction.
//
// A method that reads or changes the data of a tenant takes the tenant's identifier and finds
// only the data of this tenant. Errors that a caller may see are *atrium.Error: NotFound,
// Conflict and so on as each method says, and Unavailable if the database failed. Unless it is
// atrium.Uncertain, nothing was changed. Any other error is a bug or a damaged database.
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
	"atrium/internal/store/counts"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/engine/sqlite"
	"atrium/internal/store/entries"
	"atrium/internal/store/erasures"
	"atrium/internal/store/events"
	"atrium/internal/store/kernel"
	"atrium/internal/store/pages"
	"atrium/internal/store/receivers"
	"atrium/internal/store/records"
	"atrium/internal/store/register"
	"atrium/internal/store/requestlog"
	"atrium/internal/store/tombstones"
	"atrium/internal/store/webhooks"
)

// The parts of a Store. Their names are not exported: a Store exports their methods and settings,
// but not the parts themselves.
type (
	accountStore = accounts.Store
	entryStore   = entries.Store
	erasureStore = erasures.Store
	pageStore    = pages.Store
	accessStore  = access.Store
	auditStore   = audit.Store
	recordStore  = records.Store
	countStore   = counts.Store

	tombstoneStore = tombstones.Store
	requestStore   = requestlog.Store
	eventStore     = events.Store
	webhookStore   = webhooks.Store
	receiverStore  = receivers.Store
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
	*countStore
	*tombstoneStore
	*requestStore
	*eventStore
	*webhookStore
	*receiverStore

	problems problemCount
}

// An Observer receives events of the database; see engine.Observer.
type Observer = engine.Observer

// Options configure how a Store uses its database. The zero value is valid.
type Options struct {
	Observer Observer // nil for none

	// Embedded database only: check a database that was not closed cleanly before it is used. The
	// check takes some seconds and is skipped for databases larger than 1 GiB.
	CheckAfterCrash bool

	// Embedded database only: the file must exist and is opened for reading. Neither it nor its
	// WAL is changed.
	ReadOnly bool

	// Server only.
	Connections int           // maximum; 0 for the engine's default
	Timeout     time.Duration // of a statement, and of the wait for a connection; 0 for the engine's default
	Unprepared  bool          // keep no state on the server between transactions, for a pooler that shares connections
}

// Open opens the store at a database URL: "sqlite:" and the path of a file, which is created if
// it does not exist, or the postgres:// URL of a reachable server. The caller runs the
// migrations.
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
	k, due := &kernel.DB{Engine: db, Now: now}, &counts.Due{}
	s := &Store{
		db: k, accountStore: accounts.New(k), entryStore: entries.New(k, due), pageStore: pages.New(k), accessStore: access.New(k), auditStore: audit.New(k),
	}
	s.erasureStore = erasures.New(k, s.accountStore)
	s.recordStore = records.New(k, s.accessStore)
	s.tombstoneStore = tombstones.New(k)
	s.countStore = counts.New(k, due)
	s.requestStore = requestlog.New(k)
	s.receiverStore = receivers.New(k, s.AppendIn)
	s.webhookStore = webhooks.New(k, webhooks.Feed{Enable: events.Enable, LockHead: events.LockHead, AnyAfter: events.AnyAfter})
	s.eventStore = events.New(k, s.Wake)
	return s
}

// Close waits for running calls to end and releases the database.
func (s *Store) Close() error { return s.db.Engine.Close() }

// Ping returns nil if a query of stored data succeeds, the database files are in place, and no
// corruption was found since the database was opened.
func (s *Store) Ping(ctx context.Context) error {
	if err := errors.Join(s.db.Engine.Damage(), s.db.Engine.CheckFiles()); err != nil {
		return kernel.Public(err)
	}
	return s.db.Find(ctx, "SELECT MAX(number) FROM schema_migrations", nil, func(engine.Row) {})
}

// Fatal returns the channel of fatal database errors: see engine.DB. A server process must exit
// when it receives an error.
func (s *Store) Fatal() <-chan error { return s.db.Engine.Fatal() }

// CheckFiles returns Unavailable if a file of an embedded database was removed or replaced since
// it was opened. Writes fail until the file is back.
func (s *Store) CheckFiles() error { return kernel.Public(s.db.Engine.CheckFiles()) }

// CacheVersion returns the version of a cache tag: see engine.DB. The cache tag of an account is
// its identifier.
func (s *Store) CacheVersion(tag string) (engine.CacheVersion, bool) {
	return s.db.Engine.CacheVersion(tag)
}

// Traits describe the database; see engine.Traits.
type Traits = engine.Traits

// Traits returns the traits of the database.
func (s *Store) Traits() Traits { return s.db.Engine.Traits() }

// The names of secrets.
const (
	CursorKey = register.CursorKey // authenticates cursors
	SignInKey = register.SignInKey // encrypts the cookies of sign-ins through an identity provider
)

// Secret returns 32 random bytes that all nodes on this database share under the name. The first
// call creates them.
func (s *Store) Secret(ctx context.Context, name string) ([]byte, error) {
	return s.db.Secret(ctx, name)
}

// DeleteExpiredRequests deletes expired requests with an idempotency key, for a bounded number of
// tenants; see kernel.DB.
func (s *Store) DeleteExpiredRequests(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, err error) {
	return s.db.DeleteExpiredRequests(ctx, after)
}

// Stats returns statistics of the current activity of the database.
func (s *Store) Stats() engine.Stats { return s.db.Engine.Stats() }

// A Problem is a fault that Check found in the stored data.
type Problem = engine.Problem

// Check looks for damage in the stored data and returns the problems that it found. A full check
// reads a whole embedded database and can be canceled by ctx; any other takes some milliseconds.
// The error says that the check could not be made.
func (s *Store) Check(ctx context.Context, full bool) ([]Problem, error) {
	found, err := s.db.Engine.Check(ctx, full)
	return found, kernel.Public(err)
}

// Damaged reports whether an error of a Store says that the stored data is damaged.
func Damaged(err error) bool { return engine.ClassOf(err) == engine.Corrupt }

// Now returns the time of the Store's clock. Stored instants come from this clock: compare them
// with it, not with another clock.
func (s *Store) Now() time.Time { return s.db.Now() }
