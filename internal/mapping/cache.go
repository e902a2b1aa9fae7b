package mapping

import (
	"atrium"
	"atrium/internal/limit"
)

// Limits of a Cache.
const (
	maxCache    = 32 << 20 // bytes of all mappings, as estimated
	entryMemory = 1 << 10  // bytes of a mapping, without its texts and expressions
)

// A Cache keeps the compiled mappings of receivers, in 32 MiB that tenants share as in a limit.Cache. A mapping that cannot be kept is
// compiled for each use. A Cache is safe for concurrent use; a nil one keeps nothing.
type Cache struct {
	entries *limit.Cache[atrium.TenantID, atrium.ReceiverID, entry]
}

type entry struct {
	tenant  atrium.TenantID
	spec    atrium.ReceiverSpec
	mapping *Mapping
}

// NewCache returns an empty Cache.
func NewCache() *Cache {
	return &Cache{limit.NewCache[atrium.TenantID, atrium.ReceiverID, entry](maxCache)}
}

// Get returns the mapping of a receiver. It compiles the mapping, which is heavy work, if it is not in the cache, or if the receiver
// has changed. If an expression has faults, the error is an *Error.
func (c *Cache) Get(r *atrium.Receiver) (*Mapping, error) {
	if c == nil {
		return Compile(r.ID, &r.ReceiverSpec)
	}
	if e, ok := c.entries.Get(r.ID); ok && e.tenant == r.TenantID && e.spec == r.ReceiverSpec {
		return e.mapping, nil
	}
	m, err := Compile(r.ID, &r.ReceiverSpec)
	if err != nil {
		return nil, err
	}
	c.entries.Put(r.TenantID, r.ID, entry{r.TenantID, r.ReceiverSpec, m}, m.memory+entryMemory+r.Bytes())
	return m, nil
}
