package entries

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/accounts"
	"atrium/internal/store/counts"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
	"atrium/internal/store/tombstones"
)

// maxUncertain is how many tries of an append may end with an unknown commit outcome. Each may
// have waited for a whole statement timeout, and clients time out too: they need an error if
// commits hang.
const maxUncertain = 3

// retryDelay is the base of the random delay before the third and later tries. It doubles with
// each try.
const retryDelay = time.Millisecond

// Append stores drafts in one durable transaction and returns the outcome of each, in order. Every
// draft must have its own identifier; a draft that is already stored is not stored again. If the
// error is not nil, nothing was stored, except for atrium.Uncertain, where the outcome is unknown.
//
// An idempotency key takes precedence: if a stored or erased entry has it, the outcome is the receipt
// of that entry, or CodeIdempotencyKeyReused if that was for a different request. Otherwise, the
// draft is attributed to an account as documented in package atrium. If it names the identifier of
// an account that does not exist, the outcome is NotFound, and the key stays free. It is also
// NotFound if the tenant does not exist or is being deleted.
func (s *Store) Append(ctx context.Context, drafts []*atrium.Draft) ([]atrium.Outcome, error) {
	return s.appendDrafts(ctx, drafts, 0)
}

// Limits of TryAppend: the wait for one lock, and the number of attempts. lockWait is long enough
// for another append to commit.
const (
	lockWait = 50 * time.Millisecond
	maxTries = 3
)

// TryAppend is Append for a short transaction. The outcome of a draft is atrium.ErrDeferred if it was
// not stored because others before it create as many accounts as such a transaction may. TryAppend
// returns atrium.ErrLocked early if other transactions, such as merges or
// imports, hold locks of the same accounts or keep changing them. If the outcome of one of its
// commits is unknown, such as of one that holds the locks itself, the error also is atrium.Uncertain.
func (s *Store) TryAppend(ctx context.Context, drafts []*atrium.Draft) ([]atrium.Outcome, error) {
	return s.appendDrafts(ctx, drafts, lockWait)
}

// appendDrafts is Append with a limit to the wait for a lock; 0 for no limit.
func (s *Store) appendDrafts(ctx context.Context, drafts []*atrium.Draft, wait time.Duration) ([]atrium.Outcome, error) {
	var uncertain, err error
	uncertainTries := 0
	tries := kernel.MaxTries
	if wait > 0 {
		tries = maxTries
	}
	for try := range tries {
		if try > 1 { // the second try nearly always succeeds
			select {
			case <-time.After(rand.N(retryDelay << try)):
			case <-ctx.Done():
				return nil, kernel.Public(errors.Join(uncertain, err))
			}
		}
		var b *appendTx
		err = s.db.Engine.Write(ctx, func(tx engine.Tx) error {
			b = s.newAppendTx(tx, drafts)
			if wait > 0 {
				tx.LockWait(wait)
				b.maxRows = maxAccountRows
			}
			return b.run(try > 0)
		})
		switch {
		case err == nil:
			s.committed(b)
			return b.outcomes, nil
		case engine.ClassOf(err) == engine.Uncertain:
			uncertain = err // the next try finds the entries if they were committed, and waits if they are about to be
			if uncertainTries++; uncertainTries == maxUncertain {
				return nil, kernel.Public(uncertain)
			}
		case engine.ClassOf(err) == engine.Conflict:
			// A concurrent transaction used a key or an identifier first: try again.
		case engine.ClassOf(err) == engine.Locked:
			return nil, errors.Join(atrium.ErrLocked, kernel.Public(uncertain))
		default:
			return nil, kernel.Public(errors.Join(uncertain, err))
		}
	}
	switch {
	case wait > 0:
		return nil, errors.Join(atrium.ErrLocked, kernel.Public(uncertain))
	case len(drafts) == 1 && uncertain == nil:
		return nil, atrium.Unavailable(err) // every try lost the race
	}
	return nil, kernel.Public(errors.Join(uncertain, err))
}

// AppendIn is Append as a part of a transaction of the caller, who calls committed after the commit. An error of class Conflict
// means that the whole transaction must be tried again.
func (s *Store) AppendIn(tx engine.Tx, drafts []*atrium.Draft) (outcomes []atrium.Outcome, committed func(), err error) {
	b := s.newAppendTx(tx, drafts)
	err = b.run(false)
	return b.outcomes, func() { s.committed(b) }, err
}

// committed wakes what works on the entries of a transaction after its commit.
func (s *Store) committed(b *appendTx) {
	for _, u := range b.minutes {
		s.active.add(u.Tenant)
		s.due.Appended(u.Tenant, s.db.Now())
	}
	for tenant := range b.withEvents {
		s.db.Events.Add(tenant)
	}
}

// An appendTx is one transaction of Append.
type appendTx struct {
	tx         engine.Tx
	drafts     []*atrium.Draft
	at         atrium.Time
	storedAt   func(engine.Tx) (int64, error) // returns stored_at of new accounts
	outcomes   []atrium.Outcome
	keyMatch   [][]byte                 // by draft; nil if it has no key
	firstByKey map[kernel.TenantKey]int // the draft that uses a key that no stored entry has
	storedIn   []atrium.AccountID       // by draft: the account of its entry, which may be merged into the account of its outcome
	rules      []atrium.Rule            // by draft: what chose its account

	mergedTenants *sync.Map // tenants known to have merged accounts
	secrets       *tombstones.Cache
	replicated    bool    // existing entries need a new commit before they are acknowledged
	toConfirm     targets // accounts of existing entries that are acknowledged
	minutes       accounts.MinuteUpdates
	rows, maxRows int // written for new accounts and names; maxRows is 0 if they are not limited

	withEvents map[atrium.TenantID]bool              // tenants that have events enabled
	created    map[atrium.TenantID][]kernel.EventRef // accounts

	looked  map[kernel.TenantKey]bool            // domain hashes that were looked up together with the keys
	locked  map[kernel.TenantKey]accounts.Locked // the accounts that were found by them
	lockErr error                                // of this lookup
}

func (s *Store) newAppendTx(tx engine.Tx, drafts []*atrium.Draft) *appendTx {
	b := &appendTx{
		tx: tx, drafts: drafts, at: atrium.At(s.db.Now()), storedAt: s.db.StoredAt,
		mergedTenants: &s.mergedTenants, secrets: &s.secrets, replicated: s.db.Engine.Traits().Replicated,
		outcomes:   make([]atrium.Outcome, len(drafts)),
		keyMatch:   make([][]byte, len(drafts)),
		firstByKey: make(map[kernel.TenantKey]int, len(drafts)),
		storedIn:   make([]atrium.AccountID, len(drafts)),
		rules:      make([]atrium.Rule, len(drafts)),
		toConfirm:  targets{},
		looked:     map[kernel.TenantKey]bool{},
		locked:     map[kernel.TenantKey]accounts.Locked{},
		withEvents: map[atrium.TenantID]bool{},
		created:    map[atrium.TenantID][]kernel.EventRef{},
	}
	for i, d := range drafts {
		if d.IdempotencyKey != "" {
			b.keyMatch[i] = kernel.KeyMatch(d.IdempotencyKey)
		}
	}
	return b
}

func (b *appendTx) key(i int) kernel.TenantKey {
	return kernel.TenantKey{Tenant: b.drafts[i].TenantID, Key: string(b.keyMatch[i])}
}

// run stores the drafts. retry reports that an earlier transaction failed because of a conflict.
// The conflict may be with these same drafts, stored by a commit whose outcome was unknown.
func (b *appendTx) run(retry bool) error {
	pending, err := b.replayStored()
	if err == nil && retry {
		pending, err = b.findStored(pending)
	}
	if err != nil {
		return err
	}
	var recorded []int
	for len(pending) > 0 {
		// Of the drafts with the same key, only the first is stored. If its account does not
		// exist, the key stays free for the next draft.
		first, rest := b.splitByKey(pending)
		found, err := b.resolve(first)
		if err != nil {
			return err
		}
		for _, i := range found {
			d, o := b.drafts[i], &b.outcomes[i].Receipt
			o.EntryID, o.CreatedAt, o.Source, o.Type = d.ID, b.at, d.Source, d.Type
		}
		recorded = append(recorded, found...)
		pending = pending[:0]
		for _, i := range rest {
			if owner := b.firstByKey[b.key(i)]; b.outcomes[owner].Err == nil {
				b.replay(i, b.outcomes[owner].Receipt, bytes.Equal(b.drafts[owner].Fingerprint, b.drafts[i].Fingerprint))
			} else {
				pending = append(pending, i)
			}
		}
		for _, i := range pending {
			delete(b.firstByKey, b.key(i)) // free for the next draft
		}
	}
	if len(b.toConfirm) > 0 { // resolve was not called
		if err := b.lockExisting(nil, nil); err != nil {
			return err
		}
	}
	// Responses about an account, or about one merged into it, contain no entries: only the
	// version of the account changes.
	for _, i := range recorded {
		b.tx.Invalidate(string(b.outcomes[i].AccountID))
	}
	b.tx.Invalidate()
	if err := b.writeEvents(recorded); err != nil {
		return err
	}
	// Insert in key order, so that nodes that receive the same keys do not deadlock.
	slices.SortFunc(recorded, func(i, j int) int { return cmp.Or(kernel.CompareKeys(b.key(i), b.key(j)), cmp.Compare(i, j)) })
	if err := b.insert(recorded); err != nil {
		return err
	}
	if err := b.storeActive(); err != nil {
		return err
	}
	return b.countLate(recorded)
}

// countLate counts the stored entries that the job of counts will not count.
func (b *appendTx) countLate(recorded []int) error {
	stored := make([]counts.Entry, len(recorded))
	for n, i := range recorded {
		stored[n] = counts.Entry{ID: b.drafts[i].ID, CreatedAt: b.at, Source: b.drafts[i].Source, Type: b.drafts[i].Type}
	}
	late := map[atrium.TenantID][]counts.Entry{}
	for _, n := range counts.Late(stored) {
		tenant := b.drafts[recorded[n]].TenantID
		late[tenant] = append(late[tenant], stored[n])
	}
	for _, tenant := range slices.Sorted(maps.Keys(late)) { // in this order, so that nodes do not deadlock
		if err := counts.Add(b.tx, tenant, late[tenant]); err != nil {
			return err
		}
	}
	return nil
}

// splitByKey separates the first draft of each key, and drafts without a key, from the rest.
func (b *appendTx) splitByKey(pending []int) (first, rest []int) {
	for _, i := range pending {
		if b.keyMatch[i] == nil {
			first = append(first, i)
			continue
		}
		if _, taken := b.firstByKey[b.key(i)]; taken {
			rest = append(rest, i)
			continue
		}
		b.firstByKey[b.key(i)] = i
		first = append(first, i)
	}
	return first, rest
}

const insertEntry = `INSERT INTO entries (tenant_id, entry_id, account_id, created_at, source, type,
		claimed_account_id, claimed_domain, claimed_name, idempotency_key, key_match, fingerprint,
		acknowledged_account_id, occurred_at, payload, rule, submitted_by, request_id)
	SELECT batch.tenant_id, entry_id, account_id, created_at, source, type,
		claimed_account_id, claimed_domain, claimed_name, idempotency_key, key_match, fingerprint,
		acknowledged_account_id, occurred_at, payload, rule, submitted_by, request_id
	FROM batch`

var (
	entryBatch = []string{
		"tenant_id bytea", "entry_id bytea", "account_id bytea", "created_at bigint", "source text", "type text",
		"claimed_account_id bytea", "claimed_domain text", "claimed_name text", "idempotency_key text", "key_match bytea",
		"fingerprint bytea", "acknowledged_account_id bytea", "occurred_at bigint", "payload bytea",
		"rule bigint", "submitted_by bytea", "request_id bytea",
	}
	insertEntries = engine.NewBatch(insertEntry, entryBatch...)
	// ImportEntries inserts rows of EntryRow, skips entries whose identifiers or keys are in use,
	// and returns the identifiers of the inserted entries.
	ImportEntries = engine.NewBatch(insertEntry+" WHERE true ON CONFLICT DO NOTHING RETURNING entry_id", entryBatch...)
)

// EntryRow returns the row of an entry for ImportEntries.
func EntryRow(e *atrium.Entry, o atrium.Origin, keyMatch, fingerprint []byte) engine.Args {
	return engine.Args{
		kernel.IDArg(e.TenantID), kernel.IDArg(e.ID), kernel.IDArg(e.AccountID), int64(e.CreatedAt), e.Source, e.Type,
		kernel.IDArg(e.Claim.AccountID), kernel.Nullable(e.Claim.Domain), kernel.Nullable(e.Claim.Name), kernel.Nullable(e.IdempotencyKey), keyMatch,
		fingerprint, kernel.IDArg(e.AcknowledgedID), kernel.NullableTime(e.OccurredAt), e.Payload,
		ruleArg(o.Rule), submitterArg(o.SubmittedBy), requestArg(o.RequestID),
	}
}

func (b *appendTx) insert(recorded []int) error {
	rows := make([]engine.Args, len(recorded))
	for n, i := range recorded {
		d := b.drafts[i]
		e := atrium.Entry{ID: d.ID, TenantID: d.TenantID, AccountID: b.storedIn[i], CreatedAt: b.at, Submission: d.Submission}
		if shownID := b.outcomes[i].AccountID; shownID != e.AccountID {
			e.AcknowledgedID = shownID
		}
		origin := atrium.Origin{Rule: b.rules[i], SubmittedBy: d.SubmittedBy, RequestID: d.RequestID}
		rows[n] = EntryRow(&e, origin, b.keyMatch[i], d.Fingerprint)
	}
	return b.tx.PipelineExec(insertEntries, rows)
}

// The columns of an entry e in the order in which ScanEntry reads them.
const (
	EntryColumns = `e.entry_id, e.account_id, e.created_at, e.source, e.type, e.claimed_account_id, e.claimed_domain,
		e.claimed_name, e.idempotency_key, e.acknowledged_account_id, e.occurred_at, e.fingerprint, e.payload`
	EntryColumnsLen = 13
)

// ScanEntry reads EntryColumns, starting at column 0.
func ScanEntry(r engine.Row, tenant atrium.TenantID) atrium.Entry {
	return atrium.Entry{
		ID: kernel.IDAt[atrium.EntryID](r, 0), TenantID: tenant, AccountID: kernel.IDAt[atrium.AccountID](r, 1), CreatedAt: atrium.Time(r.Int(2)),
		AcknowledgedID: kernel.IDAt[atrium.AccountID](r, 9), IdentifiedByKey: canonical.IsKeyFingerprint(r.View(11)),
		Submission: atrium.Submission{
			Source: r.Text(3), Type: r.Text(4),
			Claim:          atrium.Claim{AccountID: kernel.IDAt[atrium.AccountID](r, 5), Domain: r.Text(6), Name: r.Text(7)},
			IdempotencyKey: r.Text(8), OccurredAt: kernel.TimeAt(r, 10), Payload: r.Bytes(12),
		},
	}
}
