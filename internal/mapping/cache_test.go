package mapping

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"atrium"
)

// large returns a receiver whose mapping occupies about as much memory as one can.
func large(tenant string, i int) *atrium.Receiver {
	filter := "body.a" + strings.Repeat("||body.a", 480)
	text := "(" + filter + `)?"a":"b"`
	return &atrium.Receiver{
		ID: atrium.ReceiverID(fmt.Sprintf("receiver_%s%d", tenant, i)), TenantID: atrium.TenantID(tenant), ReceiverSpec: atrium.ReceiverSpec{
			Provider: atrium.ProviderToken, Source: "s",
			Mapping: atrium.Mapping{Filter: filter, Type: text, AccountID: text, Domain: text, Email: text, Name: text, OccurredAt: text, EventID: text},
		},
	}
}

func small(tenant string, i int) *atrium.Receiver {
	r := large(tenant, i)
	r.Mapping = atrium.Mapping{Type: "body.type"}
	return r
}

func get(t *testing.T, c *Cache, r *atrium.Receiver) *Mapping {
	t.Helper()
	m, err := c.Get(r)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func heap() uint64 {
	runtime.GC()
	runtime.GC() // what pools have kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestMemoryOfMappingsIsBoundedAlsoWhileDeliveriesWait(t *testing.T) {
	c := NewCache()
	get(t, c, small("a", -1)) // what is made once
	before := heap()
	const many = 24 // of about 2 MB
	deepest := uint64(0)
	var deliver func(i int)
	deliver = func(i int) {
		if i == many {
			deepest = heap()
			return
		}
		r, waited := large("a", i), false
		m := get(t, c, r)
		m.slice = -1
		// The filter selects nothing. Each delivery pauses before its element, and waits there for all later ones.
		results, err := m.Map(&Delivery{Body: []byte(`{"a":false}`)}, maxPayload, func(int) (*Mapping, error) {
			if !waited {
				waited = true
				deliver(i + 1)
			}
			return c.Get(r)
		})
		if err != nil || len(results) != 1 || !results[0].Filtered {
			t.Errorf("%+v, %v", results, err)
		}
	}
	deliver(0)
	t.Logf("%d bytes while %d deliveries wait", deepest-before, many)
	if used := int64(deepest) - int64(before); used > maxCache {
		t.Errorf("%d deliveries that wait occupy %d bytes, want %d at most", many, used, maxCache)
	}
	if used := int64(heap()) - int64(before); used > maxCache {
		t.Errorf("the cache occupies %d bytes, want %d at most", used, maxCache)
	}
	runtime.KeepAlive(c)
}

func TestTenantWithLargeMappingsEvictsNoneOfAnother(t *testing.T) {
	c := NewCache()
	kept := map[*atrium.Receiver]*Mapping{}
	for i := range 20 {
		r := small("quiet", i)
		kept[r] = get(t, c, r)
	}
	own := large("quiet", 20)
	kept[own] = get(t, c, own)
	first := get(t, c, large("noisy", 0))
	for i := range 12 {
		get(t, c, large("noisy", i))
	}
	for r, m := range kept {
		if get(t, c, r) != m {
			t.Errorf("%s was compiled again", r.ID)
		}
	}
	if get(t, c, large("noisy", 0)) == first {
		t.Error("12 large mappings are in the cache")
	}
}

func TestLeastRecentlyUsedMappingOfATenantIsEvicted(t *testing.T) {
	c := NewCache()
	used, unused := get(t, c, large("a", 0)), get(t, c, large("a", 1))
	for i := range 10 {
		get(t, c, large("a", 2+i))
		if get(t, c, large("a", 0)) != used {
			t.Fatal("a mapping in use was evicted")
		}
	}
	if get(t, c, large("a", 1)) == unused {
		t.Error("the least recently used mapping was kept")
	}
}

func TestMappingThatIsLargerThanAShareIsCompiledForEachUse(t *testing.T) {
	c := NewCache()
	for i := range 33 { // each occupies less than a large one; together they fill the cache
		c.entries.Put(atrium.TenantID(fmt.Sprint("tenant", i)), atrium.ReceiverID(fmt.Sprint("other", i)), entry{}, maxCache/33)
	}
	a := get(t, c, large("a", 0))
	if get(t, c, large("a", 0)) == a {
		t.Error("it was kept")
	}
	if results, err := a.Map(&Delivery{Body: []byte(`{"a":false}`)}, maxPayload, nil); err != nil || !results[0].Filtered {
		t.Errorf("%+v, %v", results, err)
	}
}

func TestChangedReceiverIsCompiledAgain(t *testing.T) {
	c := NewCache()
	r := small("a", 0)
	old := get(t, c, r)
	r.Mapping.Type = "'new'"
	m := get(t, c, r)
	if results, err := m.Map(&Delivery{Body: []byte(`{}`)}, maxPayload, nil); err != nil || m == old || results[0].Type != "new" {
		t.Errorf("%+v, %v", results, err)
	}
	if got := get(t, c, r); got != m {
		t.Error("it was compiled twice")
	}
}
