package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"atrium"
)

// CacheTime is how long a verified key is trusted without asking the store: a
// key that was revoked on another node stops working within it.
const CacheTime = 5 * time.Second

// maxCached bounds how many keys, working or not, are remembered at a time.
const maxCached = 10_000

// A Principal is who a request comes from. Its tenant is the only one that the
// request can see.
type Principal struct {
	TenantID atrium.TenantID
	KeyID    atrium.KeyID
	Scopes   atrium.Scopes
}

// A Keys finds a key and the hash of its secret by its identifier. For an
// identifier that nobody has, the error's code is atrium.CodeNotFound.
type Keys interface {
	Key(ctx context.Context, id atrium.KeyID) (atrium.APIKey, []byte, error)
}

// An Authenticator verifies keys. It is safe for concurrent use.
type Authenticator struct {
	keys    Keys
	now     func() time.Time
	lookups singleflight.Group

	mu    sync.RWMutex
	known map[fingerprint]verdict // guarded by mu; at most maxCached
}

// A fingerprint is the hash of a whole key, so that no key stays in memory.
type fingerprint [sha256.Size]byte

type verdict struct {
	key   *atrium.APIKey // nil if the key is not good
	until time.Time      // when it must be asked for again
}

// New returns an Authenticator for the keys. now is its clock.
func New(keys Keys, now func() time.Time) *Authenticator {
	return &Authenticator{keys: keys, now: now, known: map[fingerprint]verdict{}}
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
	a.mu.RUnlock()
	if !cached || !now.Before(v.until) {
		var err error
		if v, err = a.look(ctx, id, secret, digest); err != nil {
			return Principal{}, err
		}
	}
	if v.key == nil || !v.key.WorksAt(atrium.At(now)) {
		return Principal{}, unauthenticated()
	}
	return Principal{TenantID: v.key.TenantID, KeyID: v.key.ID, Scopes: v.key.Scopes}, nil
}

// look asks the store, once for all who ask at the same time. It is not called
// off with the first of them.
func (a *Authenticator) look(ctx context.Context, id atrium.KeyID, secret string, digest fingerprint) (verdict, error) {
	result := a.lookups.DoChan(string(digest[:]), func() (any, error) {
		at := a.now() // before the store is asked: what it says is no newer
		k, hash, err := a.keys.Key(context.WithoutCancel(ctx), id)
		unknown := atrium.CodeOf(err) == atrium.CodeNotFound
		if err != nil && !unknown {
			return verdict{}, err
		}
		if unknown {
			hash = make([]byte, sha256.Size) // compared all the same
		}
		v := verdict{until: at.Add(CacheTime)}
		if subtle.ConstantTimeCompare(hashSecret(secret), hash) == 1 && !unknown {
			v.key = &k
		}
		a.remember(digest, v)
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

// remember keeps a verdict. When the cache is full, some other one goes: keys
// that are in use come back with their next request, and a flood of bad ones
// mostly pushes itself out.
func (a *Authenticator) remember(digest fingerprint, v verdict) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.known[digest]; !ok && len(a.known) >= maxCached {
		for other := range a.known { // in random order
			delete(a.known, other)
			break
		}
	}
	a.known[digest] = v
}

// Forget makes the next use of a key ask the store. Whoever revokes a key on
// this node calls it.
func (a *Authenticator) Forget(id atrium.KeyID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for digest, v := range a.known {
		if v.key != nil && v.key.ID == id {
			delete(a.known, digest)
		}
	}
}
