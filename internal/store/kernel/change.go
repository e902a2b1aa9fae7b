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
	"atrium/internal/store/register"
)

// A Mutation is the transaction of an operator's change. Before it commits, it writes an audit row
// for each record.
type Mutation struct {
	engine.Tx
	DB      *DB
	Change  atrium.Change
	At      atrium.Time // when the transaction began
	records []auditRecord
	err     error // of a method that cannot return it
	large   bool  // admitted as a large change
	size    int   // bytes counted by CountBytes
}

// maxSmallChangeBytes is the maximum number of bytes that a small change reads and writes. Reading a
// row counts as rowBytes, and writing one as writtenRowBytes, because it changes pages of the table
// and of its indexes.
const (
	maxSmallChangeBytes = 16 << 10
	rowBytes            = 128
	writtenRowBytes     = 512
)

// errLargeChange aborts a change admitted as small that exceeds maxSmallChangeBytes. Mutate then
// admits it again as large.
var errLargeChange = errors.New("the change was admitted as small but is large")

// CountBytes adds to the number of bytes that the change reads or writes. It returns
// errLargeChange if a small change exceeds maxSmallChangeBytes; the transaction then fails even if
// the caller ignores the error.
func (tx *Mutation) CountBytes(bytes int) error {
	if tx.size += bytes; tx.size > maxSmallChangeBytes && !tx.large {
		tx.err = errLargeChange
		return errLargeChange
	}
	return nil
}

// LockChain locks the head of the tenant's audit log, which all its changes write, and so orders concurrent changes.
// Before the first change, there is no head to lock.
func (tx *Mutation) LockChain() error {
	return tx.Lock("SELECT number FROM audit_heads WHERE tenant_id = $1", engine.Args{IDArg(tx.Change.TenantID)}, func(engine.Row) error { return nil })
}

// CountSize is CountBytes for the sum of the first column of a statement. query is tx.Query or
// tx.Lock. Call it before the change reads or writes rows that can be large. It does nothing if the
// change was admitted as large.
func (tx *Mutation) CountSize(query QueryFunc, sql string, args engine.Args) error {
	if tx.large {
		return nil
	}
	bytes := 0
	if err := query(sql, args, func(r engine.Row) error {
		bytes += int(r.Int(0))
		return nil
	}); err != nil {
		return err
	}
	return tx.CountBytes(bytes)
}

// countWrites is CountBytes for the rows that a statement writes.
func (tx *Mutation) countWrites(rows ...engine.Args) error {
	if err := tx.countArgs(rows...); err != nil {
		return err
	}
	return tx.CountBytes(writtenRowBytes * len(rows))
}

// countArgs is CountBytes for the arguments of a statement.
func (tx *Mutation) countArgs(rows ...engine.Args) error {
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
	return tx.CountBytes(bytes)
}

// countResult returns each, which first counts the row that it is called for.
func (tx *Mutation) countResult(each func(engine.Row) error) func(engine.Row) error {
	if tx.large || each == nil {
		return each
	}
	return func(r engine.Row) error {
		if err := tx.CountBytes(rowBytes); err != nil {
			return err
		}
		return each(r)
	}
}

// Query, Lock, Exec, Batch, PipelineQuery and PipelineExec are the methods of engine.Tx. They also count what they read
// or write (CountBytes).

func (tx *Mutation) Query(sql string, args engine.Args, each func(engine.Row) error) error {
	return tx.Tx.Query(sql, args, tx.countResult(each))
}

func (tx *Mutation) Lock(sql string, args engine.Args, each func(engine.Row) error) error {
	return tx.Tx.Lock(sql, args, tx.countResult(each))
}

func (tx *Mutation) Exec(sql string, args ...any) (int64, error) {
	if err := tx.countWrites(args); err != nil {
		return 0, err
	}
	return tx.Tx.Exec(sql, args...)
}

func (tx *Mutation) Batch(b *engine.Batch, rows []engine.Args, each func(engine.Row) error) (int64, error) {
	count := tx.countArgs
	if each == nil {
		count = tx.countWrites
	}
	if err := count(rows...); err != nil {
		return 0, err
	}
	return tx.Tx.Batch(b, rows, tx.countResult(each))
}

func (tx *Mutation) PipelineQuery(b *engine.Batch, rows []engine.Args, each func(engine.Row)) error {
	if err := tx.countArgs(rows...); err != nil {
		return err
	}
	return tx.Tx.PipelineQuery(b, rows, func(r engine.Row) {
		_ = tx.CountBytes(rowBytes) // fails the transaction
		each(r)
	})
}

func (tx *Mutation) PipelineExec(b *engine.Batch, rows []engine.Args) error {
	if err := tx.countWrites(rows...); err != nil {
		return err
	}
	return tx.Tx.PipelineExec(b, rows)
}

// StoredAt is DB.StoredAt. If it fails, so does Mutate.
func (tx *Mutation) StoredAt() int64 {
	at, err := tx.DB.StoredAt(tx)
	if err != nil && tx.err == nil {
		tx.err = err
	}
	return at
}

// NotBefore returns the time of the change, but not a time before previous: the clock may have been
// set back.
func (tx *Mutation) NotBefore(previous atrium.Time) *atrium.Time {
	at := max(tx.At, previous)
	return &at
}

// expiredPerChange is the maximum number of expired requests that a change deletes.
const expiredPerChange = 20

// expiryBytes is the maximum size of the results that a transaction deletes with expired requests,
// unless one is larger. The result of creating a page is as large as the page.
const expiryBytes = 2 << 20

// changeTimeout is the maximum duration of a change, including waiting for locks. A change also
// has limits on what it reads and writes, so only an overloaded machine reaches the timeout.
const changeTimeout = 20 * time.Second

// Mutate runs f in one durable transaction and returns its result. With an idempotency key, it
// stores the result with the key. A repeated request gets the stored result with replayed true; a
// different request with the same key gets CodeIdempotencyKeyReused. Results must contain no
// secrets.
//
// Mutate makes up to MaxTries attempts, as long as f fails with an error of class Conflict, such as
// a unique key that a concurrent transaction inserted. f must therefore first reset any state
// outside the transaction, and must itself detect conflicts that a retry cannot resolve. If all
// attempts fail, the error is Unavailable.
func Mutate[T any](ctx context.Context, db *DB, c atrium.Change, f func(tx *Mutation) (T, error)) (result T, replayed bool, err error) {
	return mutate(ctx, db, c, c.Admit == nil, f)
}

// MutateLarge is Mutate for the transactions of a job and for those of a request after its first.
// It waits and is admitted as in WriteLarge.
func MutateLarge[T any](ctx context.Context, db *DB, c atrium.Change, f func(tx *Mutation) (T, error)) (result T, replayed bool, err error) {
	c.Admit = db.admitLater(c)
	return mutate(ctx, db, c, true, f)
}

func mutate[T any](
	ctx context.Context, db *DB, c atrium.Change, large bool, f func(tx *Mutation) (T, error),
) (result T, replayed bool, err error) {
	ctx, cancel := context.WithTimeout(engine.ForTenant(ctx, string(c.TenantID)), changeTimeout)
	defer cancel()
	events := false
	try := func(large bool) error {
		if c.Admit != nil {
			release, err := c.Admit(ctx, large)
			if err != nil {
				return err
			}
			defer release()
		}
		return db.Engine.Write(ctx, func(tx engine.Tx) error {
			t := &Mutation{Tx: tx, DB: db, Change: c, At: atrium.At(db.Now()), large: large}
			var zero T
			result, events = zero, false
			check, err := beginTenantCheck(tx, c.TenantID)
			if err != nil {
				return err
			}
			if replayed, err = replay(tx, c, t.CountBytes, &result); err != nil {
				return err
			}
			if replayed {
				return check.end()
			}
			if result, err = f(t); err != nil && !check.missing {
				return t.preferReplay(err)
			}
			if err := check.end(); err != nil {
				return err
			}
			if err := t.storeResult(result); err != nil {
				return err
			}
			if t.err != nil {
				return t.err
			}
			events, err = writeAudit(t, t)
			return err
		})
	}
	for n := range MaxTries {
		if n > 1 { // the second try nearly always succeeds
			select {
			case <-time.After(rand.N(retryDelay << n)):
			case <-ctx.Done():
			}
		}
		if err = try(large); errors.Is(err, errLargeChange) {
			var none T
			result, large = none, true // the wait for admission may be long: keep no result in memory
			err = try(large)
		}
		if engine.ClassOf(err) != engine.Conflict || isPublic(err) {
			break
		}
	}
	if engine.ClassOf(err) == engine.Conflict && !isPublic(err) {
		err = atrium.Unavailable(err) // every try lost the race
	}
	if events && err == nil {
		db.Events.Add(c.TenantID)
	}
	return result, replayed, Public(err)
}

// WriteLarge is DB.Write, without an audit row, for the transactions of a job and for those of a
// request after its first. For a request (c.Admit is set), it waits until the tenant's background
// work does not pause, and is admitted as a large change.
func WriteLarge(ctx context.Context, db *DB, c atrium.Change, f func(engine.Tx) error) error {
	if admit := db.admitLater(c); admit != nil {
		release, err := admit(ctx, true)
		if err != nil {
			return err
		}
		defer release()
	}
	return db.Write(engine.ForTenant(ctx, string(c.TenantID)), f)
}

// admitLater returns the Admit of later transactions of c: it waits for the tenant's pause and
// admits them as large changes. It returns nil if c.Admit is nil.
func (db *DB) admitLater(c atrium.Change) func(ctx context.Context, large bool) (release func(), err error) {
	if c.Admit == nil {
		return nil
	}
	return func(ctx context.Context, _ bool) (func(), error) {
		for {
			if err := db.background.wait(ctx, c.TenantID); err != nil {
				return nil, err
			}
			release, err := c.Admit(ctx, true)
			if err != nil {
				return nil, err
			}
			if db.background.pausing(c.TenantID) { // since the wait for admission
				release()
				continue
			}
			began := time.Now()
			return func() {
				db.pauseAfter(c.TenantID, time.Since(began)) // first, so that the next one sees it
				release()
			}, nil
		}
	}
}

// StoredResult returns the result stored with the idempotency key of c. Call it before expensive
// reads that precede Mutate.
func StoredResult[T any](ctx context.Context, db *DB, c atrium.Change) (result T, replayed bool, err error) {
	if c.IdempotencyKey == "" {
		return result, false, nil
	}
	err = db.Read(ctx, func(tx engine.Tx) error {
		var zero T
		result = zero
		replayed, err = replay(tx, c, func(int) error { return nil }, &result)
		return err
	})
	return result, replayed, err
}

// replay reads the stored result of the request, if there is one, into result. It calls countBytes
// with the size first.
func replay(tx engine.Tx, c atrium.Change, countBytes func(bytes int) error, result any) (replayed bool, err error) {
	if c.IdempotencyKey == "" {
		return false, nil
	}
	var fingerprint, stored []byte
	size, args := 0, engine.Args{IDArg(c.TenantID), KeyMatch(c.IdempotencyKey)}
	if err := tx.Query("SELECT fingerprint, octet_length(result), "+InlineOrNull("result")+" FROM requests WHERE tenant_id = $1 AND key_match = $2",
		args, func(r engine.Row) error {
			fingerprint, size, stored = r.Bytes(0), int(r.Int(1)), r.Bytes(2)
			return nil
		}); err != nil || fingerprint == nil {
		return false, err
	}
	if !bytes.Equal(fingerprint, c.Fingerprint) {
		return false, KeyReused()
	}
	if err := countBytes(size); err != nil {
		return false, err
	}
	if size > len(stored) {
		if err := tx.Query("SELECT result FROM requests WHERE tenant_id = $1 AND key_match = $2", args, func(r engine.Row) error {
			stored = r.Bytes(0)
			return nil
		}); err != nil || stored == nil { // it expired and was deleted
			return false, err
		}
	}
	if err := json.Unmarshal(stored, result); err != nil {
		return false, fmt.Errorf("decode a stored result: %w", err)
	}
	return true, nil
}

// errResultStored reports that a concurrent request with the same key committed after this
// transaction looked for its result.
var errResultStored error = &engine.Error{Class: engine.Conflict, Err: errors.New("a concurrent request with the same idempotency key committed first")}

// preferReplay returns errResultStored if a concurrent request with the same key has committed,
// and failed otherwise. In the first case the change may have failed because of that request's
// effects: the retry returns its stored result instead.
func (tx *Mutation) preferReplay(failed error) error {
	if errors.Is(tx.err, errLargeChange) {
		return errLargeChange
	}
	isRefusal := isPublic(failed) || errors.Is(failed, engine.ErrNoRow) || errors.Is(failed, ErrNothingToMove)
	if tx.Change.IdempotencyKey == "" || !isRefusal { // after other errors, the transaction may be unusable
		return failed
	}
	stored := false
	if err := tx.Query("SELECT created_at FROM requests WHERE tenant_id = $1 AND key_match = $2",
		engine.Args{IDArg(tx.Change.TenantID), KeyMatch(tx.Change.IdempotencyKey)}, func(engine.Row) error {
			stored = true
			return nil
		}); err != nil {
		return err
	}
	if stored {
		return errResultStored
	}
	return failed
}

// storeResult stores the result with the idempotency key, and deletes some expired requests.
func (tx *Mutation) storeResult(result any) error {
	if tx.Change.IdempotencyKey == "" {
		return nil
	}
	stored, err := json.Marshal(result, json.FormatNilSliceAsNull(true))
	if err != nil {
		return fmt.Errorf("encode a result: %w", err)
	}
	tenant := IDArg(tx.Change.TenantID)
	if _, err := tx.Exec("INSERT INTO requests (tenant_id, key_match, fingerprint, result, created_at) VALUES ($1, $2, $3, $4, $5)",
		tenant, KeyMatch(tx.Change.IdempotencyKey), tx.Change.Fingerprint, stored, int64(tx.At)); err != nil {
		return err
	}
	// A small change leaves large results to large ones and to DeleteExpiredRequests.
	before, minRows, maxBytes := int64(tx.At)-register.RequestRetention.Microseconds(), 1, expiryBytes
	if !tx.large {
		minRows, maxBytes = 0, maxSmallChangeBytes-tx.size
	}
	n, err := countExpired(tx.Query, tenant, before, expiredPerChange, minRows, maxBytes)
	if err != nil || n == 0 {
		return err
	}
	_, err = tx.Exec(deleteExpired, tenant, before, int64(n))
	return err
}

// countExpired returns how many of the oldest expired requests a transaction may delete: at most
// limit, with at most maxBytes of results, but at least minRows even if these are larger.
func countExpired(query QueryFunc, tenant any, before int64, limit, minRows, maxBytes int) (n int, err error) {
	bytes := 0
	err = query("SELECT octet_length(result) FROM requests WHERE tenant_id = $1 AND created_at < $2 ORDER BY created_at LIMIT $3",
		engine.Args{tenant, before, int64(limit)}, func(r engine.Row) error {
			if bytes += int(r.Int(0)); bytes > maxBytes && n >= minRows {
				return ErrPageFull
			}
			n++
			return nil
		})
	if errors.Is(err, ErrPageFull) {
		err = nil
	}
	return n, err
}

const deleteExpired = `DELETE FROM requests WHERE tenant_id = $1 AND key_match IN
	(SELECT key_match FROM requests WHERE tenant_id = $1 AND created_at < $2 ORDER BY created_at LIMIT $3)`

// MaxTries is the maximum number of attempts of a transaction that conflicts with others or whose
// commit outcome is unknown.
const MaxTries = 8

// retryDelay is the base of the random delay before the third and later tries. It doubles with
// each try.
const retryDelay = time.Millisecond

// ErrRace reports that a concurrent transaction moved entries or accounts after they were read. It
// is retried.
var ErrRace error = &engine.Error{Class: engine.Conflict, Err: errors.New("an entry or account was moved concurrently")}

// ErrNothingToMove rolls back a move without entries, so that its idempotency key stays free.
var ErrNothingToMove = errors.New("there is nothing to move")
