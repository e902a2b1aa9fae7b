package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// planAgeKey is the key of a connection's planAge in its CustomData.
const planAgeKey = "atrium plans"

// firstDiscard is the age of a connection at which its plans are first discarded.
const firstDiscard = time.Second

// A planAge schedules the replanning of a connection's prepared statements.
type planAge struct {
	connectedAt time.Time
	discardAt   time.Time // zero for never
}

// sessionSettings configure a session that is not shared by a pooler. Every statement of the store
// finds its rows by an index and is planned once for all arguments: a sequential scan that was
// planned while a table was small would be reused after the table has grown. JIT depends on plan
// costs, which these settings make meaningless, and so do parallel plans: a statement reads few rows,
// and starting processes for it would cost far more. Acknowledged data must be on disk, whatever the
// default of the database.
const sessionSettings = `SELECT set_config(name, CASE name
		WHEN 'plan_cache_mode' THEN CASE WHEN to_regclass('pg_dist_partition') IS NULL THEN 'force_generic_plan' ELSE 'auto' END
		WHEN 'idle_in_transaction_session_timeout' THEN '%d'
		WHEN 'max_parallel_workers_per_gather' THEN '0'
		ELSE 'off' END, false)
	FROM pg_settings WHERE name IN ('plan_cache_mode', 'idle_in_transaction_session_timeout',
		'max_parallel_workers_per_gather', 'enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', 'jit')
	UNION ALL SELECT set_config(name, 'on', false) FROM pg_settings WHERE name = 'synchronous_commit' AND setting = 'off'`

func (db *database) prepareConn(ctx context.Context, c *pgx.Conn) error {
	if encoding := c.PgConn().ParameterStatus("server_encoding"); encoding != "" && encoding != "UTF8" {
		return fmt.Errorf("the database has the encoding %s: create one with the encoding UTF8", encoding)
	}
	if db.options.Unprepared {
		return nil
	}
	now := time.Now()
	c.PgConn().CustomData()[planAgeKey] = &planAge{connectedAt: now, discardAt: now.Add(firstDiscard)}
	// Idle transactions end after twice the statement timeout: their client is gone and they may
	// hold locks.
	settings := fmt.Sprintf(sessionSettings, 2*db.options.Timeout.Milliseconds())
	// The connect timeout no longer applies here, and the pool has no timeout for AfterConnect.
	ctx, cancel := context.WithTimeout(ctx, min(connectTimeout, db.options.Timeout))
	defer cancel()
	_, err := c.Exec(ctx, settings)
	return err
}

// refresh discards the plans whenever the age of the connection has doubled. A server keeps a plan
// until it has analyzed the tables, which may take minutes. In a plan made while the tables were
// empty, any index of a tenant looks as good as that of an identifier.
func (p *planAge) refresh(t *transaction) error {
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
