package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"atrium"
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

	// UseKeys notes when keys were last used.
	UseKeys(ctx context.Context, used map[atrium.KeyID]atrium.Time) error
}

// An Authenticator verifies keys. It is safe for concurrent use.
type Authenticator struct {
	keys     Keys
	now      func() time.Time
	observer Observer
	lookups  singleflight.Group

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
// clock that is set back must not keep a key alive that was revoked. observer may be nil.
func New(keys Keys, now func() time.Time, observer Observer) *Authenticator {
	return &Authenticator{
		keys: keys, now: now, observer: observer,
		known: map[fingerprint]verdict{}, used: map[atrium.KeyID]atrium.Time{},
	}
}

// unauthenticated is one and the same for every way in which a key can be bad.
func unauthenticated() error {
	return atrium.Errorf(atrium.CodeUnauthenticated, "A valid API key is needed in the x-api-key header.")
}

// Authenticate returns who holds a key. The error's code is
// atrium.CodeUnauthenticated for a key that is malformed, unknown, revoked or
// expired, and atrium.CodeUnavailable when that could not be found out.
func (a *Authenticator) Authenticate(ctx context.Context, key string) (Principal, error) {
	id, secret, ok := ParseKey(key)
	if !ok {
		return Principal{}, unauthenticated()
	}
	now := a.now()
	digest := fingerprint(sha256.Sum256([]byte(key)))
	a.mu.RLock()
	v, cached := a.known[digest]
	forgets := a.forgets
	a.mu.RUnlock()
	cached = cached && time.Now().Before(v.until)
	if a.observer != nil {
		a.observer.LookedUp(cached)
	}
	if !cached {
		var err error
		if v, err = a.look(ctx, id, secret, digest, forgets); err != nil {
			return Principal{}, err
		}
	}
	if !v.good(atrium.At(now)) {
		return Principal{}, unauthenticated()
	}
	return Principal{TenantID: v.key.TenantID, KeyID: v.key.ID, Scopes: v.key.Scopes, Operator: v.key.TenantID == ""}, nil
}

// look asks the store, once for all who ask at the same time. It is not called
// off with the first of them. Who comes after a call of Forget asks again: what
// was asked before it may be what is to be forgotten.
func (a *Authenticator) look(ctx context.Context, id atrium.KeyID, secret string, digest fingerprint, forgets uint64) (verdict, error) {
	question := binary.BigEndian.AppendUint64(digest[:], forgets)
	result := a.lookups.DoChan(string(question), func() (any, error) {
		at, until := a.now(), time.Now().Add(CacheTime) // before the store is asked: what it says is no newer
		k, current, previous, err := a.keys.Key(context.WithoutCancel(ctx), id)
		unknown := atrium.CodeOf(err) == atrium.CodeNotFound
		if err != nil && !unknown {
			return verdict{}, err
		}
		v := verdict{until: until}
		// All is compared, in the same time, whether there is such a key or not.
		given := hashSecret(secret)
		isCurrent, isPrevious := same(given, current), same(given, previous)
		switch {
		case unknown:
		case isCurrent:
			v.key = &k
		case isPrevious:
			v.key, v.ends = &k, k.PreviousEndsAt
		}
		a.remember(digest, v, atrium.At(at), forgets)
		return v, nil
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

// same compares hashes in constant time. None is compared with a dummy.
func same(given, stored []byte) bool {
	there := len(stored) == len(given)
	if !there {
		stored = make([]byte, len(given))
	}
	return subtle.ConstantTimeCompare(given, stored) == 1 && there
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
