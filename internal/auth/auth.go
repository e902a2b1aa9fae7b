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

// CacheTime is how long a lookup result is cached. A key that is revoked on another node stops
// working within this time.
const CacheTime = 5 * time.Second

// UseTime is the interval at which the last use of keys is stored.
const UseTime = time.Minute

// maxCached is the maximum number of cached results, for valid and invalid keys.
const maxCached = 10_000

// A Principal is the authenticated caller of a request. The request can access its tenant only.
type Principal struct {
	TenantID atrium.TenantID   // "" for an operator who has not named a tenant
	KeyID    atrium.KeyID      // "" for a user, and for the command line with direct database access
	UserID   atrium.UserID     // of the console; "" for a key
	Receiver atrium.ReceiverID // of a delivery, which has no key; else ""
	Scopes   atrium.Scopes
	Operator bool     // an operator key: each request names its tenant
	Origins  []string // of the key: do not modify
}

// Actor returns the principal's actor in the audit log.
func (p *Principal) Actor() string {
	switch {
	case p.UserID != "":
		return string(p.UserID)
	case p.Receiver != "":
		return string(p.Receiver)
	case p.KeyID != "":
		return string(p.KeyID)
	}
	return atrium.ActorCommandLine
}

// Keys is the store of keys.
type Keys interface {
	// Key returns a key by its identifier, with the hash of its secret and, if it was rotated, of
	// its previous secret. If there is no such key, the error's code is atrium.CodeNotFound.
	Key(ctx context.Context, id atrium.KeyID) (k atrium.APIKey, current, previous []byte, err error)

	// EachKey calls f for each key that exists, in one query.
	EachKey(ctx context.Context, ids []atrium.KeyID, f func(k atrium.APIKey, current, previous []byte)) error

	// UseKeys stores when keys were last used.
	UseKeys(ctx context.Context, used map[atrium.KeyID]atrium.Time) error
}

// Failures counts invalid keys per client.
type Failures = limit.Rates[netip.Addr]

// An Authenticator verifies keys. It is safe for concurrent use.
//
// A client that exceeds the failure rate can neither make valid keys fail nor load the store: keys
// that are known to be invalid are rejected without a lookup, and unknown keys are looked up in
// rate-limited batches. ADR 0016 has the reasons.
type Authenticator struct {
	keys     Keys
	now      func() time.Time
	observer Observer
	failures *Failures // nil for no limit
	lookups  singleflight.Group
	batcher  *batcher

	mu         sync.RWMutex
	cache      map[fingerprint]result       // guarded by mu; at most maxCached
	used       map[atrium.KeyID]atrium.Time // guarded by mu; uses not stored yet, at most maxCached
	generation uint64                       // guarded by mu; number of calls of Forget
}

// An Observer receives cache hits and misses. Its method must return at once and be safe for
// concurrent use.
type Observer interface {
	LookedUp(cached bool)
}

// A fingerprint is the hash of a whole key, so that no key stays in memory.
type fingerprint [sha256.Size]byte

// A result is the cached result of a lookup.
type result struct {
	key     *atrium.APIKey // nil if the key is invalid
	ends    *atrium.Time   // when this secret expires; nil for never
	expires time.Time      // when the result leaves the cache, by the monotonic clock
}

func (r *result) valid(now atrium.Time) bool {
	return r.key != nil && r.key.WorksAt(now) && (r.ends == nil || now < *r.ends)
}

// ended returns the principal of a key that no longer works: who it was, without any right.
func (r *result) ended() Principal {
	if r.key == nil {
		return Principal{}
	}
	return Principal{TenantID: r.key.TenantID, KeyID: r.key.ID}
}

// New returns an Authenticator for keys. now is the clock for the expiry and use of keys. Cache
// expiry uses the monotonic clock instead, so that setting the system clock back does not keep a
// revoked key valid. failures and observer may be nil.
func New(keys Keys, now func() time.Time, failures *Failures, observer Observer) *Authenticator {
	a := &Authenticator{
		keys: keys, now: now, observer: observer, failures: failures,
		cache: map[fingerprint]result{}, used: map[atrium.KeyID]atrium.Time{},
	}
	a.batcher = newBatcher(a.lookUpBatch)
	return a
}

// Unauthenticated is the same error for every reason why a key is invalid.
func Unauthenticated() error {
	return atrium.Errorf(atrium.CodeUnauthenticated, "A valid API key is needed in the x-api-key header.")
}

// reject counts an invalid key of a client and returns the client's error.
func (a *Authenticator) reject(from netip.Addr) error {
	b := a.failures.Take(from)
	if b.OK {
		return Unauthenticated()
	}
	return tooMany(b, "This address has sent too many invalid keys. Valid keys are still accepted.")
}

// tooMany returns the error of a client that has sent too many invalid keys or tokens.
func tooMany(b limit.Budget, detail string) error {
	e := atrium.Errorf(atrium.CodeRateLimited, "%s", detail)
	e.Retry = b.Wait
	return e
}

// Authenticate returns the principal of a key that a client has sent. The error's code is
// atrium.CodeUnauthenticated for a key that is malformed, unknown, revoked or expired,
// atrium.CodeRateLimited if the client has sent too many of these, or atrium.CodeUnavailable if the
// lookup failed. With the first two, the principal of a key that worked until it expired, was revoked
// or was rotated has TenantID and KeyID, and is empty for any other: for logs, not for the client.
func (a *Authenticator) Authenticate(ctx context.Context, from netip.Addr, key string) (Principal, error) {
	from = limit.Network(from)
	if len(key) != keyLen {
		return Principal{}, a.reject(from)
	}
	now := a.now()
	l := lookup{digest: fingerprint(sha256.Sum256(append(make([]byte, 0, keyLen), key...)))}
	a.mu.RLock()
	r, found := a.cache[l.digest]
	l.generation = a.generation
	a.mu.RUnlock()
	cached := found && time.Now().Before(r.expires)
	if !cached { // a cached key is well-formed
		var ok bool
		if l.id, l.secret, ok = ParseKey(key); !ok {
			return Principal{}, a.reject(from)
		}
	}
	if a.observer != nil {
		a.observer.LookedUp(cached)
	}
	if cached && !r.valid(atrium.At(now)) {
		return r.ended(), a.reject(from)
	}
	if !cached {
		var err error
		if r, err = a.lookUpOnce(ctx, from, l, r.valid(atrium.At(now))); err != nil {
			return Principal{}, err
		}
		if !r.valid(atrium.At(now)) {
			return r.ended(), Unauthenticated()
		}
	}
	return Principal{
		TenantID: r.key.TenantID, KeyID: r.key.ID, Scopes: r.key.Scopes, Operator: r.key.TenantID == "", Origins: r.key.Origins,
	}, nil
}

// A lookup is a query of the store about a key.
type lookup struct {
	id         atrium.KeyID
	secret     string
	digest     fingerprint
	generation uint64 // of the cache when the lookup began
}

// lookUpOnce merges concurrent lookups of a key into one, which does not end with the context of
// any of them. Lookups that begin after a call of Forget are not merged with earlier ones, which
// may return the forgotten result.
func (a *Authenticator) lookUpOnce(ctx context.Context, from netip.Addr, l lookup, proven bool) (result, error) {
	key := binary.BigEndian.AppendUint64(l.digest[:], l.generation)
	done := a.lookups.DoChan(string(key), func() (any, error) {
		return a.lookUp(context.WithoutCancel(ctx), from, l, proven)
	})
	select {
	case r := <-done:
		if r.Err != nil {
			return result{}, r.Err
		}
		return r.Val.(result), nil
	case <-ctx.Done():
		return result{}, atrium.Unavailable(context.Cause(ctx))
	}
}

// lookUp looks up a key of a client. It counts a failure before the result is known, and returns it
// if the key is valid or the store fails: many concurrent keys cause no more lookups than
// sequential ones. A proven key, which was valid in its last result, is counted only if it is now
// invalid.
func (a *Authenticator) lookUp(ctx context.Context, from netip.Addr, l lookup, proven bool) (result, error) {
	if !proven && !a.failures.Take(from).OK {
		return a.batcher.look(ctx, from, l)
	}
	at, expires := a.now(), time.Now().Add(CacheTime) // before the query: the result may be that old
	k, current, previous, err := a.keys.Key(ctx, l.id)
	unknown := atrium.CodeOf(err) == atrium.CodeNotFound
	if err != nil && !unknown {
		if !proven {
			a.failures.Return(from)
		}
		return result{}, err
	}
	r := verify(l.secret, stored{k, current, previous}, !unknown, expires)
	a.store(l, r, atrium.At(at))
	switch valid := r.valid(atrium.At(at)); {
	case valid && !proven:
		a.failures.Return(from)
	case !valid && proven:
		a.failures.Take(from)
	}
	return r, nil
}

// lookUpBatch looks up many keys in one query. It does not cache invalid keys, which would evict
// valid ones.
func (a *Authenticator) lookUpBatch(ctx context.Context, batch []*batchedLookup) error {
	at, expires := a.now(), time.Now().Add(CacheTime)
	ids := make([]atrium.KeyID, len(batch))
	for i, l := range batch {
		ids[i] = l.id
	}
	found := make(map[atrium.KeyID]stored, len(ids))
	if err := a.keys.EachKey(ctx, ids, func(k atrium.APIKey, current, previous []byte) {
		found[k.ID] = stored{k, current, previous}
	}); err != nil {
		return err
	}
	for _, l := range batch {
		s, known := found[l.id]
		l.result = verify(l.secret, s, known, expires)
		if l.result.valid(atrium.At(at)) {
			a.store(l.lookup, l.result, atrium.At(at))
		}
	}
	return nil
}

// stored is a key in the store.
type stored struct {
	key               atrium.APIKey
	current, previous []byte // hashes
}

// verify compares a secret with the stored key, if known. It runs in the same time whether or not
// the key exists.
func verify(secret string, s stored, known bool, expires time.Time) result {
	r := result{expires: expires}
	given := hashSecret(secret)
	isCurrent, isPrevious := same(given, s.current), same(given, s.previous)
	switch {
	case !known:
	case isCurrent:
		r.key = &s.key
	case isPrevious:
		r.key, r.ends = &s.key, s.key.PreviousEndsAt
	}
	return r
}

// compare is a variable so that a test can count its calls.
var compare = subtle.ConstantTimeCompare

// dummy is compared if no hash is stored.
var dummy [sha256.Size]byte

// same compares hashes in constant time, also if none is stored.
func same(given, stored []byte) bool {
	exists := len(stored) == len(dummy)
	if !exists {
		stored = dummy[:]
	}
	return compare(given, stored) == 1 && exists
}

// store caches a result and, if it is valid, records the use of the key: a key in use is looked up
// every CacheTime, which is accurate enough. A full cache evicts a random result: keys in use
// return with their next request, and a flood of invalid keys mostly evicts itself. A result whose
// lookup began before the last call of Forget is not cached.
func (a *Authenticator) store(l lookup, r result, at atrium.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.generation != l.generation {
		return
	}
	if r.valid(at) && len(a.used) < maxCached {
		a.used[r.key.ID] = at
	}
	if _, ok := a.cache[l.digest]; !ok && len(a.cache) >= maxCached {
		for other := range a.cache { // in random order
			delete(a.cache, other)
			break
		}
	}
	a.cache[l.digest] = r
}

// Run stores the last use of keys every UseTime, and once more when ctx ends. Uses that cannot be
// stored are retried the next time.
func (a *Authenticator) Run(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(UseTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		write, cancel := context.WithTimeout(context.WithoutCancel(ctx), useTimeout)
		if err := a.storeUses(write); err != nil {
			log.Warn("last use of keys not stored; retrying later", "error", err)
		}
		cancel()
		if ctx.Err() != nil {
			return
		}
	}
}

// useTimeout limits storing the last use of keys, above all during shutdown.
const useTimeout = 500 * time.Millisecond

func (a *Authenticator) storeUses(ctx context.Context) error {
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

// Cached returns the number of cached results.
func (a *Authenticator) Cached() int {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return len(a.cache)
}

// Forget removes a key from the cache. Call it after a key is revoked on this node.
func (a *Authenticator) Forget(id atrium.KeyID) {
	a.forget(func(k *atrium.APIKey) bool { return k.ID == id })
}

// ForgetTenant removes all keys of a tenant from the cache. Call it after the tenant is deleted on this
// node.
func (a *Authenticator) ForgetTenant(id atrium.TenantID) {
	a.forget(func(k *atrium.APIKey) bool { return k.TenantID == id })
}

func (a *Authenticator) forget(gone func(*atrium.APIKey) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.generation++
	for digest, r := range a.cache {
		if r.key != nil && gone(r.key) {
			delete(a.cache, digest)
		}
	}
}
