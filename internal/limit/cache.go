package limit

import (
	"container/list"
	"sync"
)

// A Cache holds values of owners, such as tenants, up to a total size. When it is full, it evicts the least recently used value of
// the owner that uses the most, so an owner with an equal share or less loses none. The unit of sizes is up to the caller. A Cache is
// safe for concurrent use.
type Cache[O, K comparable, V any] struct {
	most int

	mu     sync.Mutex
	size   int                 // of all values; guarded by mu
	values map[K]*list.Element // guarded by mu
	owners map[O]*owned[O]     // those with values; guarded by mu
}

// owned are the values of an owner. They are guarded by the mutex of the Cache.
type owned[O comparable] struct {
	size  int
	order list.List // of *cached, the most recently used one first
}

type cached[O, K comparable, V any] struct {
	owner O
	key   K
	value V
	size  int
}

// NewCache returns an empty Cache for values with a total size of at most most.
func NewCache[O, K comparable, V any](most int) *Cache[O, K, V] {
	return &Cache[O, K, V]{most: most, values: map[K]*list.Element{}, owners: map[O]*owned[O]{}}
}

// Get returns the value of a key, if there is one.
func (c *Cache[O, K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.values[key]
	if element == nil {
		return value, false
	}
	found := element.Value.(*cached[O, K, V])
	c.owners[found.owner].order.MoveToFront(element)
	return found.value, true
}

// Put stores a value and its size, and replaces the value of the key, if any. A value that does not fit into the share of its owner is
// evicted immediately.
func (c *Cache[O, K, V]) Put(owner O, key K, value V, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(c.values[key])
	of := c.owners[owner]
	if of == nil {
		of = &owned[O]{}
		c.owners[owner] = of
	}
	c.values[key] = of.order.PushFront(&cached[O, K, V]{owner, key, value, size})
	of.size += size
	c.size += size
	for c.size > c.most {
		largest := of // also of several equal ones
		for _, other := range c.owners {
			if other.size > largest.size {
				largest = other
			}
		}
		c.remove(largest.order.Back())
	}
}

// Delete removes the value of a key, if any.
func (c *Cache[O, K, V]) Delete(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(c.values[key])
}

// remove removes the value of an element. It does nothing for nil. c.mu is held.
func (c *Cache[O, K, V]) remove(element *list.Element) {
	if element == nil {
		return
	}
	dropped := element.Value.(*cached[O, K, V])
	of := c.owners[dropped.owner]
	of.order.Remove(element)
	of.size -= dropped.size
	c.size -= dropped.size
	delete(c.values, dropped.key)
	if of.order.Len() == 0 {
		delete(c.owners, dropped.owner)
	}
}
