// Package sqlite runs the store on an SQLite file.
//
// One connection writes (write.go). Writers take turns in order of arrival; BEGIN IMMEDIATE
// excludes other processes, and is retried often because a process under load leaves the
// file free only for moments. Each read has a connection of its own, up to maxReaders, so no
// read waits for a write or for another read.
//
// The file is in WAL mode. The WAL is synced before a commit returns (synchronous=FULL), and
// checkpoints move it into the file (checkpoint.go). A failed sync is fatal (sync.go).
// Deleted content is zeroed (secure_delete=ON); copies of it stay until a purge (purge.go).
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium/internal/store/engine"
)

// The writer's cache has fewer than 4,096 pages: a commit that has split a page looks
// through all slots of the cache's hash table, which doubles when it is full.
const (
	maxReaders    = 64
	readerCacheKB = 1024
	writerCacheKB = 15 << 10
	mmapBytes     = 1 << 30
	pageBytes     = 4096
	busyPoll      = time.Millisecond
	busyLimit     = 10 * time.Second
)

// Options of Open; the zero value is usable.
type Options struct {
	Observer engine.Observer // nil for none

	// For tests: the name of a registered VFS, and a function that rewrites a file and syncs
	// it there. "" and nil stand for the operating system's.
	VFS     string
	Rewrite func(path string) error

	// Check a file of up to maxCheckedBytes as a whole before using it, if the last process
	// that had it open did not close it.
	CheckAfterCrash bool

	// Only read a complete file that no process writes: without locks, and without creating
	// files next to it.
	Immutable bool

	// Only read a file that other processes may write. Neither it nor its WAL is changed:
	// what a crash has left stays as it is.
	ReadOnly bool
}

type database struct {
	path    string
	options Options
	flags   sqlite.OpenFlags // of the connections

	versions cacheVersions
	files    fileCheck
	turn     turn // of the writer; what is below is used by who has it
	writer   *connection
	group    *group // whose transaction is open; nil if none is

	checkpointer *connection       // of keepLogShort
	long         chan struct{}     // holds a token when enough of the log waits to be moved
	truncations  chan chan<- error // whose receiver, keepLogShort, truncates the log and sends the result
	nextTurn     atomic.Int64      // how many pages the log must have for the writer's turn to be taken for it
	background   sync.WaitGroup

	closing   chan struct{} // closed when nothing may wait any more
	closeOnce sync.Once
	closeErr  error // set by the first Close

	readers chan struct{} // holds a token for each reader in use
	mu      sync.Mutex
	idle    []*connection // guarded by mu; the last one used comes first
	closed  bool          // guarded by mu

	logPages atomic.Int64          // in the write-ahead log, as of the last commit
	damage   atomic.Pointer[error] // the first that was met; nil for none

	syncFailure atomic.Pointer[error] // why nothing is written any more; nil if no sync has failed
	fatal       chan error            // receives syncFailure once
}

// Open opens the database file at path. It creates a missing file, readable by its owner
// alone, unless the file is only read. The error says what to do. A damaged file is an error
// of class Corrupt and is left as it is.
func Open(path string, options Options) (engine.DB, error) {
	db, err := open(path, options)
	if err != nil && options.Immutable {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, advised(err))
	}
	return db, nil
}

func open(path string, options Options) (db *database, err error) {
	if !options.Immutable && !options.ReadOnly {
		if err := makeFile(path); err != nil {
			return nil, err
		}
	}
	path, err = filepath.Abs(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path) // as SQLite does to name the log
	}
	if err != nil {
		return nil, &engine.Error{Class: engine.Unavailable, Err: err}
	}
	if options.Observer == nil {
		options.Observer = engine.NoObserver{}
	}
	db = &database{
		path: path, options: options, flags: sqlite.OpenReadWrite,
		closing:     make(chan struct{}),
		long:        make(chan struct{}, 1),
		truncations: make(chan chan<- error),
		fatal:       make(chan error, 1),
		readers:     make(chan struct{}, maxReaders),
	}
	if !options.Immutable {
		if err := db.examine(); err != nil {
			return nil, err
		}
	}
	if options.Immutable || options.ReadOnly {
		// The last connection to be closed that can write moves the log into the
		// database. Where there is none, it takes away the empty one that reading makes.
		if log, err := sizeOf(db.path + "-wal"); options.Immutable || err != nil || log > 0 {
			db.flags = sqlite.OpenReadOnly
		}
		db.writer, err = db.open(true) // which cannot write
		if err != nil {
			return nil, err
		}
		return db, nil
	}
	if err := db.recoverUnsynced(); err != nil {
		return nil, err
	}
	if db.writer, err = db.open(false); err != nil {
		return nil, err
	}
	db.writer.conn.SetBusyTimeout(0) // begin does the waiting
	if err := db.settle(); err != nil {
		return nil, errors.Join(err, db.writer.conn.Close())
	}
	if db.checkpointer, err = db.open(false); err != nil {
		return nil, errors.Join(err, db.writer.conn.Close())
	}
	db.checkpointer.conn.SetBusyTimeout(0)
	db.nextTurn.Store(longLog)
	if options.VFS == "" {
		if err := db.files.watch(db.path); err != nil {
			return nil, errors.Join(err, db.checkpointer.conn.Close(), db.writer.conn.Close())
		}
	}
	observer, err := db.open(true)
	if err != nil {
		return nil, errors.Join(err, db.checkpointer.conn.Close(), db.writer.conn.Close())
	}
	db.versions.open(observer)
	db.background.Go(db.keepLogShort)
	return db, nil
}

// makeFile makes the database file unless it is there. One that is there is not
// even opened: this process may have it open already, and on unix the closing of
// any descriptor of a file drops all the locks that the process holds on it. None is
// made beside the log of one that is missing.
func makeFile(path string) error {
	_, err := os.Stat(path)
	if err == nil {
		return nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return &engine.Error{Class: engine.Unavailable, Err: err}
	}
	if err := mustHaveNoLog(path); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return &engine.Error{Class: engine.Unavailable, Err: err}
	}
	return nil
}

// connect opens a connection without its settings.
func (db *database) connect(flags sqlite.OpenFlags) (*sqlite.Conn, error) {
	name := db.path
	query := url.Values{}
	if db.options.VFS != "" {
		query.Set("vfs", db.options.VFS)
	}
	if db.options.Immutable {
		query.Set("immutable", "1")
	}
	if len(query) > 0 {
		name = (&url.URL{Scheme: "file", OmitHost: true, Path: db.path, RawQuery: query.Encode()}).String()
		flags |= sqlite.OpenURI
	}
	c, err := sqlite.OpenConn(name, flags)
	if err != nil {
		return nil, classified(err)
	}
	c.SetBusyTimeout(busyLimit)
	return c, nil
}

func (db *database) open(readOnly bool) (*connection, error) {
	if err := db.files.check(); err != nil { // or SQLite may make a file in place of one that is missing
		return nil, err
	}
	c, err := db.connect(db.flags)
	if err != nil {
		return nil, err
	}
	settings := fmt.Sprintf("PRAGMA cache_size = -%d; PRAGMA query_only = ON;", readerCacheKB)
	if !readOnly {
		settings = fmt.Sprintf(`PRAGMA journal_mode = WAL; PRAGMA cache_size = -%d;
			PRAGMA wal_autocheckpoint = 0; PRAGMA secure_delete = ON; PRAGMA journal_size_limit = %d; PRAGMA temp_store = MEMORY;`, writerCacheKB, keepLogBytes)
	}
	settings += fmt.Sprintf("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA mmap_size = %d;", mmapBytes)
	if err := sqlitex.ExecuteTransient(c, "PRAGMA trusted_schema = OFF", nil); err != nil {
		return nil, errors.Join(classified(err), c.Close())
	}
	if err := runScript(c, settings); err != nil {
		return nil, errors.Join(classified(err), c.Close())
	}
	if err := db.files.check(); err != nil { // it may be connected to another file
		return nil, errors.Join(err, c.Close())
	}
	return &connection{conn: c, statements: map[string]*resultRow{}}, nil
}

// runScript runs statements one by one: some settings cannot be changed inside
// of the savepoint that the library's own script runner uses.
func runScript(c *sqlite.Conn, sql string) error {
	for sql = strings.TrimSpace(sql); sql != ""; sql = strings.TrimSpace(sql) {
		stmt, rest, err := c.PrepareTransient(sql)
		if err != nil {
			return err
		}
		for more := true; more && err == nil; {
			more, err = stmt.Step()
		}
		if err := errors.Join(err, stmt.Finalize()); err != nil {
			return err
		}
		sql = sql[len(sql)-rest:]
	}
	return nil
}

func (db *database) Name() string { return "sqlite" }

func (db *database) Traits() engine.Traits { return engine.Traits{Writers: 1} }

func (db *database) Query(ctx context.Context, sql string, args engine.Args, each func(engine.Row) error) error {
	return db.reading(ctx, func(c *connection) error {
		return c.within(ctx, func() error { return c.run(sql, args, each) })
	})
}

func (db *database) Read(ctx context.Context, f func(engine.Tx) error) error {
	return db.reading(ctx, func(c *connection) error { return c.transaction(ctx, f) })
}

// reading calls f with a connection that only reads.
func (db *database) reading(ctx context.Context, f func(*connection) error) error {
	select {
	case db.readers <- struct{}{}:
	case <-ctx.Done():
		return &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("wait for a read connection: %w", context.Cause(ctx))}
	}
	defer func() { <-db.readers }()

	c, err := db.takeReader()
	if err != nil {
		return db.noting(err) // a connection reads the schema when it is opened
	}
	defer db.putReader(c)
	return db.noting(f(c))
}

func (db *database) takeReader() (*connection, error) {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return nil, errClosed
	}
	if n := len(db.idle); n > 0 {
		c := db.idle[n-1]
		db.idle = db.idle[:n-1]
		db.mu.Unlock()
		return c, nil
	}
	db.mu.Unlock()
	return db.open(true)
}

func (db *database) putReader(c *connection) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.idle = append(db.idle, c)
}

// Migrate is Write: there is one writer, in all processes. What an index is sorted with is
// not kept in memory, as the writer's savepoints are.
func (db *database) Migrate(ctx context.Context, f func(engine.Tx) error) error {
	if err := db.keepTemporary(ctx, "FILE"); err != nil {
		return err
	}
	err := db.Write(ctx, f)
	if e := db.keepTemporary(context.WithoutCancel(ctx), "MEMORY"); err == nil {
		err = e
	}
	return err
}

// keepTemporary says where the writer keeps what no transaction needs for long.
func (db *database) keepTemporary(ctx context.Context, where string) error {
	if err := db.takeTurn(ctx); err != nil {
		return err
	}
	defer db.endTurn()
	db.commit()
	return db.writer.Script("PRAGMA temp_store = " + where)
}

// Distribute is an error: a file has no servers.
func (db *database) Distribute(context.Context, engine.Tables) ([]string, error) {
	return nil, errors.New("an embedded database cannot be distributed: use PostgreSQL with the extension citus")
}

// Tables leaves out SQLite's own.
func (db *database) Tables(ctx context.Context) (names []string, err error) {
	err = db.Query(ctx, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'", nil, func(r engine.Row) error {
		names = append(names, r.Text(0))
		return nil
	})
	return names, err
}

func (db *database) Stats() engine.Stats {
	return engine.Stats{Connections: len(db.readers) + db.turn.users(), LogBytes: db.logPages.Load() * pageBytes}
}

// Snapshot passes through the writer's turn: what was begun before is committed
// when it has had it. It begins no transaction: what is damaged, or is only read, can
// be exported too. Long reads are left to be many short ones, because a read that
// stays open keeps the write-ahead log from starting over.
func (db *database) Snapshot(ctx context.Context, f func(engine.DB) error) error {
	if err := db.takeTurn(ctx); err != nil {
		return err
	}
	db.commit()
	db.endTurn()
	return f(db)
}

// errReadOnly is the error of whoever writes what was opened to be read.
var errReadOnly = &engine.Error{Class: engine.Unavailable, Err: errors.New("the database was opened to be read only")}

// errClosed is the error of whoever comes after Close, or waited when it came.
var errClosed = &engine.Error{Class: engine.Unavailable, Err: errors.New("the database is closed")}

func (db *database) Close() error {
	db.closeOnce.Do(func() {
		close(db.closing)
		db.closeErr = db.release()
	})
	return db.closeErr
}

// closeConnections closes every connection but the checkpointer. After a failed sync they stay open
// until the process ends if that is the only way to make no checkpoint. db.mu and the writer's lock are held.
func (db *database) closeConnections() error {
	if db.syncFailure.Load() != nil {
		end, err := db.withoutCheckpoint()
		if err != nil {
			return err
		}
		defer func() { _ = end() }() // it has only read
	}
	errs := []error{db.versions.close()}
	for _, c := range db.idle {
		errs = append(errs, c.conn.Close())
	}
	return errors.Join(append(errs, db.writer.conn.Close())...)
}

// release waits for what runs and closes every connection. Who comes later finds
// the database closed.
func (db *database) release() error {
	db.background.Wait()
	for range maxReaders {
		db.readers <- struct{}{}
	}
	_ = db.turn.take(context.Background())
	db.commit()
	db.mu.Lock()
	defer db.mu.Unlock()
	db.closed = true
	err := db.closeConnections()
	db.idle, db.writer = nil, nil
	db.turn.end()
	for range maxReaders {
		<-db.readers
	}
	return err
}
