// Package engine is the database interface of the store: transactions, rows, batches and error
// classes. One set of queries serves all engines; everything that differs between them is here.
//
// Queries use the common subset of SQLite and PostgreSQL. Parameters are $1, $2 and so on, numbered
// in the order of their first use. Arguments are string, []byte, int64 or nil; columns hold text,
// bytes and 64-bit integers only.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// MaxWriteTime is the maximum duration of a transaction of DB.Write on a database with more than one
// writer.
const MaxWriteTime = time.Minute

// A DB is one database. Its methods are safe for concurrent use.
//
// When ctx ends, a call stops waiting for a connection or a lock, begins no other statement, and
// returns an error of class Unavailable; its transaction is rolled back. On a server, the deadline
// of ctx also cancels a running statement.
type DB interface {
	// Name returns the engine's name, which is also the directory of its migrations.
	Name() string

	// Traits returns the properties of the database.
	Traits() Traits

	// Query runs one read-only statement and calls each for every row, in order, until each returns
	// an error. It is cheaper than Read with the same statement. each must not use the DB.
	Query(ctx context.Context, sql string, args Args, each func(Row) error) error

	// Read calls f with a read-only transaction on one snapshot of the database. It may call f
	// again if no row was returned yet.
	Read(ctx context.Context, f func(Tx) error) error

	// Write calls f with a write transaction. The transaction is durable when Write returns nil. It
	// is rolled back when Write returns an error, unless the error is of class Uncertain.
	//
	// With more than one writer, isolation is READ COMMITTED: each statement sees what was
	// committed before it, and other transactions may change rows that were read without Lock.
	// Write may call f again if the engine has to retry, so f must reset any state that it changes
	// outside the transaction. Each transaction then ends within MaxWriteTime: its later statements fail
	// with class Unavailable, and its commit with Unavailable or Uncertain.
	Write(ctx context.Context, f func(Tx) error) error

	// Migrate is Write for a schema change: it has no time limit, and the migrations of all nodes
	// run one after another.
	Migrate(ctx context.Context, f func(Tx) error) error

	// Distribute distributes tables over the servers of a cluster and returns those that were not
	// distributed yet. On a database that is not a cluster it does nothing and returns an error.
	Distribute(ctx context.Context, tables Tables) (done []string, err error)

	// Snapshot calls f with a DB for sequential reads, which together miss nothing that was
	// committed before the call. They may also see later commits. They block neither writers nor
	// checkpoints, however long f runs.
	Snapshot(ctx context.Context, f func(DB) error) error

	// CacheVersion returns the version of the data under a cache tag, or of data without a tag if
	// tag is "". As long as the version stays the same, every read of that data returns the same
	// result, whichever process writes. It returns false if the version is unknown, either
	// temporarily or, on a server, always. It is cheaper than any read.
	CacheVersion(tag string) (CacheVersion, bool)

	// Copy writes a consistent copy of an embedded database to w, as a database file without a WAL.
	// The copy includes everything committed before the call. Copy first calls begin with the size
	// of the copy in bytes. It does not block writers. On a server it writes nothing and returns an
	// error.
	Copy(ctx context.Context, w io.Writer, begin func(size int64)) error

	// Purge removes deleted content from the files of an embedded database. After it has returned
	// nil and another Write has committed, nothing that was deleted or replaced before the call is
	// in the database file or the WAL, even after a power cut, nor in later copies. It reads the
	// whole file, does not block reads, and blocks writes only briefly.
	//
	// It returns an error of class Unavailable, and may leave deleted content behind, if a long
	// read transaction or another process's checkpoint prevents it, or if the file is larger than
	// maxBytes (0 for no limit). On a server it does nothing: the server removes deleted rows by
	// its own means.
	Purge(ctx context.Context, maxBytes int64) error

	// Tables returns the names of all tables, in no particular order.
	Tables(ctx context.Context) ([]string, error)

	// Server returns the settings and the clock of a database server, nil for an embedded database.
	Server(ctx context.Context) (*Server, error)

	// Stats returns the current gauges of the engine.
	Stats() Stats

	// Check looks for corruption and returns the problems that it found, at most MaxProblems, none
	// if the database is sound. A full check reads the whole database. A quick check takes some
	// milliseconds whatever the size, and finds corruption that makes the database unusable. It
	// returns an error if the check could not run.
	Check(ctx context.Context, full bool) ([]Problem, error)

	// Damage returns the first corruption error since the database was opened, nil if there was
	// none. From then on, an embedded database refuses writes and serves the reads that still
	// succeed.
	Damage() error

	// Fatal returns a channel that receives one error if a sync of an embedded database fails. The
	// database then refuses all writes, and the process must exit; the next Open recovers the
	// database. The channel is nil on a server, which handles failed syncs itself.
	Fatal() <-chan error

	// CheckFiles returns an error of class Unavailable if a file of an embedded database was
	// removed or replaced while it is open. Until the file is back, the database refuses writes and
	// opens no connections; reads continue on open connections. On a server it returns nil.
	CheckFiles() error

	// Close closes the database. It waits for running transactions; on a server, only briefly.
	Close() error
}

type tenantKey struct{}

// ForTenant returns a context for transactions of one tenant. An engine with a single writer divides
// it fairly among tenants. All transactions without a tenant count as those of one.
func ForTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// TenantOf returns the tenant of a context, "" for none.
func TenantOf(ctx context.Context) string {
	tenant, _ := ctx.Value(tenantKey{}).(string)
	return tenant
}

// A CacheVersion is comparable with other versions of the same DB and cache tag.
type CacheVersion = [2]uint64

// Traits are properties of a database that callers may use to optimize. Callers must be correct for
// any Traits.
type Traits struct {
	Writers int  // number of write transactions that can run concurrently
	Sharded bool // transactions should touch one tenant only, because each tenant is on one shard

	// Every statement costs a network round trip.
	Remote bool

	// Reads may return data that is less durable than a commit guarantees: data that was committed
	// a moment ago and has not reached the synchronous standbys. A caller that acknowledges such
	// data must first commit another write, which waits for the standbys.
	Replicated bool

	// DB.Snapshot is one consistent snapshot, as of its start.
	Snapshots bool
}

// Tables lists the tables of a schema by how a cluster distributes them. Within a list, a table
// comes after the tables that it references.
type Tables struct {
	Reference []string // small tables, replicated to every server
	Sharded   []string // tables sharded by their column tenant_id, with all rows of a tenant colocated
}

// A Server has the clock and settings of a database server.
type Server struct {
	Now      time.Time         // by the server's clock
	Settings map[string]string // the session's effective settings that durability and capacity depend on
	Cluster  *Cluster          // nil unless the tables are distributed
}

// A Cluster is the state of a sharded database.
type Cluster struct {
	Versions       []string // of the extension, one per server, "" for a server that does not respond
	NotDistributed []string // tables that only the coordinator has
	Colocations    int      // groups of sharded tables; 1, unless a tenant's rows are on several servers
}

// Stats are gauges of an engine.
type Stats struct {
	Connections int   // connections in use
	Waiting     int   // calls that wait for a connection to a server
	FileBytes   int64 // size of an embedded database's file
	WALBytes    int64 // size of its WAL
	WALBlocked  bool  // long reads keep a large WAL from being reset, or erased data in it: they should end, and none should begin
}

// MaxProblems is the maximum number of problems that Check returns. One cause often damages
// thousands of pages.
const MaxProblems = 100

// A Problem is one corruption that Check found.
type Problem struct {
	Detail string // the engine's description of the corruption and its location
}

// An Observer receives events of an engine. Its methods must return at once and be safe for
// concurrent use.
type Observer interface {
	// Wrote reports that a write transaction started with ctx has ended after d and the given
	// number of attempts.
	Wrote(ctx context.Context, d time.Duration, attempts int, committed bool)

	// Checkpointed reports that a WAL checkpoint has ended after d. done is false if it failed; the
	// WAL then grows until a checkpoint succeeds.
	Checkpointed(mode string, d time.Duration, done bool)
}

// NoObserver is the Observer that does nothing.
type NoObserver struct{}

func (NoObserver) Wrote(context.Context, time.Duration, int, bool) {}
func (NoObserver) Checkpointed(string, time.Duration, bool)        {}

// A Tx is a transaction. It is used by one goroutine, inside the callback that received it. After a
// failed statement the transaction can only be rolled back, even if the callback ignores the error.
type Tx interface {
	// Query calls each for every row, in order, until each returns an error.
	Query(sql string, args Args, each func(Row) error) error

	// Lock is Query on one table, and locks the rows that it returns: no other transaction changes
	// them until this one has ended.
	Lock(sql string, args Args, each func(Row) error) error

	// Exec runs a statement and returns the number of rows changed.
	Exec(sql string, args ...any) (int64, error)

	// Batch runs a statement for many rows at once and calls each for every row that it returns, in
	// no particular order. each may be nil. Batch returns the number of rows changed.
	Batch(b *Batch, rows []Args, each func(Row) error) (int64, error)

	// PipelineQuery is Batch without an extra round trip: the statement is sent with the next
	// one and runs before it. each is called before the next one returns.
	PipelineQuery(b *Batch, rows []Args, each func(Row)) error

	// PipelineExec is Batch without a result or an extra round trip: the statement is
	// sent with the next one, or with the commit. If it fails, the next statement or the commit
	// fails.
	PipelineExec(b *Batch, rows []Args) error

	// LockWait limits how long each later statement waits for locks that other transactions hold: it
	// then fails with an error of class Locked. An engine with a single writer ignores it.
	LockWait(limit time.Duration)

	// Invalidate declares cache tags whose versions the transaction changes. It may be called several
	// times. If it is never called, all versions change.
	Invalidate(tags ...string)

	// Script runs statements without parameters, separated by semicolons at the ends of lines.
	Script(sql string) error
}

// Args are the arguments of one statement, or of one row of a batch.
type Args = []any

// A Row is one row of a result. It is valid only during the callback that received it. Columns are
// numbered from 0.
type Row interface {
	Null(column int) bool
	Int(column int) int64
	Text(column int) string  // "" for null
	Bytes(column int) []byte // a copy; nil for null
	View(column int) []byte  // like Bytes, but valid only until the next method call; empty for null
}

// ErrNoRow is returned by a query that requires a row and found none.
var ErrNoRow = errors.New("no row")

// A Class classifies an error by what it means for the caller.
type Class int

// The classes.
const (
	Internal    Class = iota // an invalid statement, or anything else unexpected
	Conflict                 // a unique or foreign key constraint is violated
	Unavailable              // storage is unreachable, full or busy; the transaction was rolled back
	Uncertain                // the commit was sent and its result is unknown
	Corrupt                  // the database is corrupt
	Locked                   // another transaction held a lock for longer than Tx.LockWait
)

// An Error is a database error with its class.
type Error struct {
	Class Class
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class of the first Error in err's tree, and Internal if
// there is none.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return Internal
}

// FailedTransaction returns the error of a transaction that was used after one of its statements
// failed.
func FailedTransaction(statement error) error {
	return fmt.Errorf("statement failed earlier in the transaction: %w", statement)
}

// CheckContext returns an error of class Unavailable if ctx has ended. A nil ctx never ends.
func CheckContext(ctx context.Context) error {
	if ctx == nil || ctx.Err() == nil {
		return nil
	}
	return &Error{Unavailable, fmt.Errorf("canceled by the caller: %w", context.Cause(ctx))}
}

// Find runs a query that must return a row, and calls scan for every row. query is a method Query
// or Lock. Find returns ErrNoRow if the query returns none.
func Find(query func(sql string, args Args, each func(Row) error) error, sql string, args Args, scan func(Row)) error {
	found := false
	err := query(sql, args, func(r Row) error {
		found = true
		scan(r)
		return nil
	})
	if err == nil && !found {
		err = ErrNoRow
	}
	return err
}
