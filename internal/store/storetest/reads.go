package storetest

import (
	"reflect"
	"testing"
	"time"

	"atrium"
)

var personalReads = []guarantee{
	{"every node lists the same reads of personal data of a tenant, newest first", readsListed},
	{"a filter selects reads by each of its fields", readsFiltered},
	{"storing reads again changes nothing, and those without a tenant are not stored", readsAgain},
	{"reads expire, and the oldest of too many are deleted", readsExpire},
}

// newRead returns a read of the tenant, a second after the last one.
func (e *env) newRead(change ...func(*atrium.Read)) atrium.Read {
	e.clock.step(time.Second)
	r := atrium.Read{
		ID: atrium.NewID[atrium.ReadID](), TenantID: e.tenant, At: e.clock.instant(), Count: 1, RequestID: "req-1", Kind: atrium.ReadProspect,
		Subject: "prospect_00000000000000000000000001", Route: "/manage/v0/prospects/{prospect_id}", UserID: "user_00000000000000000000000001",
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func (e *env) storeReads(t tb, reads ...atrium.Read) {
	t.Helper()
	if err := e.StoreReads(t.Context(), reads); err != nil {
		t.Fatalf("store reads: %v", err)
	}
}

// allReads returns the reads of the tenant that match a filter, read in pages of a size.
func (e *env) allReads(t tb, f atrium.ReadFilter, size int) (all []atrium.Read) {
	t.Helper()
	for after := (*atrium.Position)(nil); ; {
		some, next, err := e.Reads(t.Context(), e.tenant, f, after, size)
		if err != nil {
			t.Fatalf("list reads: %v", err)
		}
		if all = append(all, some...); next == nil {
			return all
		}
		after = next
	}
}

func readsListed(t *testing.T, e *env) {
	other := e.node()
	a := e.newRead()
	b := e.newRead(func(r *atrium.Read) {
		r.Kind, r.Subject, r.UserID, r.KeyID = atrium.ReadExport, "", "", "key_00000000000000000000000001"
	})
	c := e.newRead(func(r *atrium.Read) { r.Count = 3 })
	e.storeReads(t, a, c)
	other.storeReads(t, b)
	for _, node := range []*env{e, other} {
		for _, size := range []int{1, 2, 100} {
			if got := node.allReads(t, atrium.ReadFilter{}, size); !reflect.DeepEqual(got, []atrium.Read{c, b, a}) {
				t.Errorf("pages of %d have %+v", size, got)
			}
		}
	}
	if got := e.as(e.newTenant(t)).allReads(t, atrium.ReadFilter{}, 100); len(got) > 0 {
		t.Errorf("another tenant has %+v", got)
	}
}

func readsFiltered(t *testing.T, e *env) {
	a := e.newRead()
	b := e.newRead(func(r *atrium.Read) {
		r.Kind, r.Subject, r.UserID = atrium.ReadAccount, "account_00000000000000000000000001", "user_00000000000000000000000002"
	})
	e.storeReads(t, a, b)
	next := a.At + 1
	for name, f := range map[string]atrium.ReadFilter{
		"actor": {Actor: string(b.UserID)}, "subject": {Subject: b.Subject}, "kind": {Kind: atrium.ReadAccount}, "since": {Since: &next},
		"all": {Actor: string(b.UserID), Subject: b.Subject, Kind: atrium.ReadAccount, Since: &b.At},
	} {
		if got := e.allReads(t, f, 1); !reflect.DeepEqual(got, []atrium.Read{b}) {
			t.Errorf("%s: %+v, want %+v", name, got, b)
		}
	}
	if got := e.allReads(t, atrium.ReadFilter{Until: &b.At}, 100); !reflect.DeepEqual(got, []atrium.Read{a}) {
		t.Errorf("until: %+v, want %+v", got, a)
	}
	if got := e.allReads(t, atrium.ReadFilter{Actor: string(a.UserID), Subject: b.Subject}, 100); len(got) > 0 {
		t.Errorf("fields that contradict each other select %+v", got)
	}
}

func readsAgain(t *testing.T, e *env) {
	a, b := e.newRead(), e.newRead()
	missing := e.as(atrium.NewID[atrium.TenantID]())
	e.storeReads(t, a)
	e.storeReads(t, a, missing.newRead(), b)
	if got := e.allReads(t, atrium.ReadFilter{}, 100); !reflect.DeepEqual(got, []atrium.Read{b, a}) {
		t.Errorf("stored %+v", got)
	}
	if got := missing.allReads(t, atrium.ReadFilter{}, 100); len(got) > 0 {
		t.Errorf("no tenant has %+v", got)
	}
}

func readsExpire(t *testing.T, e *env) {
	a, b, c := e.newRead(), e.newRead(), e.newRead()
	e.storeReads(t, a, b, c)
	e.clock.step(atrium.ReadLife - 3*time.Second/2)
	e.expire(t)
	if got := e.allReads(t, atrium.ReadFilter{}, 100); !reflect.DeepEqual(got, []atrium.Read{c, b}) {
		t.Errorf("left are %+v, want the two newest", got)
	}
	defer func(most int) { e.MaxReads = most }(e.MaxReads)
	e.MaxReads = 1
	e.expire(t)
	if got := e.allReads(t, atrium.ReadFilter{}, 100); !reflect.DeepEqual(got, []atrium.Read{c}) {
		t.Errorf("left are %+v, want the newest", got)
	}
}
