// Package postgres runs the store on PostgreSQL and on servers that speak its protocol.
//
// Transactions that write are READ COMMITTED. A row that must not change between a read and a
// write is read with Lock; what two transactions may insert at once has a unique key.
//
// A transaction that the server aborted in favor of another one, or whose connection was lost
// before the commit was sent, is repeated a few times with growing pauses. If the response to a
// commit is lost, only the caller can find out whether it took effect: the error is Uncertain.
//
// Every exchange with the server has a deadline. So has the wait for a connection, and the
// number of callers that wait is limited: a server that does not respond ties up a bounded
// part of the process.
//
// If nothing arrives on a connection in time, it is closed together with all idle ones, since
// a network that drops one usually drops all; the pool opens new ones at once. Connections are
// not pinged before use: a ping would only wait as the statement does.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"atrium/internal/store/engine"
)

const (
	maxTries          = 8
	firstPause        = 2 * time.Millisecond
	maxPause          = 200 * time.Millisecond
	connectTimeout    = 5 * time.Second
	maxIdleTime       = 5 * time.Minute
	maxLifetime       = time.Hour
	healthCheckPeriod = 15 * time.Second
	waitersPerConn    = 32
	closePatience     = 100 * time.Millisecond
	firstDiscard      = time.Second
	statementCache    = 512            // prepared statements of a connection
	migrationLock     = 0x61747269756d // "atrium"
)

// The defaults of Options.
const (
	DefaultConnections = 16
	DefaultTimeout     = 10 * time.Second
)

// Options of Open; the zero value is usable.
type Options struct {
	Connections int             // the most connections; DefaultConnections if 0
	Timeout     time.Duration   // of a statement, and of the wait for a connection; DefaultTimeout if 0
	Unprepared  bool            // keep no state on the server between transactions, for a connection pooler
	Sharded     bool            // for tests: treat any server as a cluster
	Observer    engine.Observer // nil for none
}

type database struct {
	pool    *pgxpool.Pool
	options Options
	sharded atomic.Bool
	queries gathering
	waiting chan struct{} // holds a token for each that has or waits for a connection
	ending  chan struct{} // holds a token for each connection that was given up and is not closed yet
}

// Open connects to the database at url, whose scheme is postgres, and
// which may name several hosts. It must have the encoding UTF8 and accept writes.
func Open(ctx context.Context, url string, options Options) (engine.DB, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("the database's URL: %w", err) // it has no password
	}
	if hasPasswordInHost(&config.ConnConfig.Config) {
		return nil, errors.New("the database's URL: there is an @ in the host; one in a password is written %40")
	}
	if options.Connections == 0 {
		options.Connections = DefaultConnections
	}
	if options.Timeout == 0 {
		options.Timeout = DefaultTimeout
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
	limit := min(connectTimeout, options.Timeout)
	if asked := config.ConnConfig.ConnectTimeout; asked > 0 {
		limit = min(limit, asked)
	}
	config.ConnConfig.ConnectTimeout = limit // for each host
	if config.ConnConfig.ValidateConnect == nil {
		// After a failover the old address may lead to a standby for a while.
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "atrium"
	}
	db := &database{
		options: options,
		queries: gathering{leaders: max(1, options.Connections/connsPerLeader), limit: waitersPerConn * options.Connections},
		waiting: make(chan struct{}, waitersPerConn*options.Connections),
		ending:  make(chan struct{}, options.Connections),
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	if options.Unprepared {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	config.ConnConfig.StatementCacheCapacity, config.ConnConfig.DescriptionCacheCapacity = statementCache, statementCache
	config.AfterConnect = db.prepareConn
	if namesSeveral(config.ConnConfig) {
		new(newestTimeline).guard(config)
	}
	if db.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, &engine.Error{Class: engine.Unavailable, Err: err}
	}
	if err := db.probe(ctx); err != nil {
		_ = db.Close() // who is told to stop does not wait for a server that hangs
		return nil, fmt.Errorf("open database: %w", err)
	}
	return db, nil
}

// hasPasswordInHost reports whether what is taken for a host is the end of a password
// with an @ in it, as no name of a host has it: errors of connections show hosts. A
// socket's name may begin with one.
func hasPasswordInHost(c *pgconn.Config) bool {
	at := func(host string) bool { return !strings.HasPrefix(host, "/") && strings.LastIndexByte(host, '@') > 0 }
	return at(c.Host) || slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return at(f.Host) })
}

// plansKey is the key under which a connection keeps the state of its plans.
const plansKey = "atrium plans"

// plans is the state of the plans of a connection's prepared statements.
type plans struct {
	connectedAt time.Time
	discardAt   time.Time // zero for never
}

// sessionSettings are made where a session is ours alone. Every statement of the
// store finds its rows by an index, and is planned once for all arguments: a plan
// that was made while a table was small, by reading all of it, would be kept
// after it has grown. Without costs to compare there is nothing to compile for.
// What was acknowledged must be on disk, whatever the default of the database.
const sessionSettings = `SELECT set_config(name, CASE name
		WHEN 'plan_cache_mode' THEN 'force_generic_plan'
		WHEN 'idle_in_transaction_session_timeout' THEN '%d'
		ELSE 'off' END, false)
	FROM pg_settings WHERE name IN ('plan_cache_mode', 'idle_in_transaction_session_timeout',
		'enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', 'jit')
	UNION ALL SELECT set_config(name, 'on', false) FROM pg_settings WHERE name = 'synchronous_commit' AND setting = 'off'`

func (db *database) prepareConn(ctx context.Context, c *pgx.Conn) error {
	if encoding := c.PgConn().ParameterStatus("server_encoding"); encoding != "" && encoding != "UTF8" {
		return fmt.Errorf("the database has the encoding %s: make one with UTF8", encoding)
	}
	if db.options.Unprepared {
		return nil
	}
	now := time.Now()
	c.PgConn().CustomData()[plansKey] = &plans{connectedAt: now, discardAt: now.Add(firstDiscard)}
	// Twice the time of a statement: who is slower than that has gone away and
	// may hold locks.
	settings := fmt.Sprintf(sessionSettings, 2*db.options.Timeout.Milliseconds())
	// The time-out of connecting is over, and the pool has none for this.
	ctx, cancel := context.WithTimeout(ctx, min(connectTimeout, db.options.Timeout))
	defer cancel()
	_, err := c.Exec(ctx, settings)
	return err
}

// refresh discards the plans whenever the connection has become twice as old. A server
// keeps a plan until it has analyzed the tables, which may take minutes. In one that it
// made while they were empty, any index of a tenant looks as good as that of an identifier.
func (p *plans) refresh(t *transaction) error {
	now := time.Now()
	if p.discardAt.IsZero() || now.Before(p.discardAt) {
		return nil
	}
	p.discardAt = now.Add(now.Sub(p.connectedAt))
	err := t.exec("DISCARD PLANS")
	if sqlState(err) != "" && !t.conn.IsClosed() {
		p.discardAt = time.Time{} // this server does not support it
		return nil
	}
	return err
}

// probe finds out whether the database is there, and whether it is sharded. It ends
// with ctx, which queries that are sent together do not.
func (db *database) probe(ctx context.Context) error {
	query := func(sql string, each func(engine.Row) error) error {
		return db.single(&gathered{ctx: ctx, sql: sql, each: each})
	}
	db.sharded.Store(db.options.Sharded)
	citus := false
	if err := query("SELECT 1 WHERE to_regclass('pg_dist_partition') IS NOT NULL", func(engine.Row) error {
		citus = true
		return nil
	}); err != nil || !citus {
		return err
	}
	return query("SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass('entries') AND partmethod = 'h'", func(engine.Row) error {
		db.sharded.Store(true)
		return nil
	})
}

func (db *database) Name() string { return "postgres" }

func (db *database) Traits() engine.Traits {
	return engine.Traits{Writers: max(1, db.options.Connections-1), Sharded: db.sharded.Load(), Remote: true, Replicated: true, Snapshots: true}
}

func (db *database) Read(ctx context.Context, f func(engine.Tx) error) error {
	return db.again(ctx, func(t *transaction) error {
		return t.transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", f)
	})
}

func (db *database) Write(ctx context.Context, f func(engine.Tx) error) error {
	start, attempts := time.Now(), 0
	err := db.again(ctx, func(t *transaction) error {
		attempts++
		t.writes = true
		return t.transaction("BEGIN ISOLATION LEVEL READ COMMITTED", f)
	})
	db.options.Observer.Wrote(ctx, time.Since(start), attempts, err == nil)
	return err
}

// Migrate holds a lock that ends with its transaction, and so is the same behind
// a pool that shares connections. It waits for the lock of a table a moment only, and
// then tries again: who uses the table next would wait behind it.
func (db *database) Migrate(ctx context.Context, f func(engine.Tx) error) error {
	return db.again(ctx, func(t *transaction) error {
		t.writes, t.timeout = true, 0
		return t.transaction("BEGIN ISOLATION LEVEL READ COMMITTED", func(tx engine.Tx) error {
			lock := fmt.Sprintf("SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; SELECT pg_advisory_xact_lock(%d); SET LOCAL lock_timeout = '2s'", migrationLock)
			if err := tx.Script(lock); err != nil {
				return err
			}
			return f(tx)
		})
	})
}

// Purge does nothing: VACUUM and the recycling of the server's WAL remove deleted rows.
func (db *database) Purge(context.Context, int64) error { return nil }

// Snapshot holds one transaction open. That keeps the server from cleaning up
// rows that were replaced meanwhile, and a migration from changing the tables that
// were read. f is called once at most: a row has come before.
func (db *database) Snapshot(ctx context.Context, f func(engine.DB) error) error {
	return db.again(ctx, func(t *transaction) error {
		return t.transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", func(tx engine.Tx) error {
			if err := tx.Script("SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
				return err
			}
			// The snapshot is taken by the first statement.
			if err := tx.Query("SELECT 1", nil, func(engine.Row) error { return nil }); err != nil {
				return err
			}
			return f(&snapshot{DB: db, tx: tx})
		})
	})
}

// A snapshot is a DB whose reads are in one transaction.
type snapshot struct {
	engine.DB

	mu sync.Mutex
	tx engine.Tx
}

func (s *snapshot) Query(ctx context.Context, sql string, args engine.Args, each func(engine.Row) error) error {
	return s.Read(ctx, func(tx engine.Tx) error { return tx.Query(sql, args, each) })
}

func (s *snapshot) Read(ctx context.Context, f func(engine.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return &engine.Error{Class: engine.Unavailable, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return f(s.tx)
}

// again calls once until it succeeds, or fails in a way that another try would
// not change.
func (db *database) again(ctx context.Context, f func(*transaction) error) error {
	pause := firstPause
	for try := 1; ; try++ {
		passing, err := db.once(ctx, f)
		if !passing || try == maxTries {
			return err
		}
		if try == 2 && isLost(err) {
			db.pool.Reset() // the others are no better
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
			pause = min(2*pause, maxPause)
		case <-ctx.Done():
			return err
		}
	}
}

// errTooMany is the error of whoever comes when so many wait already.
var errTooMany = &engine.Error{Class: engine.Unavailable, Err: errors.New("too many wait for the database already")}

// once calls f with a connection. passing says that f failed in a way that may
// pass, and can be called again.
func (db *database) once(ctx context.Context, f func(*transaction) error) (passing bool, err error) {
	select {
	case db.waiting <- struct{}{}:
		defer func() { <-db.waiting }()
	default:
		return false, errTooMany
	}
	if err := ctx.Err(); err != nil {
		return false, &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("wait for a connection: %w", context.Cause(ctx))}
	}
	wait, cancel := context.WithTimeout(ctx, db.options.Timeout)
	conn, err := db.pool.Acquire(wait)
	cancel()
	if err != nil {
		return false, &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("connect to the database: %w", err)}
	}
	defer db.release(conn)
	t := &transaction{conn: conn.Conn(), caller: ctx, timeout: db.options.Timeout, sharded: db.sharded.Load(), queued: &pgx.Batch{}}
	if p, ok := t.conn.PgConn().CustomData()[plansKey].(*plans); ok {
		err = p.refresh(t)
	}
	if err == nil {
		err = f(t)
	}
	if isTimeout(err) && t.conn.IsClosed() {
		db.dropIdle()
	}
	return (t.writes || !t.rows) && (isLost(err) || isContended(err)), err
}

// release gives a connection back to the pool, which drops it if a transaction is
// open or an answer outstanding. One that is closed already would keep its place
// until its server has been heard of, for up to 15 seconds; it leaves it at once,
// unless as many as the pool has are on their way out. These are given half the time
// that the next ones take to be found silent, and so are out of their way.
func (db *database) release(conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() {
		select {
		case db.ending <- struct{}{}:
			pg := conn.Hijack().PgConn()
			go func() {
				select {
				case <-pg.CleanupDone():
				case <-time.After(db.options.Timeout / 2):
					_ = pg.Conn().Close()
				}
				<-db.ending
			}()
			return
		default:
		}
	}
	conn.Release()
}

// dropIdle closes the connections that nobody uses.
func (db *database) dropIdle() {
	for _, conn := range db.pool.AcquireAllIdle(context.Background()) {
		_ = conn.Conn().Close(context.Background()) // which waits for nobody
		conn.Release()
	}
}

func (db *database) Stats() engine.Stats {
	used := int(db.pool.Stat().AcquiredConns())
	return engine.Stats{Connections: used, Waiting: max(0, len(db.waiting)-used) + db.queries.size()}
}

// Server asks for what pg_settings has of it.
func (db *database) Server(ctx context.Context) (*engine.Server, error) {
	server := &engine.Server{Settings: map[string]string{}}
	err := db.Query(ctx, `SELECT name::text, setting::text, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM pg_settings
		WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'server_version', 'server_version_num',
			'max_connections', 'superuser_reserved_connections', 'data_checksums')`, nil, func(r engine.Row) error {
		server.Settings[r.Text(0)], server.Now = r.Text(1), time.UnixMicro(r.Int(2))
		return nil
	})
	return server, err
}

// Tables are those that a statement finds which names no schema, whoever may read them.
func (db *database) Tables(ctx context.Context) (names []string, err error) {
	err = db.Query(ctx, "SELECT tablename::text FROM pg_catalog.pg_tables WHERE schemaname = ANY (current_schemas(false))", nil, func(r engine.Row) error {
		names = append(names, r.Text(0))
		return nil
	})
	return names, err
}

// Fatal is nil: a server that fails to sync ends itself.
func (db *database) Fatal() <-chan error { return nil }

// CacheVersion is false: nothing tells this node of the commits of others.
func (db *database) CacheVersion(string) (engine.CacheVersion, bool) {
	return engine.CacheVersion{}, false
}

// Copy is an error: a server has tools of its own, which know its logs.
func (db *database) Copy(context.Context, io.Writer, func(int64)) error {
	return errors.New("a database server is copied by its own tools: pg_dump, pg_basebackup")
}

// Check finds indexes that the server does not trust. Damage to pages is the
// server's own to find: by its checksums, and pg_amcheck.
func (db *database) Check(ctx context.Context, _ bool) (found []engine.Problem, err error) {
	err = db.Query(ctx, `SELECT c.relname::text FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = current_schema() AND NOT (i.indisvalid AND i.indisready)`, nil, func(r engine.Row) error {
		if len(found) < engine.MaxProblems {
			found = append(found, engine.Problem{Detail: fmt.Sprintf("index %s is not valid: REINDEX it", r.Text(0))})
		}
		return nil
	})
	return found, err
}

// Damage is nil: a server looks after its own, and others may have mended it.
func (db *database) Damage() error { return nil }

// CheckFiles is nil: the files are the server's.
func (db *database) CheckFiles() error { return nil }

// Close waits for running transactions a moment only: one that hangs would hold up
// the end of the process, and leaves nothing behind when that comes.
func (db *database) Close() error {
	closed := make(chan struct{})
	go func() {
		db.pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
		return nil
	case <-time.After(closePatience):
		return nil
	}
}
