package engine

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// The rules of this file.
//
// One connection writes, under a lock that hands itself on in order of arrival;
// other processes are kept out by BEGIN IMMEDIATE, which is retried often
// because a server under load leaves the database free only for moments.
//
// Reads have connections of their own, made when they are needed, so that no
// read waits for a write or for another read below maxReaders.
//
// The write-ahead log is synced before a commit returns (synchronous=FULL).
// Checkpoints run at the end of commits. A passive one never finishes while
// reads overlap, so above maxWAL the writer runs one that waits for the reads
// of the moment and starts the log over.
const (
	maxReaders      = 64
	readerCacheKB   = 1024
	writerCacheKB   = 64 << 10
	mmapBytes       = 1 << 30
	checkpointPages = 8000     // of 4 KB each
	keepWAL         = 64 << 20 // what is left of a larger log when it starts over
	maxWAL          = 128 << 20
	busyPoll        = time.Millisecond
	busyLimit       = 10 * time.Second
)

// SQLiteOptions are settings that only tests need.
type SQLiteOptions struct {
	VFS string // the name of a registered file system; "" for the default
}

type sqliteDB struct {
	path    string
	options SQLiteOptions

	writing chan struct{} // holds a token while writer is in use
	writer  *sqliteConn

	readers chan struct{} // holds a token for each reader in use
	mu      sync.Mutex
	idle    []*sqliteConn // guarded by mu; the last one used comes first
	closed  bool          // guarded by mu
}

// OpenSQLite opens the database file at path and makes it, readable by its
// owner alone, if there is none.
func OpenSQLite(path string, options SQLiteOptions) (DB, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &Error{Unavailable, fmt.Errorf("open database: %w", err)}
	}
	_ = file.Close()
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	db := &sqliteDB{
		path: path, options: options,
		writing: make(chan struct{}, 1),
		readers: make(chan struct{}, maxReaders),
	}
	db.writer, err = db.open(false)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	return db, nil
}

func (db *sqliteDB) open(readOnly bool) (*sqliteConn, error) {
	name := db.path
	flags := sqlite.OpenReadWrite
	if db.options.VFS != "" {
		name = (&url.URL{Scheme: "file", OmitHost: true, Path: db.path, RawQuery: url.Values{"vfs": {db.options.VFS}}.Encode()}).String()
		flags |= sqlite.OpenURI
	}
	c, err := sqlite.OpenConn(name, flags)
	if err != nil {
		return nil, sqliteError(err)
	}
	c.SetBusyTimeout(busyLimit)
	settings := fmt.Sprintf("PRAGMA cache_size = -%d; PRAGMA query_only = ON;", readerCacheKB)
	if !readOnly {
		settings = fmt.Sprintf(`PRAGMA journal_mode = WAL; PRAGMA cache_size = -%d;
			PRAGMA wal_autocheckpoint = %d; PRAGMA journal_size_limit = %d;`, writerCacheKB, checkpointPages, keepWAL)
	}
	settings += fmt.Sprintf("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA mmap_size = %d;", mmapBytes)
	if err := sqlitex.ExecuteTransient(c, "PRAGMA trusted_schema = OFF", nil); err != nil {
		return nil, errors.Join(sqliteError(err), c.Close())
	}
	if err := runScript(c, settings); err != nil {
		return nil, errors.Join(sqliteError(err), c.Close())
	}
	return &sqliteConn{conn: c, statements: map[string]*sqlite.Stmt{}}, nil
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

func (db *sqliteDB) Name() string { return "sqlite" }

func (db *sqliteDB) Read(ctx context.Context, f func(Tx) error) error {
	select {
	case db.readers <- struct{}{}:
	case <-ctx.Done():
		return &Error{Unavailable, fmt.Errorf("wait for a read connection: %w", context.Cause(ctx))}
	}
	defer func() { <-db.readers }()

	c, err := db.takeReader()
	if err != nil {
		return err
	}
	defer db.putReader(c)
	return c.transaction("BEGIN", f)
}

func (db *sqliteDB) takeReader() (*sqliteConn, error) {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return nil, &Error{Unavailable, errors.New("the database is closed")}
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

func (db *sqliteDB) putReader(c *sqliteConn) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.idle = append(db.idle, c)
}

func (db *sqliteDB) Write(ctx context.Context, f func(Tx) error) error {
	select {
	case db.writing <- struct{}{}:
	case <-ctx.Done():
		return &Error{Unavailable, fmt.Errorf("wait for the writer: %w", context.Cause(ctx))}
	}
	defer func() { <-db.writing }()
	if db.writer == nil {
		return &Error{Unavailable, errors.New("the database is closed")}
	}
	if err := db.begin(ctx); err != nil {
		return err
	}
	if err := db.writer.transaction("", f); err != nil {
		return err
	}
	db.boundLog()
	return nil
}

// begin starts a write transaction, and waits up to busyLimit for another
// process that has one.
func (db *sqliteDB) begin(ctx context.Context) error {
	db.writer.conn.SetBusyTimeout(0)
	defer db.writer.conn.SetBusyTimeout(busyLimit)
	for deadline := time.Now().Add(busyLimit); ; {
		_, err := db.writer.Exec("BEGIN IMMEDIATE")
		if err == nil || ClassOf(err) != Unavailable || time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(busyPoll):
		case <-ctx.Done():
			return &Error{Unavailable, fmt.Errorf("wait for another process to finish writing: %w", context.Cause(ctx))}
		}
	}
}

// boundLog starts the write-ahead log over when it has grown too large. A
// failure harms nothing that is committed, and the next commit tries again.
func (db *sqliteDB) boundLog() {
	if info, err := os.Stat(db.path + "-wal"); err == nil && info.Size() > maxWAL {
		_, _ = db.writer.Exec("PRAGMA wal_checkpoint(RESTART)")
	}
}

// Snapshot passes through the writer's turn: what was begun before is committed
// when it has had it. Long reads are left to be many short ones, because a read
// that stays open keeps the write-ahead log from starting over.
func (db *sqliteDB) Snapshot(ctx context.Context, f func(DB) error) error {
	if err := db.Write(ctx, func(Tx) error { return nil }); err != nil {
		return err
	}
	return f(db)
}

func (db *sqliteDB) Check(ctx context.Context) error {
	return db.Read(ctx, func(tx Tx) error {
		return tx.Query("PRAGMA integrity_check", nil, func(r Row) error {
			if r.Text(0) != "ok" {
				return &Error{Corrupt, errors.New(r.Text(0))}
			}
			return nil
		})
	})
}

func (db *sqliteDB) Close() error {
	for range maxReaders {
		db.readers <- struct{}{}
	}
	db.writing <- struct{}{}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		<-db.writing
		return nil
	}
	db.closed = true
	var errs []error
	for _, c := range db.idle {
		errs = append(errs, c.conn.Close())
	}
	errs = append(errs, db.writer.conn.Close())
	db.idle, db.writer = nil, nil
	<-db.writing
	for range maxReaders {
		<-db.readers
	}
	return errors.Join(errs...)
}
