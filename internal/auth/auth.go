package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"atrium"
	"atrium/internal/limit"
)

// CacheTime is how long a verified key is trusted without asking the store: a
// key that was revoked on another node stops working within it.
const CacheTime = 5 * time.Second

// UseTime is how often the last use of keys is written down.
const UseTime = time.Minute

// maxCached bounds how many keys, working or not, are remembered at a time.
const maxCached = 10_000

// A Principal is who a request comes from. Its tenant is the only one that the
// request can see.
type Principal struct {
	TenantID atrium.TenantID // "" for an operator who has named none
	KeyID    atrium.KeyID    // "" for who is at the command line, with the database
	Scopes   atrium.Scopes
	Operator bool // the key is of no tenant: each request names the one that it is for
}

// Actor returns what the audit log calls the principal.
func (p *Principal) Actor() string {
	if p.KeyID == "" {
		return atrium.ActorCommandLine
	}
	return string(p.KeyID)
}

// Keys are where keys are stored.
type Keys interface {
	// Key finds a key by its identifier, with the hash of its secret and of the
	// one before its last rotation, if there is one. For an identifier that
	// nobody has, the error's code is atrium.CodeNotFound.
	Key(ctx context.Context, id atrium.KeyID) (k atrium.APIKey, current, previous []byte, err error)

	// EachKey calls f with each of the keys that there is, and is one question
	// however many are asked for.
	EachKey(ctx context.Context, ids []atrium.KeyID, f func(k atrium.APIKey, current, previous []byte)) error

	// UseKeys notes when keys were last used.
	UseKeys(ctx context.Context, used map[atrium.KeyID]atrium.Time) error
}

// Failures are what is counted of each client: keys that were not good.
type Failures = limit.Rates[netip.Addr]

// An Authenticator verifies keys. It is safe for concurrent use.
//
// A client that fails too often never makes a good key fail, and never makes the store
// work: what is known to be no good is refused without asking, and what is not known is
// asked for together with all else of that kind, in a lane that asks seldom. ADR 0016
// has the reasons.
type Authenticator struct {
	keys     Keys
	now      func() time.Time
	observer Observer
	failures *Failures // nil for any number
	lookups  singleflight.Group
	lane     *lane

	mu    sync.RWMutex
	known map[fingerprint]verdict      // guarded by mu; at most maxCached
	used  map[atrium.KeyID]atrium.Time // guarded by mu; since they were last written down, at most maxCached

	forgets uint64 // guarded by mu; how often Forget was called
}

// An Observer is told where each verdict on a key came from. It is called by many
// goroutines and returns at once.
type Observer interface {
	LookedUp(cached bool)
}

// A fingerprint is the hash of a whole key, so that no key stays in memory.
type fingerprint [sha256.Size]byte

type verdict struct {
	key   *atrium.APIKey // nil if the key is not good
	ends  *atrium.Time   // when this secret of it no longer works; nil for never
	until time.Time      // when it must be asked for again, by the monotonic clock
}

func (v *verdict) good(now atrium.Time) bool {
	return v.key != nil && v.key.WorksAt(now) && (v.ends == nil || now < *v.ends)
}

// New returns an Authenticator for the keys. now is the clock by which they expire and
// are used. How long a verdict is trusted is measured by the monotonic clock instead: a
// clock that is set back must not keep a key alive that was revoked. failures and
// observer may be nil.
func New(keys Keys, now func() time.Time, failures *Failures, observer Observer) *Authenticator {
	a := &Authenticator{
		keys: keys, now: now, observer: observer, failures: failures,
		known: map[fingerprint]verdict{}, used: map[atrium.KeyID]atrium.Time{},
	}
	a.lane = newLane(a.askTogether)
	return a
}

// unauthenticated is one and the same for every way in which a key can be bad.
func unauthenticated() error {
	return atrium.Errorf(atrium.CodeUnauthenticated, "A valid API key is needed in the x-api-key header.")
}

// refuse counts a key of a client that is known to be no good, and returns what the
// client is told.
func (a *Authenticator) refuse(from netip.Addr) error {
	b := a.failures.Take(from)
	if b.OK {
		return unauthenticated()
	}
	e := atrium.Errorf(atrium.CodeRateLimited, "Too many keys that are not valid came from this address. A valid one is taken all the same.")
	e.Retry = b.Wait
	return e
}

// Authenticate returns who holds a key that came from a client. The error's code is
// atrium.CodeUnauthenticated for a key that is malformed, unknown, revoked or expired,
// or atrium.CodeRateLimited if too many such came from the client, and
// atrium.CodeUnavailable when that could not be found out.
func (a *Authenticator) Authenticate(ctx context.Context, from netip.Addr, key string) (Principal, error) {
	from = limit.Network(from)
	if len(key) != keyLen {
		return Principal{}, a.refuse(from)
	}
	now := a.now()
	q := question{digest: fingerprint(sha256.Sum256(append(make([]byte, 0, keyLen), key...)))}
	a.mu.RLock()
	v, remembered := a.known[q.digest]
	q.forgets = a.forgets
	a.mu.RUnlock()
	cached := remembered && time.Now().Before(v.until)
	if !cached { // what is remembered had the form of a key
		var ok bool
		if q.id, q.secret, ok = ParseKey(key); !ok {
			return Principal{}, a.refuse(from)
		}
	}
	if a.observer != nil {
		a.observer.LookedUp(cached)
	}
	if cached && !v.good(atrium.At(now)) {
		return Principal{}, a.refuse(from)
	}
	if !cached {
		var err error
		if v, err = a.look(ctx, from, q, v.good(atrium.At(now))); err != nil {
			return Principal{}, err
		}
		if !v.good(atrium.At(now)) {
			return Principal{}, unauthenticated()
		}
	}
	return Principal{TenantID: v.key.TenantID, KeyID: v.key.ID, Scopes: v.key.Scopes, Operator: v.key.TenantID == ""}, nil
}

// A question is what the store is asked about a key.
type question struct {
	id      atrium.KeyID
	secret  string
	digest  fingerprint
	forgets uint64 // how often Forget had been called when it came up
}

// look asks the store, once for all who ask about a key at the same time. It is not
// called off with the first of them. Who comes after a call of Forget asks again: what
// was asked before it may be what is to be forgotten.
func (a *Authenticator) look(ctx context.Context, from netip.Addr, q question, proven bool) (verdict, error) {
	text := binary.BigEndian.AppendUint64(q.digest[:], q.forgets)
	result := a.lookups.DoChan(string(text), func() (any, error) {
		return a.lookFor(context.WithoutCancel(ctx), from, q, proven)
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return verdict{}, r.Err
		}
		return r.Val.(verdict), nil
	case <-ctx.Done():
		return verdict{}, atrium.Unavailable(context.Cause(ctx))
	}
}

// lookFor asks the store for a client. Its failure is counted before anybody knows of it,
// and taken back from a good key and when the store does not answer: many keys at once are
// no more questions than one after the other. A proven key, whose last verdict was a good
// one, counts for nothing unless it fails.
func (a *Authenticator) lookFor(ctx context.Context, from netip.Addr, q question, proven bool) (verdict, error) {
	if !proven && !a.failures.Take(from).OK {
		return a.lane.look(ctx, from, q)
	}
	at, until := a.now(), time.Now().Add(CacheTime) // before the store is asked: what it says is no newer
	k, current, previous, err := a.keys.Key(ctx, q.id)
	unknown := atrium.CodeOf(err) == atrium.CodeNotFound
	if err != nil && !unknown {
		if !proven {
			a.failures.Return(from)
		}
		return verdict{}, err
	}
	v := judge(q.secret, stored{k, current, previous}, !unknown, until)
	a.remember(q.digest, v, atrium.At(at), q.forgets)
	switch good := v.good(atrium.At(at)); {
	case good && !proven:
		a.failures.Return(from)
	case !good && proven:
		a.failures.Take(from)
	}
	return v, nil
}

// askTogether asks the store about many keys at once. Those that are no good are not
// remembered: they would push others out that are.
func (a *Authenticator) askTogether(ctx context.Context, all []*asked) error {
	at, until := a.now(), time.Now().Add(CacheTime)
	ids := make([]atrium.KeyID, len(all))
	for i, q := range all {
		ids[i] = q.id
	}
	found := make(map[atrium.KeyID]stored, len(ids))
	if err := a.keys.EachKey(ctx, ids, func(k atrium.APIKey, current, previous []byte) {
		found[k.ID] = stored{k, current, previous}
	}); err != nil {
		return err
	}
	for _, q := range all {
		s, known := found[q.id]
		q.verdict = judge(q.secret, s, known, until)
		if q.verdict.good(atrium.At(at)) {
			a.remember(q.digest, q.verdict, atrium.At(at), q.forgets)
		}
	}
	return nil
}

// stored is what the store has of a key.
type stored struct {
	key               atrium.APIKey
	current, previous []byte // hashes
}

// judge returns the verdict on a secret, of the key that is stored if it is known. All
// is compared, in the same time, whether there is such a key or not.
func judge(secret string, s stored, known bool, until time.Time) verdict {
	v := verdict{until: until}
	given := hashSecret(secret)
	isCurrent, isPrevious := same(given, s.current), same(given, s.previous)
	switch {
	case !known:
	case isCurrent:
		v.key = &s.key
	case isPrevious:
		v.key, v.ends = &s.key, s.key.PreviousEndsAt
	}
	return v
}

// compare is a variable so that a test can count its calls.
var compare = subtle.ConstantTimeCompare

// dummy is compared with where there is nothing to compare with.
var dummy [sha256.Size]byte

// same compares hashes in constant time, and takes the same time when none is stored.
func same(given, stored []byte) bool {
	there := len(stored) == len(dummy)
	if !there {
		stored = dummy[:]
	}
	return compare(given, stored) == 1 && there
}

// remember keeps a verdict and, if it is a good one, that the key was used: a key
// in use comes here again every CacheTime, which is exact enough. When the cache
// is full, some other verdict goes: keys that are in use come back with their
// next request, and a flood of bad ones mostly pushes itself out. A verdict that
// was asked for before the last call of Forget is not kept.
func (a *Authenticator) remember(digest fingerprint, v verdict, at atrium.Time, forgets uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.forgets != forgets {
		return
	}
	if v.good(at) && len(a.used) < maxCached {
		a.used[v.key.ID] = at
	}
	if _, ok := a.known[digest]; !ok && len(a.known) >= maxCached {
		for other := range a.known { // in random order
			delete(a.known, other)
			break
		}
	}
	a.known[digest] = v
}

// Run writes down the last use of keys every UseTime, and once more when ctx
// ends. What cannot be written is tried again with the next.
func (a *Authenticator) Run(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(UseTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		write, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
		if err := a.writeUse(write); err != nil {
			log.Warn("the last use of keys was not written", "error", err)
		}
		cancel()
		if ctx.Err() != nil {
			return
		}
	}
}

// lastWrite bounds how long writing down may take, at the end above all.
const lastWrite = 500 * time.Millisecond

func (a *Authenticator) writeUse(ctx context.Context) error {
	a.mu.Lock()
	used := a.used
	a.used = map[atrium.KeyID]atrium.Time{}
	a.mu.Unlock()
	if len(used) == 0 {
		return nil
	}
	err := a.keys.UseKeys(ctx, used)
	if err != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		for id, at := range used {
			if _, later := a.used[id]; !later && len(a.used) < maxCached {
				a.used[id] = at
			}
		}
	}
	return err
}

// Cached returns how many verdicts are remembered.
func (a *Authenticator) Cached() int {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return len(a.known)
}

// Forget makes the next use of a key ask the store. Whoever revokes a key on
// this node calls it.
func (a *Authenticator) Forget(id atrium.KeyID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgets++
	for digest, v := range a.known {
		if v.key != nil && v.key.ID == id {
			delete(a.known, digest)
		}
	}
}
