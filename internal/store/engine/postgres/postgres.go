// Package postgres implements engine.DB on PostgreSQL and on servers that speak its protocol.
//
// Write transactions are READ COMMITTED. A row that must not change between a read and a write is
// read with Lock; a unique key protects rows that two transactions may insert concurrently.
//
// A transaction is retried a few times with exponential backoff if the server aborted it in favor
// of another one, or if its connection was lost before the commit was sent. If the response to a
// commit is lost, only the caller can find out whether it took effect: the error is of class
// Uncertain.
//
// Every round trip has a deadline, and so have the wait for a connection and each write transaction. The
// number of waiting calls is limited, so a server that does not respond ties up a bounded part of the
// process.
//
// If a connection times out, it is closed together with all idle ones, since a network that drops
// one usually drops all; the pool opens new ones at once. Connections are not pinged before use: a
// ping would only wait as the statement does.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"atrium/internal/store/engine"
)

const (
	maxTries          = 8
	firstBackoff      = 2 * time.Millisecond
	maxBackoff        = 200 * time.Millisecond
	connectTimeout    = 5 * time.Second
	maxIdleTime       = 5 * time.Minute
	maxLifetime       = time.Hour
	healthCheckPeriod = 15 * time.Second
	waitersPerConn    = 48
	closeTimeout      = 100 * time.Millisecond
	statementCache    = 512            // prepared statements per connection
	migrationLock     = 0x61747269756d // advisory lock: "atrium" in ASCII
)

// The defaults of Options.
const (
	DefaultConnections = 16
	DefaultTimeout     = 10 * time.Second
)

// Options configure Open. The zero value is usable.
type Options struct {
	Connections  int             // maximum number of connections; DefaultConnections if 0
	Timeout      time.Duration   // of a statement and of the wait for a connection; DefaultTimeout if 0
	WriteTimeout time.Duration   // for tests: of a write transaction; engine.MaxWriteTime if 0
	Unprepared   bool            // keep no session state between transactions, for a connection pooler
	Sharded      bool            // for tests: treat any server as a cluster
	Observer     engine.Observer // nil for none
}

type database struct {
	pool    *pgxpool.Pool
	options Options
	sharded atomic.Bool
	queries coalescer
	waiting chan struct{} // holds a token for each call that has or waits for a connection
	closing chan struct{} // holds a token for each hijacked connection that is not closed yet
}

// Open connects to the database at url, which has the scheme postgres and may name several hosts.
// The database must have the encoding UTF8 and accept writes.
func Open(ctx context.Context, url string, options Options) (engine.DB, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err) // the error does not contain the password
	}
	if hasPasswordInHost(&config.ConnConfig.Config) {
		return nil, errors.New("database URL: the host contains an @: write an @ in a password as %40")
	}
	if options.Connections == 0 {
		options.Connections = DefaultConnections
	}
	if options.Timeout == 0 {
		options.Timeout = DefaultTimeout
	}
	if options.WriteTimeout == 0 {
		options.WriteTimeout = engine.MaxWriteTime
	}
	if options.Observer == nil {
		options.Observer = engine.NoObserver{}
	}
	config.MaxConns = int32(options.Connections)
	config.MinConns = 1
	config.MaxConnIdleTime = maxIdleTime
	config.MaxConnLifetime = maxLifetime
	config.MaxConnLifetimeJitter = maxLifetime / 4
	config.HealthCheckPeriod = healthCheckPeriod
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	timeout := min(connectTimeout, options.Timeout)
	if requested := config.ConnConfig.ConnectTimeout; requested > 0 {
		timeout = min(timeout, requested)
	}
	config.ConnConfig.ConnectTimeout = timeout // per host
	if config.ConnConfig.ValidateConnect == nil {
		// After a failover, the old address may refer to a standby for a while.
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "atrium"
	}
	db := &database{
		options: options,
		queries: coalescer{
			maxLeaders: max(1, options.Connections/connsPerLeader),
			maxQueries: waitersPerConn * options.Connections,
		},
		waiting: make(chan struct{}, waitersPerConn*options.Connections),
		closing: make(chan struct{}, options.Connections),
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	if options.Unprepared {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	config.ConnConfig.StatementCacheCapacity, config.ConnConfig.DescriptionCacheCapacity = statementCache, statementCache
	config.AfterConnect = db.prepareConn
	if hasSeveralHosts(config.ConnConfig) {
		new(newestTimeline).guard(config)
	}
	if db.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, &engine.Error{Class: engine.Unavailable, Err: err}
	}
	if err := db.probe(ctx); err != nil {
		_ = db.Close() // does not wait for a server that hangs
		return nil, fmt.Errorf("open database: %w", err)
	}
	return db, nil
}

// hasPasswordInHost reports whether the parsed host contains the end of a password, because the
// password has an unescaped @. Host names have none, and connection errors show the host. The path
// of a Unix socket may contain one.
func hasPasswordInHost(c *pgconn.Config) bool {
	hasAt := func(host string) bool { return !strings.HasPrefix(host, "/") && strings.LastIndexByte(host, '@') > 0 }
	return hasAt(c.Host) || slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return hasAt(f.Host) })
}

// probe verifies that the database is reachable, and detects whether it is sharded. It bypasses the
// coalescer, so that it ends with ctx.
func (db *database) probe(ctx context.Context) error {
	query := func(sql string, each func(engine.Row) error) error {
		return db.runAlone(&coalescedQuery{ctx: ctx, sql: sql, each: each})
	}
	db.sharded.Store(db.options.Sharded)
	citus := false
	if err := query("SELECT 1 WHERE to_regclass('pg_dist_partition') IS NOT NULL", func(engine.Row) error {
		citus = true
		return nil
	}); err != nil || !citus {
		return err
	}
	const isSharded = "SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass('entries') AND partmethod = 'h'"
	return query(isSharded, func(engine.Row) error {
		db.sharded.Store(true)
		return nil
	})
}

func (db *database) Name() string { return "postgres" }

func (db *database) Traits() engine.Traits {
	return engine.Traits{
		Writers: max(1, db.options.Connections-1), Sharded: db.sharded.Load(),
		Remote: true, Replicated: true, Snapshots: true,
	}
}

func (db *database) Read(ctx context.Context, f func(engine.Tx) error) error {
	return db.retry(ctx, func(t *transaction) error {
		return t.transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", f)
	})
}

func (db *database) Write(ctx context.Context, f func(engine.Tx) error) error {
	start, attempts := time.Now(), 0
	err := db.retry(ctx, func(t *transaction) error {
		attempts++
		limited, cancel := context.WithTimeout(t.caller, db.options.WriteTimeout)
		defer cancel()
		t.caller, t.writes = limited, true
		return t.transaction("BEGIN ISOLATION LEVEL READ COMMITTED", f)
	})
	db.options.Observer.Wrote(ctx, time.Since(start), attempts, err == nil)
	return err
}

// Migrate holds a transaction-level advisory lock, which also works behind a pooler that shares
// connections. It waits for the lock of a table only briefly and then retries, because the table's
// next users would queue behind it.
func (db *database) Migrate(ctx context.Context, f func(engine.Tx) error) error {
	return db.retry(ctx, func(t *transaction) error {
		t.writes, t.timeout = true, 0
		return t.transaction("BEGIN ISOLATION LEVEL READ COMMITTED", func(tx engine.Tx) error {
			settings := fmt.Sprintf(`SET LOCAL statement_timeout = 0;
				SET LOCAL idle_in_transaction_session_timeout = 0;
				SELECT pg_advisory_xact_lock(%d);
				SET LOCAL lock_timeout = '2s'`, migrationLock)
			if err := tx.Script(settings); err != nil {
				return err
			}
			return f(tx)
		})
	})
}

// Purge does nothing: VACUUM and the recycling of the server's WAL remove deleted rows.
func (db *database) Purge(context.Context, int64) error { return nil }

// retry calls once until it succeeds or returns a permanent error.
func (db *database) retry(ctx context.Context, f func(*transaction) error) error {
	backoff := firstBackoff
	for try := 1; ; try++ {
		retriable, err := db.once(ctx, f)
		if !retriable || try == maxTries {
			return err
		}
		if try == 2 && isLost(err) && !isRemote(err) {
			db.pool.Reset() // the other connections are probably lost, too
		}
		select {
		case <-time.After(backoff/2 + rand.N(backoff)):
			backoff = min(2*backoff, maxBackoff)
		case <-ctx.Done():
			return err
		}
	}
}

// errTooMany is returned when the limit of waiting calls is reached.
var errTooMany = &engine.Error{
	Class: engine.Unavailable, Err: errors.New("too many calls are waiting for the database"),
}

// once calls f with a connection. retriable reports whether f failed with a transient error and may
// be called again.
func (db *database) once(ctx context.Context, f func(*transaction) error) (retriable bool, err error) {
	select {
	case db.waiting <- struct{}{}:
		defer func() { <-db.waiting }()
	default:
		return false, errTooMany
	}
	if err := ctx.Err(); err != nil {
		err := fmt.Errorf("wait for a connection: %w", context.Cause(ctx))
		return false, &engine.Error{Class: engine.Unavailable, Err: err}
	}
	wait, cancel := context.WithTimeout(ctx, db.options.Timeout)
	conn, err := db.pool.Acquire(wait)
	cancel()
	if err != nil {
		return false, &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("connect to the database: %w", connectError{err})}
	}
	defer db.release(conn)
	t := &transaction{
		conn: conn.Conn(), caller: ctx, timeout: db.options.Timeout, sharded: db.sharded.Load(), queued: &pgx.Batch{},
	}
	if p, ok := t.conn.PgConn().CustomData()[planAgeKey].(*planAge); ok {
		err = p.refresh(t)
	}
	if err == nil {
		err = f(t)
	}
	if isTimeout(err) && t.conn.IsClosed() {
		db.dropIdle()
	}
	return (t.writes || !t.returned) && (isLost(err) || isContended(err)), err
}

// release returns a connection to the pool, which closes it if a transaction is open or a response
// outstanding. A closed connection would occupy its slot in the pool until its server responds, for
// up to 15 seconds. So it is hijacked and closed in the background, unless as many as the pool's
// connections are being closed already. They get half a timeout for this, so they are gone before
// the next connections time out.
func (db *database) release(conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() {
		select {
		case db.closing <- struct{}{}:
			pg := conn.Hijack().PgConn()
			go func() {
				select {
				case <-pg.CleanupDone():
				case <-time.After(db.options.Timeout / 2):
					_ = pg.Conn().Close()
				}
				<-db.closing
			}()
			return
		default:
		}
	}
	conn.Release()
}

// dropIdle closes all idle connections.
func (db *database) dropIdle() {
	for _, conn := range db.pool.AcquireAllIdle(context.Background()) {
		_ = conn.Conn().Close(context.Background()) // does not wait for the server
		conn.Release()
	}
}

func (db *database) Stats() engine.Stats {
	used := int(db.pool.Stat().AcquiredConns())
	return engine.Stats{Connections: used, Waiting: max(0, len(db.waiting)-used) + db.queries.size()}
}

// Server reads pg_settings.
func (db *database) Server(ctx context.Context) (*engine.Server, error) {
	server := &engine.Server{Settings: map[string]string{}}
	err := db.Query(ctx, `SELECT name::text, setting::text, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
		FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit',
			'server_version', 'server_version_num', 'max_connections',
			'superuser_reserved_connections', 'data_checksums')`, nil, func(r engine.Row) error {
		server.Settings[r.Text(0)], server.Now = r.Text(1), time.UnixMicro(r.Int(2))
		return nil
	})
	if err == nil && db.sharded.Load() && !db.options.Sharded {
		server.Cluster, err = db.cluster(ctx)
	}
	return server, err
}

// Tables returns the tables on the search path, including those that this user cannot read.
func (db *database) Tables(ctx context.Context) (names []string, err error) {
	const sql = "SELECT tablename::text FROM pg_catalog.pg_tables WHERE schemaname = ANY (current_schemas(false))"
	err = db.Query(ctx, sql, nil, func(r engine.Row) error {
		names = append(names, r.Text(0))
		return nil
	})
	return names, err
}

// Fatal returns nil: a server that fails to sync restarts itself.
func (db *database) Fatal() <-chan error { return nil }

// CacheVersion returns false: this node is not notified of other nodes' commits.
func (db *database) CacheVersion(string) (engine.CacheVersion, bool) {
	return engine.CacheVersion{}, false
}

// Copy always fails: servers have their own backup tools.
func (db *database) Copy(context.Context, io.Writer, func(int64)) error {
	return errors.New("a database server cannot be copied by Atrium: use pg_dump or pg_basebackup")
}

// Check finds invalid indexes. To find damaged pages is the server's task: checksums and pg_amcheck
// do it.
func (db *database) Check(ctx context.Context, _ bool) (found []engine.Problem, err error) {
	err = db.Query(ctx, `SELECT c.relname::text FROM pg_catalog.pg_index i
		JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = current_schema() AND NOT (i.indisvalid AND i.indisready)`, nil, func(r engine.Row) error {
		if len(found) < engine.MaxProblems {
			found = append(found, engine.Problem{Detail: fmt.Sprintf("index %s is invalid: run REINDEX", r.Text(0))})
		}
		return nil
	})
	return found, err
}

// Damage returns nil: the server handles its own corruption, and may have been repaired since.
func (db *database) Damage() error { return nil }

// CheckFiles returns nil: the server has its own files.
func (db *database) CheckFiles() error { return nil }

// Close waits for running transactions only briefly: one that hangs would delay the exit of the
// process, which ends it without a trace.
func (db *database) Close() error {
	closed := make(chan struct{})
	go func() {
		db.pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
		return nil
	case <-time.After(closeTimeout):
		return nil
	}
}
