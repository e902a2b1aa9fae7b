// Package engine is the thin seam between the store and the databases it runs
// on: transactions, rows, batches and classes of error. One set of queries
// serves every engine; what truly differs is here.
//
// The queries keep to the common subset of SQLite and PostgreSQL. Parameters
// are $1, $2 and so on, each first used in that order. Arguments are string,
// []byte, int64 or nil; columns hold text, bytes and 64-bit integers only.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// A DB is one database. Its methods are safe for concurrent use.
//
// When ctx ends, a call stops waiting for a connection or a lock, begins no other
// statement, and returns an error of class Unavailable: a transaction leaves no trace. On a
// server, a deadline of ctx ends a running statement, too.
type DB interface {
	// Name returns the engine's name, which is also the name of its folder of
	// migrations.
	Name() string

	// Traits returns what the database is like.
	Traits() Traits

	// Query runs one statement that changes nothing and calls each for every row,
	// in order, until it returns an error. It costs less than a Read of the same.
	// each does not use the DB.
	Query(ctx context.Context, sql string, args Args, each func(Row) error) error

	// Read calls f with a transaction that sees one state of the database and
	// changes nothing. f may be called again if no row had come yet.
	Read(ctx context.Context, f func(Tx) error) error

	// Write calls f with a transaction that is durable when Write returns nil
	// and left no trace when it returns an error, unless the error is of class
	// Uncertain. Where there are several writers, each of its statements sees what
	// was committed before it, and what one has read another transaction may
	// change, unless it was read with Lock. f may be called again when the engine
	// asks for it, so all that it changes outside of the transaction it must first
	// set back.
	Write(ctx context.Context, f func(Tx) error) error

	// Migrate is Write for a change of the schema: it may take any time, and
	// those of all nodes follow one another.
	Migrate(ctx context.Context, f func(Tx) error) error

	// Distribute spreads tables over the servers of a cluster, and returns those that
	// were not yet. It is an error, and nothing is done, if the database is no cluster.
	Distribute(ctx context.Context, tables Tables) (done []string, err error)

	// Snapshot calls f with a DB whose reads, one at a time, together leave out
	// nothing that was committed before the call. They may see what is committed
	// later, and hold up neither writers nor checkpoints, however long f runs.
	Snapshot(ctx context.Context, f func(DB) error) error

	// CacheVersion returns the version of what is stored under a cache tag, "" for what
	// has no tag. While it stays the same, every read of that finds the same, whichever
	// process writes. It returns false if the version is not known: for a moment, or always on
	// a server. It costs less than any read.
	CacheVersion(tag string) (CacheVersion, bool)

	// Copy writes an embedded database to w as the file that it would be if nobody had
	// it open, in one state that has all that was committed before the call. begin is
	// told first how many bytes that will be. Writers go on meanwhile; it is an error,
	// and nothing is written, on a server.
	Copy(ctx context.Context, w io.Writer, begin func(size int64)) error

	// Purge removes deleted content from the files of an embedded database. After it has
	// returned nil and another Write has committed, nothing that was deleted or replaced
	// before the call is in the database file or the WAL, even after a power cut, and later
	// copies do not have it. It reads the whole file, does not block reads, and blocks writes
	// only briefly. It is an error of class Unavailable, and what was deleted may
	// still be there, if a long read transaction or another process's checkpoint prevents
	// it, or if the file has more than maxBytes (0 for no limit). On a server
	// it does nothing: the server removes deleted rows by its own means.
	Purge(ctx context.Context, maxBytes int64) error

	// Tables returns the names of the tables that there are, in no particular order.
	Tables(ctx context.Context) ([]string, error)

	// Server returns how a database server is set up and what its clock says, nil for
	// an embedded database.
	Server(ctx context.Context) (*Server, error)

	// Stats returns what the engine is doing at the moment.
	Stats() Stats

	// Check looks for damage in what is stored and returns what it found, at most
	// MaxProblems, none if all is sound. A full check reads all of the database; one
	// that is not costs some milliseconds whatever the size, and finds what would
	// keep the database from being used at all. The error says that the check could
	// not be made.
	Check(ctx context.Context, full bool) ([]Problem, error)

	// Damage returns the error by which damage to what is stored was met since the
	// database was opened; nil for none. An embedded database is not written to any
	// more from then on, and is read as far as it can be.
	Damage() error

	// Fatal returns a channel that receives one error if a sync of an embedded database
	// fails. The process must end then: nothing is written any more, and the database is
	// recovered when it is opened the next time. It is nil on a server, which does the same.
	Fatal() <-chan error

	// CheckFiles returns an error of class Unavailable if a file of an embedded database
	// was removed or replaced while it is open, and nil on a server. Until it is back, the
	// database is not written to, and reads need a connection that is open already.
	CheckFiles() error

	// Close releases the database. It waits for running transactions, for those on a
	// server a moment only.
	Close() error
}

// A CacheVersion is compared with another one of the same DB and cache tag.
type CacheVersion = [2]uint64

// Traits are what callers may know about a database to use it well. What they do
// must be right whatever the traits are.
type Traits struct {
	Writers int  // how many write transactions can run at the same time
	Sharded bool // a transaction should keep to one tenant, which is on one shard

	// Each statement costs the way to a server and back.
	Remote bool

	// What is read may be less durable than a commit promises: it may have been
	// committed a moment ago, and not have reached the standbys that commits wait
	// for. Who acknowledges what was read commits something of its own, behind it.
	Replicated bool

	// What DB.Snapshot shows is one state of the database, the latest when it began.
	Snapshots bool
}

// Tables are the tables of a schema by how a cluster of servers keeps them. Within
// a list, a table comes after those that it refers to.
type Tables struct {
	Copied  []string // small ones, of which every server has a copy
	Sharded []string // those whose rows are spread by their column tenant_id, each tenant's together
}

// A Server is how a database server is set up.
type Server struct {
	Now      time.Time         // by its clock
	Settings map[string]string // those that durability and capacity hang on, as they hold for a session
}

// Stats are gauges of an engine.
type Stats struct {
	Connections int   // in use
	Waiting     int   // who waits for a connection to a server
	LogBytes    int64 // in the write-ahead log of an embedded database
}

// MaxProblems is the largest number of problems that Check returns. Where there is one there are
// often thousands, of one cause.
const MaxProblems = 100

// A Problem is something that is wrong with what a database has stored.
type Problem struct {
	Detail string // what is wrong, and where, in the words of the engine
}

// An Observer is told what an engine does. Its methods are called by many
// goroutines and return at once.
type Observer interface {
	// Wrote: a write transaction that was asked for with ctx has ended, after so many
	// attempts in the time.
	Wrote(ctx context.Context, d time.Duration, attempts int, committed bool)

	// Checkpointed: a checkpoint of a write-ahead log has ended after d. One that is not
	// done has failed: the log grows until one is.
	Checkpointed(mode string, d time.Duration, done bool)
}

// NoObserver is the Observer that does nothing.
type NoObserver struct{}

func (NoObserver) Wrote(context.Context, time.Duration, int, bool) {}
func (NoObserver) Checkpointed(string, time.Duration, bool)        {}

// A Tx is a transaction. It is used by one goroutine, inside the call that
// handed it out. When one of its statements fails it can only be ended: it is not
// committed, even if the error is passed over.
type Tx interface {
	// Query calls each for every row, in order, until it returns an error.
	Query(sql string, args Args, each func(Row) error) error

	// Lock is Query of one table, whose rows no other transaction changes until
	// this one has ended.
	Lock(sql string, args Args, each func(Row) error) error

	// Exec runs a statement and returns how many rows it changed.
	Exec(sql string, args ...any) (int64, error)

	// Batch runs a statement for many rows at once and calls each, which may be
	// nil, for every row that it returns, in no particular order. It returns
	// how many rows were changed.
	Batch(b *Batch, rows []Args, each func(Row) error) (int64, error)

	// Ahead is Batch for a statement whose answer is needed only with that of the next
	// one: it is run when that is, before it.
	Ahead(b *Batch, rows []Args, each func(Row)) error

	// Defer is Batch for a statement whose answer nobody needs: it is run when the
	// next one is, or with the commit. If it fails, so does that.
	Defer(b *Batch, rows []Args) error

	// Changes declares the cache tags whose versions the transaction changes. If it is not
	// called, all versions change. It may be called several times.
	Changes(tags ...string)

	// Script runs statements that have no parameters, with ; between them.
	Script(sql string) error
}

// Args are the arguments of one statement or of one row of a batch.
type Args = []any

// A Row is one row of an answer, valid during the call that got it. Columns
// count from 0.
type Row interface {
	Null(column int) bool
	Int(column int) int64
	Text(column int) string  // "" for null
	Bytes(column int) []byte // a copy; nil for null
	View(column int) []byte  // what Bytes returns, until a method is called again; empty for null
}

// ErrNoRow says that a query which must find a row found none.
var ErrNoRow = errors.New("no row")

// A Class tells what an error of an engine means for its caller.
type Class int

// The classes.
const (
	Internal    Class = iota // a fault in a statement, or anything else unexpected
	Conflict                 // a unique key is taken, or a referenced row is missing
	Unavailable              // storage is away, full or busy; nothing was done
	Uncertain                // the commit was sent and its result is unknown
	Corrupt                  // the stored structures are damaged
)

// An Error is an error of a database with its class.
type Error struct {
	Class Class
	Err   error
}

// Error returns the text of the underlying error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class of the first Error in err's tree, and Internal if
// there is none.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return Internal
}

// FailedTransaction returns the error of a call of a transaction in which a statement
// has failed before.
func FailedTransaction(statement error) error {
	return fmt.Errorf("a statement of the transaction has failed: %w", statement)
}

// CheckCaller returns an error of class Unavailable if ctx has ended. A nil ctx does not end.
func CheckCaller(ctx context.Context) error {
	if ctx == nil || ctx.Err() == nil {
		return nil
	}
	return &Error{Unavailable, fmt.Errorf("the caller has given up: %w", context.Cause(ctx))}
}

// Find runs a query, a method Query or Lock, that must find a row, and calls scan
// for each. It returns ErrNoRow if there is none.
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
