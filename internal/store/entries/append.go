package entries

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// maxUncertain is how many of these tries may end with nobody knowing. Each of them may
// have waited for as long as a statement may take, and the senders have only so much
// patience: a database on which commits hang has to be told to them.
const maxUncertain = 3

// raceDelay is about how long an append waits before its third try. It doubles with
// each.
const raceDelay = time.Millisecond

// Append records drafts in one durable transaction and returns what became of
// each, in their order. Every draft must have an identifier of its own; a draft
// that is appended again is found, not doubled. Either the error is nil or nothing
// was recorded, unless it is atrium.Uncertain's.
//
// A draft is judged by its idempotency key first. If an entry has it, the
// outcome is that entry's receipt, or CodeIdempotencyKeyReused when it was for
// another request. Then its account is found, as atrium's documentation says; an
// identifier that names none is NotFound, and leaves the key free.
func (s *Store) Append(ctx context.Context, drafts []*atrium.Draft) ([]atrium.Outcome, error) {
	return s.append(ctx, drafts, 0)
}

// The limits of TryAppend: to the wait for a lock, which another append holds until it is committed,
// and to how often it starts over.
const (
	lockWait = 50 * time.Millisecond
	maxTries = 3
)

// TryAppend is Append, but soon returns atrium.ErrLocked if other transactions, such as merges or
// imports, hold locks of the same accounts or keep changing them.
func (s *Store) TryAppend(ctx context.Context, drafts []*atrium.Draft) ([]atrium.Outcome, error) {
	return s.append(ctx, drafts, lockWait)
}

// append is Append with a limit to the wait for a lock; 0 for none.
func (s *Store) append(ctx context.Context, drafts []*atrium.Draft, wait time.Duration) ([]atrium.Outcome, error) {
	var uncertain, err error
	unknown := 0
	remote := s.db.Engine.Traits().Remote
	ahead := remote && s.careful.Load() <= 0
	tries := kernel.MaxTries
	if wait > 0 {
		tries = maxTries
	}
	for try := range tries {
		if try > 1 { // the second try is nearly always the last
			select {
			case <-time.After(rand.N(raceDelay << try)):
			case <-ctx.Done():
				return nil, kernel.Public(errors.Join(uncertain, err))
			}
		}
		var b *appending
		err = s.db.Engine.Write(ctx, func(tx engine.Tx) error {
			b = newAppending(tx, drafts, atrium.At(s.db.Now()), s.db.StoredAt)
			b.replicated, b.merging = s.db.Engine.Traits().Replicated, &s.merging
			b.ahead = ahead && try == 0
			if wait > 0 {
				tx.LockWait(wait)
			}
			return b.run(try > 0)
		})
		if remote && b != nil && b.repeats {
			s.careful.Store(carefulBatches)
		}
		switch {
		case err == nil:
			if remote && !ahead && !b.repeats {
				s.careful.Add(-1)
			}
			return b.outcomes, nil
		case engine.ClassOf(err) == engine.Uncertain:
			uncertain = err // what was recorded is found by the next try, or keeps it waiting until it is
			if unknown++; unknown == maxUncertain {
				return nil, kernel.Public(uncertain)
			}
		case engine.ClassOf(err) == engine.Conflict:
			// A key or an identifier was taken between looking and storing.
		case engine.ClassOf(err) == engine.Locked:
			return nil, atrium.ErrLocked // what an uncertain try has recorded is found by the next append
		default:
			return nil, kernel.Public(errors.Join(uncertain, err))
		}
	}
	switch {
	case wait > 0:
		return nil, atrium.ErrLocked
	case len(drafts) == 1:
		return nil, atrium.Unavailable(errors.Join(uncertain, err)) // others were faster each time
	}
	return nil, kernel.Public(errors.Join(uncertain, err))
}

// carefulBatches is how many appends after one that met a key which an entry had look
// for their keys before they do anything else: who sends again sends much.
const carefulBatches = 16

// An appending is one transaction of Append.
type appending struct {
	tx       engine.Tx
	drafts   []*atrium.Draft
	at       atrium.Time                    // when the transaction began
	storedAt func(engine.Tx) (int64, error) // what accounts that are made have in stored_at
	outcomes []atrium.Outcome
	keyMatch [][]byte                 // by draft; nil without a key
	leaders  map[kernel.TenantKey]int // which draft binds a key that no stored entry has
	stored   []atrium.AccountID       // by draft: where its entry goes, which may lead to that of the outcome

	merging    *sync.Map // the tenants that are known to have merged accounts
	replicated bool      // what is read has to be confirmed
	confirmed  targets   // the accounts of entries that are acknowledged and were there

	ahead   bool    // accounts are touched or made before it is known whether entries have the keys
	met     targets // those that were; nil for none
	repeats bool    // entries have some of the keys
}

func newAppending(tx engine.Tx, drafts []*atrium.Draft, at atrium.Time, storedAt func(engine.Tx) (int64, error)) *appending {
	b := &appending{
		tx: tx, drafts: drafts, at: at, storedAt: storedAt,
		outcomes:  make([]atrium.Outcome, len(drafts)),
		keyMatch:  make([][]byte, len(drafts)),
		leaders:   make(map[kernel.TenantKey]int, len(drafts)),
		stored:    make([]atrium.AccountID, len(drafts)),
		confirmed: targets{},
	}
	for i, d := range drafts {
		if d.IdempotencyKey != "" {
			b.keyMatch[i] = kernel.KeyMatch(d.IdempotencyKey)
		}
	}
	return b
}

func (b *appending) key(i int) kernel.TenantKey {
	return kernel.TenantKey{Tenant: b.drafts[i].TenantID, Key: string(b.keyMatch[i])}
}

// run records the drafts. again says that a transaction with them has failed
// because something was there already: maybe they were, from a commit whose
// answer was lost.
func (b *appending) run(again bool) error {
	pending, err := b.replayStored()
	if err == nil && again {
		pending, err = b.findStored(pending)
	}
	if err != nil {
		return err
	}
	var recorded []int
	for len(pending) > 0 {
		// One draft for each key goes first. When its account does not exist it
		// binds nothing, and the next one with the key gets its chance.
		leading, following := b.lead(pending)
		found, err := b.resolve(leading)
		if err != nil {
			return err
		}
		for _, i := range found {
			d, o := b.drafts[i], &b.outcomes[i].Receipt
			o.EntryID, o.CreatedAt, o.Source, o.Type = d.ID, b.at, d.Source, d.Type
		}
		recorded = append(recorded, found...)
		pending = pending[:0]
		for _, i := range following {
			if leader := b.leaders[b.key(i)]; b.outcomes[leader].Err == nil {
				b.replay(i, b.outcomes[leader].Receipt, b.drafts[leader].Fingerprint)
			} else {
				pending = append(pending, i)
			}
		}
		for _, i := range pending {
			delete(b.leaders, b.key(i)) // free for the first of those that are left
		}
	}
	if len(b.confirmed) > 0 { // there was nothing to resolve
		if err := b.touchKnown(nil, nil); err != nil {
			return err
		}
	}
	// Who reads an account, or one that leads there, reads of no entries.
	for _, i := range recorded {
		b.tx.Changes(string(b.outcomes[i].AccountID))
	}
	b.tx.Changes()
	// In the order of their keys, so that two nodes that are sent the same ones do
	// not wait for each other.
	slices.SortFunc(recorded, func(i, j int) int { return cmp.Or(kernel.CompareKeys(b.key(i), b.key(j)), cmp.Compare(i, j)) })
	return b.insert(recorded)
}

// lead splits drafts into those that may bind their key, or have none, and those
// whose key another one of them comes first with.
func (b *appending) lead(pending []int) (leading, following []int) {
	for _, i := range pending {
		if b.keyMatch[i] == nil {
			leading = append(leading, i)
			continue
		}
		if _, taken := b.leaders[b.key(i)]; taken {
			following = append(following, i)
			continue
		}
		b.leaders[b.key(i)] = i
		leading = append(leading, i)
	}
	return leading, following
}

const insertEntry = `INSERT INTO entries (tenant_id, entry_id, account_id, created_at, source, type,
		claimed_account_id, claimed_domain, claimed_name, idempotency_key, key_match, fingerprint,
		acknowledged_account_id, occurred_at, payload)
	SELECT batch.tenant_id, entry_id, account_id, created_at, source, type,
		claimed_account_id, claimed_domain, claimed_name, idempotency_key, key_match, fingerprint,
		acknowledged_account_id, occurred_at, payload
	FROM batch`

var (
	entryBatch = []string{
		"tenant_id bytea", "entry_id bytea", "account_id bytea", "created_at bigint", "source text", "type text",
		"claimed_account_id bytea", "claimed_domain text", "claimed_name text", "idempotency_key text", "key_match bytea",
		"fingerprint bytea", "acknowledged_account_id bytea", "occurred_at bigint", "payload bytea",
	}
	insertEntries = engine.NewBatch(insertEntry, entryBatch...)
	// ImportEntries inserts rows that EntryRow returns, unless there are entries with their identifiers or
	// keys, and returns the identifiers of those that it has inserted.
	ImportEntries = engine.NewBatch(insertEntry+" WHERE true ON CONFLICT DO NOTHING RETURNING entry_id", entryBatch...)
)

// EntryRow returns the row of an entryBatch for an entry.
func EntryRow(e *atrium.Entry, keyMatch, fingerprint []byte) engine.Args {
	return engine.Args{
		kernel.IDArg(e.TenantID), kernel.IDArg(e.ID), kernel.IDArg(e.AccountID), int64(e.CreatedAt), e.Source, e.Type,
		kernel.IDArg(e.Claim.AccountID), kernel.Nullable(e.Claim.Domain), kernel.Nullable(e.Claim.Name), kernel.Nullable(e.IdempotencyKey), keyMatch,
		fingerprint, kernel.IDArg(e.AcknowledgedID), kernel.NullableTime(e.OccurredAt), e.Payload,
	}
}

func (b *appending) insert(recorded []int) error {
	rows := make([]engine.Args, len(recorded))
	for n, i := range recorded {
		d := b.drafts[i]
		e := atrium.Entry{ID: d.ID, TenantID: d.TenantID, AccountID: b.stored[i], CreatedAt: b.at, Submission: d.Submission}
		if shown := b.outcomes[i].AccountID; shown != e.AccountID {
			e.AcknowledgedID = shown
		}
		rows[n] = EntryRow(&e, b.keyMatch[i], d.Fingerprint)
	}
	return b.tx.PipelineExec(insertEntries, rows)
}

// The columns of an entry e in the order in which ScanEntry reads them.
const (
	EntryColumns = `e.entry_id, e.account_id, e.created_at, e.source, e.type, e.claimed_account_id, e.claimed_domain,
		e.claimed_name, e.idempotency_key, e.acknowledged_account_id, e.occurred_at, e.payload`
	EntryColumnsLen = 12
)

// ScanEntry reads EntryColumns, which start at column 0.
func ScanEntry(r engine.Row, tenant atrium.TenantID) atrium.Entry {
	return atrium.Entry{
		ID: kernel.IDAt[atrium.EntryID](r, 0), TenantID: tenant, AccountID: kernel.IDAt[atrium.AccountID](r, 1), CreatedAt: atrium.Time(r.Int(2)),
		AcknowledgedID: kernel.IDAt[atrium.AccountID](r, 9),
		Submission: atrium.Submission{
			Source: r.Text(3), Type: r.Text(4),
			Claim:          atrium.Claim{AccountID: kernel.IDAt[atrium.AccountID](r, 5), Domain: r.Text(6), Name: r.Text(7)},
			IdempotencyKey: r.Text(8), OccurredAt: kernel.TimeAt(r, 10), Payload: r.Bytes(11),
		},
	}
}
