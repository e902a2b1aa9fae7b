// Package sqlite implements engine.DB on an SQLite file.
//
// One connection writes (write.go). Tenants acquire the write lock round-robin. BEGIN IMMEDIATE
// excludes other processes and is polled at a short interval, because a process under load frees
// the file only for moments. Each read has its own connection, up to maxReaders, so reads wait
// neither for writes nor for other reads.
//
// The file is in WAL mode. The WAL is synced before a commit returns (synchronous=FULL) and
// backfilled by checkpoints (checkpoint.go). A failed sync is fatal (sync.go). Deleted content is
// zeroed (secure_delete=ON); copies of it remain until a purge (purge.go).
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

// The writer's page cache has fewer than 4,096 pages: a commit after a page split scans all slots
// of the cache's hash table, which doubles when it is full.
const (
	maxReaders    = 64
	readerCacheKB = 1024
	writerCacheKB = 15 << 10
	mmapBytes     = 1 << 30
	pageBytes     = 4096
	busyPoll      = time.Millisecond
	busyLimit     = 10 * time.Second
)

// Options configure Open. The zero value is usable.
type Options struct {
	Observer engine.Observer // nil for none

	// For tests: the name of a registered VFS, and a function that rewrites a file and syncs it
	// there. The defaults are the operating system's.
	VFS     string
	Rewrite func(path string) error

	// CheckAfterCrash runs quick_check on a file of up to maxCheckedBytes before it is used, if the
	// last process did not close it.
	CheckAfterCrash bool

	// Immutable opens a complete file that no process writes, read-only, without locks and without
	// creating files next to it.
	Immutable bool

	// ReadOnly opens a file that other processes may write. It changes neither the file nor its
	// WAL, even after a crash.
	ReadOnly bool
}

type database struct {
	path    string
	options Options
	flags   sqlite.OpenFlags // of all connections

	versions  cacheVersions
	files     fileCheck
	writeLock fairLock     // guards writer and group
	writer    *connection  // nil once the database is closed
	group     *commitGroup // the group of the open transaction, nil if none is open

	checkpointer     *connection       // used by checkpointLoop
	checkpointDue    chan struct{}     // holds a token while enough pages wait for backfill
	truncateRequests chan chan<- error // checkpointLoop truncates the WAL and sends the result
	blockingPages    atomic.Int64      // WAL length in pages from which a checkpoint takes writeLock
	walBlocked       atomic.Bool       // readers keep a WAL of maxWALPages or more from being reset
	purgeBlockedAt   atomic.Int64      // when readers last blocked a purge, at most once in readersEndEvery; nanoseconds since 1970
	purgedAt         atomic.Int64      // when the WAL was last truncated for a purge; nanoseconds since 1970
	background       sync.WaitGroup

	closing   chan struct{} // closed by Close; ends all waits
	closeOnce sync.Once
	closeErr  error // set by the first Close

	readers chan struct{} // holds a token for each reader in use
	mu      sync.Mutex
	idle    []*connection // a stack, guarded by mu
	closed  bool          // guarded by mu

	walPages atomic.Int64          // WAL length in pages, as of the last commit
	damage   atomic.Pointer[error] // first corruption error, nil for none

	syncFailure atomic.Pointer[error] // first failed sync, nil for none; writes are refused after it
	fatal       chan error            // receives syncFailure once
}

// Open opens the database file at path. Unless the file is opened read-only, it creates a missing
// file with mode 0600. Errors include how to fix them. A damaged file is left unchanged, and Open
// returns an error of class Corrupt.
func Open(path string, options Options) (engine.DB, error) {
	db, err := open(path, options)
	if err != nil && options.Immutable {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, withAdvice(err))
	}
	return db, nil
}

func open(path string, options Options) (db *database, err error) {
	if !options.Immutable && !options.ReadOnly {
		if err := createFile(path); err != nil {
			return nil, err
		}
	}
	path, err = filepath.Abs(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path) // as SQLite does to name the WAL
	}
	if err != nil {
		return nil, &engine.Error{Class: engine.Unavailable, Err: err}
	}
	if options.Observer == nil {
		options.Observer = engine.NoObserver{}
	}
	db = &database{
		path: path, options: options, flags: sqlite.OpenReadWrite,
		closing:          make(chan struct{}),
		checkpointDue:    make(chan struct{}, 1),
		truncateRequests: make(chan chan<- error),
		fatal:            make(chan error, 1),
		readers:          make(chan struct{}, maxReaders),
	}
	if !options.Immutable {
		if err := db.inspect(); err != nil {
			return nil, err
		}
	}
	if options.Immutable || options.ReadOnly {
		// The last writable connection to close backfills the WAL. If the WAL is missing or empty,
		// a writable connection is safe, and removes the empty WAL that reading creates.
		if wal, err := sizeOf(db.path + "-wal"); options.Immutable || err != nil || wal > 0 {
			db.flags = sqlite.OpenReadOnly
		}
		db.writer, err = db.open(true) // serves as a read-only writer
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
	db.writer.conn.SetBusyTimeout(0) // beginImmediate polls instead
	if err := db.ensureWritable(); err != nil {
		return nil, errors.Join(err, db.writer.conn.Close())
	}
	if db.checkpointer, err = db.open(false); err != nil {
		return nil, errors.Join(err, db.writer.conn.Close())
	}
	db.checkpointer.conn.SetBusyTimeout(0)
	db.blockingPages.Store(resetPages)
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
	db.background.Go(db.checkpointLoop)
	return db, nil
}

// createFile creates the database file unless it exists. It does not open an existing file: this
// process may have it open already, and on Unix, closing any descriptor of a file drops all locks
// that the process holds on it. It creates no file next to the WAL of a missing one.
func createFile(path string) error {
	_, err := os.Stat(path)
	if err == nil {
		return nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return &engine.Error{Class: engine.Unavailable, Err: err}
	}
	if err := rejectOrphanedWAL(path); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	switch {
	case err == nil:
		err = file.Close()
	case errors.Is(err, os.ErrNotExist):
		dir := filepath.Dir(path)
		err = fmt.Errorf("directory %s does not exist: check the path, or run mkdir -p -m 0700 %[1]s", dir)
	}
	if err != nil {
		return &engine.Error{Class: engine.Unavailable, Err: err}
	}
	return nil
}

// connect opens a connection without configuring it.
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
		return nil, classify(err)
	}
	c.SetBusyTimeout(busyLimit)
	return c, nil
}

// open opens a connection. A file that is no database is opened again: it may have been another file,
// which was replaced in the meantime.
func (db *database) open(readOnly bool) (*connection, error) {
	c, err := db.openOnce(readOnly)
	if engine.ClassOf(err) == engine.Corrupt {
		return db.openOnce(readOnly)
	}
	return c, err
}

func (db *database) openOnce(readOnly bool) (*connection, error) {
	if err := db.files.check(); err != nil { // SQLite would create a missing file
		return nil, err
	}
	c, err := db.connect(db.flags)
	if err == nil {
		err = configure(c, readOnly)
	}
	// If a file is missing now, the connection, or the fault that it found, may be of another file.
	if lost := db.files.check(); lost != nil {
		err = lost
	}
	if err != nil {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
		return nil, err
	}
	return &connection{conn: c, statements: map[string]*resultRow{}}, nil
}

// configure sets the settings of a connection.
func configure(c *sqlite.Conn, readOnly bool) error {
	settings := fmt.Sprintf("PRAGMA cache_size = -%d; PRAGMA query_only = ON;", readerCacheKB)
	if !readOnly {
		settings = fmt.Sprintf(`PRAGMA journal_mode = WAL; PRAGMA cache_size = -%d; PRAGMA temp_store = MEMORY;
			PRAGMA wal_autocheckpoint = 0; PRAGMA secure_delete = ON; PRAGMA journal_size_limit = %d;`,
			writerCacheKB, walSizeLimit)
	}
	// macOS empties the disk's own cache only with fullfsync
	// (https://www.sqlite.org/pragma.html#pragma_fullfsync); other systems ignore it.
	settings += fmt.Sprintf("PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA foreign_keys = ON; PRAGMA mmap_size = %d;", mmapBytes)
	err := sqlitex.ExecuteTransient(c, "PRAGMA trusted_schema = OFF", nil)
	if err == nil {
		err = runScript(c, settings)
	}
	return classify(err)
}

// runScript runs statements one by one, outside a transaction: some settings cannot be changed
// inside the savepoint that the library's own script runner uses.
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
	return db.withReader(ctx, func(c *connection) error {
		return c.withContext(ctx, func() error { return c.run(sql, args, each) })
	})
}

func (db *database) Read(ctx context.Context, f func(engine.Tx) error) error {
	return db.withReader(ctx, func(c *connection) error { return c.transaction(ctx, f) })
}

// withReader calls f with a read-only connection.
func (db *database) withReader(ctx context.Context, f func(*connection) error) error {
	select {
	case db.readers <- struct{}{}:
	case <-ctx.Done():
		return &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("wait for a read connection: %w", context.Cause(ctx))}
	}
	defer func() { <-db.readers }()

	c, err := db.takeReader()
	if err != nil {
		return db.recordFailure(err) // opening a connection reads the schema
	}
	defer db.putReader(c)
	return db.recordFailure(f(c))
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

// Migrate is Write: there is one writer across all processes. Sorters of index builds spill to
// temporary files instead of memory; the writer's savepoints stay in memory.
func (db *database) Migrate(ctx context.Context, f func(engine.Tx) error) error {
	if err := db.setTempStore(ctx, "FILE"); err != nil {
		return err
	}
	err := db.Write(ctx, f)
	if e := db.setTempStore(context.WithoutCancel(ctx), "MEMORY"); err == nil {
		err = e
	}
	return err
}

// setTempStore sets PRAGMA temp_store of the writer.
func (db *database) setTempStore(ctx context.Context, store string) error {
	if err := db.lockWriter(ctx); err != nil {
		return err
	}
	defer db.unlockWriter()
	db.commit()
	return db.writer.Script("PRAGMA temp_store = " + store)
}

// Distribute always fails: an embedded database has no servers.
func (db *database) Distribute(context.Context, engine.Tables) ([]string, error) {
	return nil, errors.New("an embedded database cannot be distributed: use PostgreSQL with the extension citus")
}

// Tables omits SQLite's internal tables.
func (db *database) Tables(ctx context.Context) (names []string, err error) {
	const sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
	err = db.Query(ctx, sql, nil, func(r engine.Row) error {
		names = append(names, r.Text(0))
		return nil
	})
	return names, err
}

func (db *database) Stats() engine.Stats {
	connections := len(db.readers)
	if db.writeLock.held() {
		connections++
	}
	size, _ := sizeOf(db.path) // 0 if the file cannot be read, which fileCheck reports
	return engine.Stats{Connections: connections, FileBytes: size, WALBytes: db.walPages.Load() * pageBytes, WALBlocked: db.walBlocked.Load() || db.purgeBlocked()}
}

// Snapshot acquires the write lock once, so that writes that began before it are committed. It
// opens no transaction, so it also works on a damaged or read-only database. Reads stay short
// because an open read transaction prevents a WAL reset.
func (db *database) Snapshot(ctx context.Context, f func(engine.DB) error) error {
	if err := db.lockWriter(ctx); err != nil {
		return err
	}
	db.commit()
	db.unlockWriter()
	return f(db)
}

// errReadOnly is returned by writes to a database that was opened read-only.
var errReadOnly = &engine.Error{Class: engine.Unavailable, Err: errors.New("the database was opened read-only")}

// errClosed is returned by calls after Close, and by calls that were waiting when it was called.
var errClosed = &engine.Error{Class: engine.Unavailable, Err: errors.New("the database is closed")}

func (db *database) Close() error {
	db.closeOnce.Do(func() {
		close(db.closing)
		db.closeErr = db.release()
	})
	return db.closeErr
}

// closeConnections closes all connections except the checkpointer. After a failed sync, they stay
// open until the process exits if that is the only way to avoid a checkpoint. The caller holds
// db.mu and the write lock.
func (db *database) closeConnections() error {
	if db.syncFailure.Load() != nil {
		end, err := db.withoutCheckpoint()
		if err != nil {
			return err
		}
		defer func() { _ = end() }() // read-only
	}
	errs := []error{db.versions.close()}
	for _, c := range db.idle {
		errs = append(errs, c.conn.Close())
	}
	return errors.Join(append(errs, db.writer.conn.Close())...)
}

// release waits for running calls and closes all connections. Later calls return errClosed.
func (db *database) release() error {
	db.background.Wait()
	for range maxReaders {
		db.readers <- struct{}{}
	}
	_ = db.writeLock.lock(context.Background(), "") // never fails without a deadline
	db.commit()
	db.mu.Lock()
	defer db.mu.Unlock()
	db.closed = true
	err := db.closeConnections()
	db.idle, db.writer = nil, nil
	db.writeLock.unlock()
	for range maxReaders {
		<-db.readers
	}
	return err
}
