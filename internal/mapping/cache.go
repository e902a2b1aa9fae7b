package mapping

import (
	"container/list"
	"sync"

	"atrium"
)

// Limits of a Cache.
const (
	maxCache    = 32 << 20 // bytes of all mappings, as estimated
	entryMemory = 1 << 10  // bytes of a mapping, without its expressions
)

// A Cache keeps the compiled mappings of receivers. If they occupy more than 32 MiB, it drops the least recently used one of the
// tenant whose mappings occupy the most. So it never drops a mapping of a tenant that has an equal share, or less. A mapping that
// cannot be kept is compiled for each use. A Cache is safe for concurrent use; a nil one keeps nothing.
type Cache struct {
	mu      sync.Mutex
	memory  int                                 // of all mappings; guarded by mu
	entries map[atrium.ReceiverID]*list.Element // guarded by mu
	tenants map[atrium.TenantID]*tenantMappings // those with mappings; guarded by mu
}

// tenantMappings are the mappings of a tenant. They are guarded by the mutex of the Cache.
type tenantMappings struct {
	memory int
	order  list.List // of *entry, the most recently used one first
}

type entry struct {
	tenant   atrium.TenantID
	receiver atrium.ReceiverID
	spec     atrium.ReceiverSpec
	mapping  *Mapping
	memory   int
}

// NewCache returns an empty Cache.
func NewCache() *Cache {
	return &Cache{entries: map[atrium.ReceiverID]*list.Element{}, tenants: map[atrium.TenantID]*tenantMappings{}}
}

// Get returns the mapping of a receiver. It compiles the mapping, which is heavy work, if it is not in the cache, or if the receiver
// has changed. If an expression has faults, the error is an *Error.
func (c *Cache) Get(r *atrium.Receiver) (*Mapping, error) {
	if c == nil {
		return Compile(r.ID, &r.ReceiverSpec)
	}
	if m := c.find(r); m != nil {
		return m, nil
	}
	m, err := Compile(r.ID, &r.ReceiverSpec)
	if err != nil {
		return nil, err
	}
	c.put(&entry{r.TenantID, r.ID, r.ReceiverSpec, m, m.memory + memoryOf(&r.ReceiverSpec)})
	return m, nil
}

// memoryOf returns an estimate of the bytes that an entry occupies, without its expressions.
func memoryOf(s *atrium.ReceiverSpec) int {
	m := &s.Mapping
	return entryMemory + len(m.Filter) + len(m.Type) + len(m.AccountID) + len(m.Domain) + len(m.Email) + len(m.Name) + len(m.OccurredAt) + len(m.EventID)
}

func (c *Cache) find(r *atrium.Receiver) *Mapping {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.entries[r.ID]
	if found == nil {
		return nil
	}
	e := found.Value.(*entry)
	if e.tenant != r.TenantID || e.spec != r.ReceiverSpec {
		return nil
	}
	c.tenants[e.tenant].order.MoveToFront(found)
	return e.mapping
}

func (c *Cache) put(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.entries[e.receiver]; old != nil {
		c.remove(old)
	}
	t := c.tenants[e.tenant]
	if t == nil {
		t = &tenantMappings{}
		c.tenants[e.tenant] = t
	}
	c.entries[e.receiver] = t.order.PushFront(e)
	t.memory += e.memory
	c.memory += e.memory
	for c.memory > maxCache {
		largest := t // also of several equal ones
		for _, other := range c.tenants {
			if other.memory > largest.memory {
				largest = other
			}
		}
		c.remove(largest.order.Back())
	}
}

func (c *Cache) remove(element *list.Element) {
	e := element.Value.(*entry)
	t := c.tenants[e.tenant]
	t.order.Remove(element)
	t.memory -= e.memory
	c.memory -= e.memory
	delete(c.entries, e.receiver)
	if t.order.Len() == 0 {
		delete(c.tenants, e.tenant)
	}
}
