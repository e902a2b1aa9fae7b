// Package store keeps everything that tenants have, on any engine: it owns the
// schema, all SQL, and the rules that must hold inside of a transaction.
//
// Every method that touches what a tenant has takes the tenant, and finds
// nothing of another one. Errors that a caller may see are *atrium.Error:
// NotFound, Conflict and so on as the method says, and Unavailable whenever the
// database could not do its work and nothing was changed. Any other error is a
// bug or a damaged database.
package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"atrium"
	"atrium/internal/store/engine"
)

// A Store is one database with its schema. It is safe for concurrent use.
type Store struct {
	db  engine.DB
	now func() time.Time

	exported atomic.Int64 // the latest stored_at that an export of this Store has
}

// An Observer is told what the database does; see engine.Observer.
type Observer = engine.Observer

// Open returns the store at a database URL: "sqlite:" and the path of a file,
// which is made if there is none. Migrations are the caller's to run. observer
// may be nil.
func Open(url string, observer Observer) (*Store, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	switch {
	case scheme == "sqlite" && rest != "":
		db, err := engine.OpenSQLite(rest, engine.SQLiteOptions{Observer: observer})
		if err != nil {
			return nil, err
		}
		return New(db, time.Now), nil
	default:
		return nil, errors.New("the database must be sqlite:PATH")
	}
}

// New returns the store on an open database. now is its clock.
func New(db engine.DB, now func() time.Time) *Store {
	return &Store{db: db, now: now}
}

// Close releases the database when running calls have ended.
func (s *Store) Close() error { return s.db.Close() }

// Ping returns nil if the database answers.
func (s *Store) Ping(ctx context.Context) error {
	return s.read(ctx, func(tx engine.Tx) error {
		return tx.Query("SELECT 1", nil, func(engine.Row) error { return nil })
	})
}

// Stats returns what the database is doing at the moment.
func (s *Store) Stats() engine.Stats { return s.db.Stats() }

// Check verifies the integrity of the database. It reads all of it.
func (s *Store) Check(ctx context.Context) error { return public(s.db.Check(ctx)) }

// storedAt returns what rows that are stored now have in stored_at: after the
// start of every export that this Store has begun, even if the clock steps back.
func (s *Store) storedAt() int64 { return max(s.now().UnixMicro(), s.exported.Load()+1) }

// read and write run a transaction and translate its error.
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

// hash16 is the form of a text in a *_hash column.
func hash16(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:16]
}

// nullable returns nil, which is stored as null, for "".
func nullable(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func nullableText(text *string) any {
	if text == nil {
		return nil
	}
	return *text
}

func nullableTime(t *atrium.Time) any {
	if t == nil {
		return nil
	}
	return int64(*t)
}

func textAt(r engine.Row, column int) *string {
	if r.Null(column) {
		return nil
	}
	text := r.Text(column)
	return &text
}

func timeAt(r engine.Row, column int) *atrium.Time {
	if r.Null(column) {
		return nil
	}
	t := atrium.Time(r.Int(column))
	return &t
}

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
