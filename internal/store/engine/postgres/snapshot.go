package postgres

import (
	"context"
	"sync"

	"atrium/internal/store/engine"
)

// Snapshot holds one transaction open. This keeps VACUUM from removing rows that are replaced
// during it, and blocks migrations of the tables that were read. It calls f at most once, because
// the transaction has returned a row before.
func (db *database) Snapshot(ctx context.Context, f func(engine.DB) error) error {
	return db.retry(ctx, func(t *transaction) error {
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

// A snapshot is a DB whose reads run in one transaction.
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
