package receive

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
)

// A Store finds receivers: a *store.Store.
type Store interface {
	// FindReceiver returns a receiver of any tenant, and its secrets that are valid now. If there is no such receiver, the
	// error's code is atrium.CodeNotFound.
	FindReceiver(ctx context.Context, id atrium.ReceiverID) (atrium.Receiver, []atrium.ReceiverSecret, error)
}

// Limits of the cache. Compiled mappings are in a mapping.Cache.
const (
	maxCache       = 32 << 20 // bytes of all receivers, as estimated
	receiverMemory = 2 << 10  // bytes of a receiver, without its strings and secrets
)

// Receivers is a cache of the receivers in a store. An entry expires after auth.CacheTime, so a change on another node takes effect
// within this time. Tenants share its memory as in a limit.Cache. It is safe for concurrent use.
type Receivers struct {
	store   Store
	lookups singleflight.Group
	cache   *limit.Cache[atrium.TenantID, atrium.ReceiverID, *cachedReceiver]
}

// NewReceivers returns an empty cache of the receivers in a store.
func NewReceivers(store Store) *Receivers {
	return &Receivers{store: store, cache: limit.NewCache[atrium.TenantID, atrium.ReceiverID, *cachedReceiver](maxCache)}
}

// A cachedReceiver is a receiver with its secrets. It is immutable.
type cachedReceiver struct {
	atrium.Receiver
	secrets []atrium.ReceiverSecret
	expires time.Time // when it must be looked up again, by the monotonic clock
}

// secretsAt returns the secrets that are valid at a time.
func (r *cachedReceiver) secretsAt(now atrium.Time) (valid [][]byte) {
	for i := range r.secrets {
		if s := &r.secrets[i]; s.ExpiresAt == nil || now < *s.ExpiresAt {
			valid = append(valid, s.Value)
		}
	}
	return valid
}

// memory returns an estimate of the bytes that a receiver occupies.
func (r *cachedReceiver) memory() int {
	bytes := receiverMemory + r.Bytes()
	for i := range r.secrets {
		bytes += len(r.secrets[i].Value)
	}
	return bytes
}

// cached returns a receiver from the cache, nil if it is not there, and whether it need not be looked up again.
func (c *Receivers) cached(id atrium.ReceiverID) (found *cachedReceiver, fresh bool) {
	found, _ = c.cache.Get(id)
	return found, found != nil && time.Now().Before(found.expires)
}

// lookUp returns a receiver from the store. Concurrent calls for a receiver share one lookup, which does not end with the
// context of any of them.
func (c *Receivers) lookUp(ctx context.Context, id atrium.ReceiverID) (*cachedReceiver, error) {
	done := c.lookups.DoChan(string(id), func() (any, error) {
		expires := time.Now().Add(auth.CacheTime) // before the query: the result may be that old
		found, secrets, err := c.store.FindReceiver(context.WithoutCancel(ctx), id)
		if err != nil {
			c.cache.Delete(id)
			if atrium.CodeOf(err) == atrium.CodeInternal { // the node lacks the key of a secret
				err = atrium.Unavailable(err)
			}
			return nil, err
		}
		made := &cachedReceiver{Receiver: found, secrets: secrets, expires: expires}
		c.cache.Put(made.TenantID, id, made, made.memory())
		return made, nil
	})
	select {
	case r := <-done:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*cachedReceiver), nil
	case <-ctx.Done():
		return nil, atrium.Unavailable(context.Cause(ctx))
	}
}
