package engine

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
)

// The rules of this file.
//
// Transactions that write are READ COMMITTED, the same on every engine of the
// family: what must not change between reading and writing is read with Lock,
// and what two may insert at once has a unique key.
//
// A transaction that the server gave up for another's sake, or whose connection
// was lost before its commit was sent, is run again, a few times and with
// growing pauses. When the answer to a commit is lost, nobody but the caller can
// find out what became of it: that is Uncertain.
//
// Every exchange with the server has a deadline, and whoever waits for a connection waits no
// longer than that. So many wait at most that a database which does not answer
// ties up a bounded part of the process.
//
// When nothing came on a connection in time, it is given up, with those that nobody
// uses at the moment: a network that has forgotten one says nothing about the
// others either. Their places in the pool are free at once. There are no pings
// before a connection is used: they could only wait like what is asked of it.
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

// The defaults of PostgresOptions.
const (
	DefaultConnections = 16
	DefaultTimeout     = 10 * time.Second
)

// PostgresOptions may all be left out.
type PostgresOptions struct {
	Connections int           // how many at most; DefaultConnections if 0
	Timeout     time.Duration // of a statement, and of the wait for a connection; DefaultTimeout if 0
	Unprepared  bool          // keep nothing on the server between transactions, for a pool that shares connections
	Sharded     bool          // treat any database as a sharded one, for tests
	Observer    Observer      // is told what the engine does; nil for nobody
}

type postgresDB struct {
	pool    *pgxpool.Pool
	options PostgresOptions
	sharded atomic.Bool
	queries gathering
	waiting chan struct{} // holds a token for each that has or waits for a connection
	ending  chan struct{} // holds a token for each connection that was given up and is not closed yet
}

// OpenPostgres connects to the database at url, whose scheme is postgres, and
// which may name several hosts. It must have the encoding UTF8 and accept writes.
func OpenPostgres(ctx context.Context, url string, options PostgresOptions) (DB, error) {
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
		options.Observer = nobody{}
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
	db := &postgresDB{
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
		return nil, &Error{Unavailable, err}
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

// Plans is the state of the plans of a connection's prepared statements.
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

func (db *postgresDB) prepareConn(ctx context.Context, c *pgx.Conn) error {
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
func (p *plans) refresh(t *postgresTx) error {
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
func (db *postgresDB) probe(ctx context.Context) error {
	query := func(sql string, each func(Row) error) error {
		return db.single(&gathered{ctx: ctx, sql: sql, each: each})
	}
	db.sharded.Store(db.options.Sharded)
	citus := false
	if err := query("SELECT 1 WHERE to_regclass('pg_dist_partition') IS NOT NULL", func(Row) error {
		citus = true
		return nil
	}); err != nil || !citus {
		return err
	}
	return query("SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass('entries') AND partmethod = 'h'", func(Row) error {
		db.sharded.Store(true)
		return nil
	})
}

func (db *postgresDB) Name() string { return "postgres" }

func (db *postgresDB) Traits() Traits {
	return Traits{Writers: max(1, db.options.Connections-1), Sharded: db.sharded.Load(), Remote: true, Replicated: true, Snapshots: true}
}

func (db *postgresDB) Read(ctx context.Context, f func(Tx) error) error {
	return db.again(ctx, func(t *postgresTx) error {
		return t.transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", f)
	})
}

func (db *postgresDB) Write(ctx context.Context, f func(Tx) error) error {
	start, attempts := time.Now(), 0
	err := db.again(ctx, func(t *postgresTx) error {
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
func (db *postgresDB) Migrate(ctx context.Context, f func(Tx) error) error {
	return db.again(ctx, func(t *postgresTx) error {
		t.writes, t.timeout = true, 0
		return t.transaction("BEGIN ISOLATION LEVEL READ COMMITTED", func(tx Tx) error {
			lock := fmt.Sprintf("SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; SELECT pg_advisory_xact_lock(%d); SET LOCAL lock_timeout = '2s'", migrationLock)
			if err := tx.Script(lock); err != nil {
				return err
			}
			return f(tx)
		})
	})
}

// Purge does nothing: VACUUM and the recycling of the server's WAL remove deleted rows.
func (db *postgresDB) Purge(context.Context, int64) error { return nil }

// Snapshot holds one transaction open. That keeps the server from cleaning up
// rows that were replaced meanwhile, and a migration from changing the tables that
// were read. f is called once at most: a row has come before.
func (db *postgresDB) Snapshot(ctx context.Context, f func(DB) error) error {
	return db.again(ctx, func(t *postgresTx) error {
		return t.transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", func(tx Tx) error {
			if err := tx.Script("SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
				return err
			}
			// The snapshot is taken by the first statement.
			if err := tx.Query("SELECT 1", nil, func(Row) error { return nil }); err != nil {
				return err
			}
			return f(&postgresSnapshot{DB: db, tx: tx})
		})
	})
}

// A postgresSnapshot is a DB whose reads are in one transaction.
type postgresSnapshot struct {
	DB

	mu sync.Mutex
	tx Tx
}

func (s *postgresSnapshot) Query(ctx context.Context, sql string, args Args, each func(Row) error) error {
	return s.Read(ctx, func(tx Tx) error { return tx.Query(sql, args, each) })
}

func (s *postgresSnapshot) Read(ctx context.Context, f func(Tx) error) error {
	if err := ctx.Err(); err != nil {
		return &Error{Unavailable, err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return f(s.tx)
}

// again calls once until it succeeds, or fails in a way that another try would
// not change.
func (db *postgresDB) again(ctx context.Context, f func(*postgresTx) error) error {
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
var errTooMany = &Error{Unavailable, errors.New("too many wait for the database already")}

// once calls f with a connection. passing says that f failed in a way that may
// pass, and can be called again.
func (db *postgresDB) once(ctx context.Context, f func(*postgresTx) error) (passing bool, err error) {
	select {
	case db.waiting <- struct{}{}:
		defer func() { <-db.waiting }()
	default:
		return false, errTooMany
	}
	if err := ctx.Err(); err != nil {
		return false, &Error{Unavailable, fmt.Errorf("wait for a connection: %w", context.Cause(ctx))}
	}
	wait, cancel := context.WithTimeout(ctx, db.options.Timeout)
	conn, err := db.pool.Acquire(wait)
	cancel()
	if err != nil {
		return false, &Error{Unavailable, fmt.Errorf("connect to the database: %w", err)}
	}
	defer db.release(conn)
	t := &postgresTx{conn: conn.Conn(), caller: ctx, timeout: db.options.Timeout, sharded: db.sharded.Load(), queued: &pgx.Batch{}}
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
func (db *postgresDB) release(conn *pgxpool.Conn) {
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
func (db *postgresDB) dropIdle() {
	for _, conn := range db.pool.AcquireAllIdle(context.Background()) {
		_ = conn.Conn().Close(context.Background()) // which waits for nobody
		conn.Release()
	}
}

func (db *postgresDB) Stats() Stats {
	used := int(db.pool.Stat().AcquiredConns())
	return Stats{Connections: used, Waiting: max(0, len(db.waiting)-used) + db.queries.size()}
}

// Server asks for what pg_settings has of it.
func (db *postgresDB) Server(ctx context.Context) (*Server, error) {
	server := &Server{Settings: map[string]string{}}
	err := db.Query(ctx, `SELECT name::text, setting::text, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM pg_settings
		WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'server_version', 'server_version_num',
			'max_connections', 'superuser_reserved_connections', 'data_checksums')`, nil, func(r Row) error {
		server.Settings[r.Text(0)], server.Now = r.Text(1), time.UnixMicro(r.Int(2))
		return nil
	})
	return server, err
}

// Tables are those that a statement finds which names no schema, whoever may read them.
func (db *postgresDB) Tables(ctx context.Context) (names []string, err error) {
	err = db.Query(ctx, "SELECT tablename::text FROM pg_catalog.pg_tables WHERE schemaname = ANY (current_schemas(false))", nil, func(r Row) error {
		names = append(names, r.Text(0))
		return nil
	})
	return names, err
}

// Fatal is nil: a server that fails to sync ends itself.
func (db *postgresDB) Fatal() <-chan error { return nil }

// CacheVersion is false: nothing tells this node of the commits of others.
func (db *postgresDB) CacheVersion(string) (CacheVersion, bool) { return CacheVersion{}, false }

// Copy is an error: a server has tools of its own, which know its logs.
func (db *postgresDB) Copy(context.Context, io.Writer, func(int64)) error {
	return errors.New("a database server is copied by its own tools: pg_dump, pg_basebackup")
}

// Check finds indexes that the server does not trust. Damage to pages is the
// server's own to find: by its checksums, and pg_amcheck.
func (db *postgresDB) Check(ctx context.Context, _ bool) (found []Problem, err error) {
	err = db.Query(ctx, `SELECT c.relname::text FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = current_schema() AND NOT (i.indisvalid AND i.indisready)`, nil, func(r Row) error {
		if len(found) < maxProblems {
			found = append(found, Problem{fmt.Sprintf("index %s is not valid: REINDEX it", r.Text(0))})
		}
		return nil
	})
	return found, err
}

// Damage is nil: a server looks after its own, and others may have mended it.
func (db *postgresDB) Damage() error { return nil }

// CheckFiles is nil: the files are the server's.
func (db *postgresDB) CheckFiles() error { return nil }

// Close waits for running transactions a moment only: one that hangs would hold up
// the end of the process, and leaves nothing behind when that comes.
func (db *postgresDB) Close() error {
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
