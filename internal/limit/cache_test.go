package limit

import (
	"fmt"
	"testing"
)

// has reports whether a cache has a value, without using it.
func (c *Cache[O, K, V]) has(key K) bool { return c.values[key] != nil }

func TestCacheDropsTheLeastRecentlyUsedValueOfTheLargestOwner(t *testing.T) {
	c := NewCache[string, string, int](100)
	put := func(owner string, n, size int) { c.Put(owner, fmt.Sprint(owner, n), n, size) }
	for i := range 5 {
		put("quiet", i, 10)
	}
	for i := range 20 {
		put("noisy", i, 10)
		if c.Get("noisy0"); !c.has("noisy0") {
			t.Fatal("a value in use was dropped")
		}
	}
	for i := range 5 {
		if v, ok := c.Get(fmt.Sprint("quiet", i)); !ok || v != i {
			t.Errorf("a value of an owner with an equal share was dropped, or is %d", v)
		}
	}
	if c.has("noisy15") || !c.has("noisy19") || c.size != 100 || c.owners["noisy"].size != 50 {
		t.Errorf("%d bytes in all, %d of the noisy owner", c.size, c.owners["noisy"].size)
	}
	put("third", 0, 60) // more than a share
	if c.has("third0") || c.size > 100 {
		t.Errorf("a value that is larger than a share was kept: %d bytes", c.size)
	}
}

func TestCacheCountsWhatItKeeps(t *testing.T) {
	c := NewCache[string, string, int](100)
	c.Put("a", "key", 1, 50)
	c.Put("b", "key", 2, 30) // now of another owner
	if v, ok := c.Get("key"); !ok || v != 2 || c.size != 30 || len(c.values) != 1 || len(c.owners) != 1 {
		t.Errorf("%d, %v, %+v", v, ok, c)
	}
	c.Put("b", "large", 3, 101)
	if _, ok := c.Get("large"); ok {
		t.Error("a value that is larger than the cache was kept")
	}
	c.Delete("key")
	c.Delete("key")
	if _, ok := c.Get("key"); ok || c.size != 0 || len(c.values) != 0 || len(c.owners) != 0 {
		t.Errorf("%+v", c)
	}
}
