package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/store/engine"
)

// A Mutation is the transaction of a change that is made for an operator. It ends
// with a row of the audit log for everything that was recorded.
type Mutation struct {
	engine.Tx
	DB      *DB
	Change  atrium.Change
	At      atrium.Time // when it began
	acts    []act
	failure error // the first one of what cannot return it
	large   bool  // it was admitted as a large change
	bytes   int   // that were weighed
}

// largeChange is how many bytes a change may write, and read of what it changes, until it
// is a large one.
const largeChange = 16 << 10

// errLarge ends the transaction of a small change that turns out to be a large one.
var errLarge = errors.New("the change is larger than what it was admitted for")

// Weigh counts bytes that the change reads or writes. Its error is errLarge, which ends the
// transaction even if the caller drops it.
func (tx *Mutation) Weigh(bytes int) error {
	if tx.bytes += bytes; tx.bytes > largeChange && !tx.large {
		tx.failure = errLarge
		return errLarge
	}
	return nil
}

// weighRows is weigh for arguments of a statement.
func (tx *Mutation) weighRows(rows ...engine.Args) error {
	bytes := 0
	for _, args := range rows {
		for _, arg := range args {
			switch arg := arg.(type) {
			case string:
				bytes += len(arg)
			case []byte:
				bytes += len(arg)
			default:
				bytes += 8
			}
		}
	}
	return tx.Weigh(bytes)
}

func (tx *Mutation) Exec(sql string, args ...any) (int64, error) {
	if err := tx.weighRows(args); err != nil {
		return 0, err
	}
	return tx.Tx.Exec(sql, args...)
}

func (tx *Mutation) Batch(b *engine.Batch, rows []engine.Args, each func(engine.Row) error) (int64, error) {
	if err := tx.weighRows(rows...); err != nil {
		return 0, err
	}
	return tx.Tx.Batch(b, rows, each)
}

func (tx *Mutation) PipelineQuery(b *engine.Batch, rows []engine.Args, each func(engine.Row)) error {
	if err := tx.weighRows(rows...); err != nil {
		return err
	}
	return tx.Tx.PipelineQuery(b, rows, each)
}

func (tx *Mutation) PipelineExec(b *engine.Batch, rows []engine.Args) error {
	if err := tx.weighRows(rows...); err != nil {
		return err
	}
	return tx.Tx.PipelineExec(b, rows)
}

// StoredAt is the store's.
func (tx *Mutation) StoredAt() int64 {
	at, err := tx.DB.StoredAt(tx)
	if err != nil && tx.failure == nil {
		tx.failure = err
	}
	return at
}

// NotBefore returns when the change was made, or what came before it if the clock says
// that it is later.
func (tx *Mutation) NotBefore(earlier atrium.Time) *atrium.Time {
	at := max(tx.At, earlier)
	return &at
}

// keepRequests is how long a request with an idempotency key is known at least.
const keepRequests = 24 * time.Hour

// forgetAtOnce is how many requests that need not be known any more one change
// deletes.
const forgetAtOnce = 20

// changeTimeout bounds how long a change takes, waiting for others included. What a change
// reads and writes is bounded as well, so this is for a machine that hardly moves.
const changeTimeout = 20 * time.Second

// Mutate runs f as one durable change and returns what f did. With an idempotency
// key, the result is kept with it: the same request gets it again, with replayed
// true, and another one is CodeIdempotencyKeyReused. f may be called again, so all
// that it changes outside of the transaction it must first set back.
//
// A result holds no secret. What another transaction took in between is of class
// Conflict and runs f again; where that is no race, f must tell it itself.
func Mutate[T any](ctx context.Context, s *DB, c atrium.Change, f func(tx *Mutation) (T, error)) (result T, replayed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	try := func(large bool) error {
		if c.Admit != nil {
			release, err := c.Admit(ctx, large)
			if err != nil {
				return err
			}
			defer release()
		}
		return s.Engine.Write(ctx, func(tx engine.Tx) error {
			t := &Mutation{Tx: tx, DB: s, Change: c, At: atrium.At(s.Now()), large: large}
			var zero T
			result = zero
			if replayed, err = replay(tx, c, t.Weigh, &result); err != nil || replayed {
				return err
			}
			if result, err = f(t); err != nil {
				return t.unlessAnswered(err)
			}
			if err := t.bind(result); err != nil {
				return err
			}
			if t.failure != nil {
				return t.failure
			}
			return t.writeAudit()
		})
	}
	large := c.Admit == nil
	for n := range MaxRaces {
		if n > 1 { // the second try nearly always succeeds
			select {
			case <-time.After(rand.N(raceDelay << n)):
			case <-ctx.Done():
			}
		}
		if err = try(large); errors.Is(err, errLarge) {
			large = true
			err = try(large)
		}
		if engine.ClassOf(err) != engine.Conflict || isPublic(err) {
			break
		}
	}
	if engine.ClassOf(err) == engine.Conflict && !isPublic(err) {
		err = atrium.Unavailable(err) // others were faster each time
	}
	return result, replayed, Public(err)
}

// Answered returns what is kept with the idempotency key, for a change that has much to
// read before its transaction begins.
func Answered[T any](ctx context.Context, s *DB, c atrium.Change) (result T, replayed bool, err error) {
	if c.IdempotencyKey == "" {
		return result, false, nil
	}
	err = s.Read(ctx, func(tx engine.Tx) error {
		var zero T
		result = zero
		replayed, err = replay(tx, c, func(int) error { return nil }, &result)
		return err
	})
	return result, replayed, err
}

// replay fills result if the request was answered before. weigh is told its size first.
func replay(tx engine.Tx, c atrium.Change, weigh func(bytes int) error, result any) (replayed bool, err error) {
	if c.IdempotencyKey == "" {
		return false, nil
	}
	var fingerprint, kept []byte
	if err := tx.Query("SELECT fingerprint, result FROM requests WHERE tenant_id = $1 AND key_match = $2",
		engine.Args{IDArg(c.TenantID), KeyMatch(c.IdempotencyKey)}, func(r engine.Row) error {
			fingerprint, kept = r.Bytes(0), r.Bytes(1)
			return nil
		}); err != nil || fingerprint == nil {
		return false, err
	}
	if !bytes.Equal(fingerprint, c.Fingerprint) {
		return false, KeyReused()
	}
	if err := weigh(len(kept)); err != nil {
		return false, err
	}
	if err := json.Unmarshal(kept, result); err != nil {
		return false, fmt.Errorf("read a kept result: %w", err)
	}
	return true, nil
}

// errAnswered says that the request was answered after the transaction had looked.
var errAnswered error = &engine.Error{Class: engine.Conflict, Err: errors.New("the request was answered meanwhile")}

// unlessAnswered returns the error of a change, or errAnswered if the same request
// was answered meanwhile: then this one was refused for what that one has changed.
func (tx *Mutation) unlessAnswered(refused error) error {
	if errors.Is(tx.failure, errLarge) {
		return errLarge
	}
	refuses := isPublic(refused) || errors.Is(refused, engine.ErrNoRow) || errors.Is(refused, ErrNothing)
	if tx.Change.IdempotencyKey == "" || !refuses { // after any other, the transaction may be of no use
		return refused
	}
	answered := false
	if err := tx.Query("SELECT created_at FROM requests WHERE tenant_id = $1 AND key_match = $2",
		engine.Args{IDArg(tx.Change.TenantID), KeyMatch(tx.Change.IdempotencyKey)}, func(engine.Row) error {
			answered = true
			return nil
		}); err != nil {
		return err
	}
	if answered {
		return errAnswered
	}
	return refused
}

// bind keeps the result with the idempotency key, and forgets some that are old.
func (tx *Mutation) bind(result any) error {
	if tx.Change.IdempotencyKey == "" {
		return nil
	}
	kept, err := json.Marshal(result, json.FormatNilSliceAsNull(true))
	if err != nil {
		return fmt.Errorf("keep a result: %w", err)
	}
	tenant := IDArg(tx.Change.TenantID)
	if _, err := tx.Exec("INSERT INTO requests (tenant_id, key_match, fingerprint, result, created_at) VALUES ($1, $2, $3, $4, $5)",
		tenant, KeyMatch(tx.Change.IdempotencyKey), tx.Change.Fingerprint, kept, int64(tx.At)); err != nil {
		return err
	}
	_, err = tx.Exec(forgetRequests, tenant, int64(tx.At)-keepRequests.Microseconds(), int64(forgetAtOnce))
	return err
}

const forgetRequests = `DELETE FROM requests WHERE tenant_id = $1 AND key_match IN
	(SELECT key_match FROM requests WHERE tenant_id = $1 AND created_at < $2 ORDER BY created_at LIMIT $3)`

// MaxRaces is how often a transaction starts over because another one has taken what it needs, or
// because nobody knows what became of its commit.
const MaxRaces = 8

// raceDelay is about how long a change waits before its third try, by twice the time before each
// further one.
const raceDelay = time.Millisecond

// ErrRace says that another transaction changed where entries or accounts are
// after they were read. The next try reads them again.
var ErrRace error = &engine.Error{Class: engine.Conflict, Err: errors.New("an entry or an account was moved meanwhile")}

// ErrNothing ends a move that would move nothing, so that it binds no key.
var ErrNothing = errors.New("there is nothing to move")
