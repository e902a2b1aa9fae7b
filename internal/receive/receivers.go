package receive

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"atrium"
	"atrium/internal/auth"
)

// A Store finds receivers: a *store.Store.
type Store interface {
	// FindReceiver returns a receiver of any tenant, and its secrets that are valid now. If there is no such receiver, the
	// error's code is atrium.CodeNotFound.
	FindReceiver(ctx context.Context, id atrium.ReceiverID) (atrium.Receiver, []atrium.ReceiverSecret, error)
}

// maxCached is the maximum number of receivers in the cache. Their compiled mappings are in a mapping.Cache.
const maxCached = 1000

// Receivers finds receivers, and keeps them for auth.CacheTime: a change on another node has an effect within this time. It is
// safe for concurrent use.
type Receivers struct {
	store   Store
	lookups singleflight.Group

	mu    sync.Mutex
	cache map[atrium.ReceiverID]*receiver // guarded by mu; at most maxCached
}

// NewReceivers returns Receivers of a store.
func NewReceivers(store Store) *Receivers {
	return &Receivers{store: store, cache: map[atrium.ReceiverID]*receiver{}}
}

// A receiver is a receiver that was looked up. It is not changed.
type receiver struct {
	atrium.Receiver
	secrets []atrium.ReceiverSecret
	expires time.Time // when it must be looked up again, by the monotonic clock
}

// secretsAt returns the secrets that are valid at a time.
func (r *receiver) secretsAt(now atrium.Time) (valid [][]byte) {
	for i := range r.secrets {
		if s := &r.secrets[i]; s.ExpiresAt == nil || now < *s.ExpiresAt {
			valid = append(valid, s.Value)
		}
	}
	return valid
}

// cached returns a receiver from the cache, nil if it is not there, and whether it need not be looked up again.
func (c *Receivers) cached(id atrium.ReceiverID) (found *receiver, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found = c.cache[id]
	return found, found != nil && time.Now().Before(found.expires)
}

// lookUp returns a receiver from the store. Concurrent calls for a receiver share one lookup, which does not end with the
// context of any of them.
func (c *Receivers) lookUp(ctx context.Context, id atrium.ReceiverID) (*receiver, error) {
	done := c.lookups.DoChan(string(id), func() (any, error) {
		expires := time.Now().Add(auth.CacheTime) // before the query: the result may be that old
		found, secrets, err := c.store.FindReceiver(context.WithoutCancel(ctx), id)
		if err != nil {
			c.forget(id)
			if atrium.CodeOf(err) == atrium.CodeInternal { // the node lacks the key of a secret
				err = atrium.Unavailable(err)
			}
			return nil, err
		}
		made := &receiver{Receiver: found, secrets: secrets, expires: expires}
		c.keep(made)
		return made, nil
	})
	select {
	case r := <-done:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*receiver), nil
	case <-ctx.Done():
		return nil, atrium.Unavailable(context.Cause(ctx))
	}
}

// keep puts a receiver into the cache. It replaces an older one.
func (c *Receivers) keep(r *receiver) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.cache) >= maxCached && c.cache[r.ID] == nil {
		for id := range c.cache { // any
			delete(c.cache, id)
			break
		}
	}
	c.cache[r.ID] = r
}

func (c *Receivers) forget(id atrium.ReceiverID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.cache, id)
}
