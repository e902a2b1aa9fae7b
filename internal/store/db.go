package store

import (
	"atrium"
	"atrium/internal/store/engine"
	"context"
	"errors"
	"fmt"
)

// query runs one statement that reads, find one that must find a row,
// and read and write run a transaction. They translate its error.
func (s *Store) query(ctx context.Context, sql string, args engine.Args, each func(engine.Row) error) error {
	return public(s.db.Query(ctx, sql, args, each))
}

func (s *Store) find(ctx context.Context, sql string, args engine.Args, scan func(engine.Row)) error {
	return public(engine.Find(func(sql string, args engine.Args, each func(engine.Row) error) error {
		return s.db.Query(ctx, sql, args, each)
	}, sql, args, scan))
}

func (s *Store) read(ctx context.Context, f func(engine.Tx) error) error {
	return public(s.db.Read(ctx, f))
}

func (s *Store) write(ctx context.Context, f func(engine.Tx) error) error {
	return public(s.db.Write(ctx, f))
}

// public turns what an engine reports into what a caller may see.
func public(err error) error {
	switch {
	case err == nil:
		return nil
	case isPublic(err):
		return err
	case errors.Is(err, engine.ErrNoRow):
		return atrium.NotFound()
	case engine.ClassOf(err) == engine.Unavailable:
		return atrium.Unavailable(err)
	case engine.ClassOf(err) == engine.Uncertain:
		return atrium.Uncertain(err)
	}
	return fmt.Errorf("store: %w", err)
}

func isPublic(err error) bool {
	_, ok := errors.AsType[*atrium.Error](err)
	return ok
}

// storedAt returns what rows that a transaction stores have in stored_at: after the
// start of every export that may be under way. Where exports have snapshots, nothing
// depends on it.
func (s *Store) storedAt(tx engine.Tx) (at int64, err error) {
	at = s.now().UnixMicro()
	if s.db.Traits().Snapshots {
		return at, nil
	}
	began, err := latestExport(tx)
	return max(at, began+1), err
}

// A query runs a statement, as engine.Tx.Query does.
type query func(sql string, args engine.Args, each func(engine.Row) error) error

// alone returns a query that is no part of a transaction.
func (s *Store) alone(ctx context.Context) query {
	return func(sql string, args engine.Args, each func(engine.Row) error) error {
		return s.query(ctx, sql, args, each)
	}
}
