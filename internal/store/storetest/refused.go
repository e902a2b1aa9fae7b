package storetest

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"atrium"
)

var refusedRequests = []guarantee{
	{"every node lists the same refused requests of a tenant, newest first", refusedListed},
	{"a filter selects refused requests by each of its fields", refusedFiltered},
	{"a tenant has a bounded number of refused requests: new ones replace its oldest ones, and no others", refusedBounded},
	{"storing refused requests again changes nothing", refusedAgain},
	{"refused requests of a tenant that is being deleted or does not exist are not stored", refusedWithoutTenant},
	{"refused requests are counted by code, from when on all are stored", refusedCounted},
	{"refused requests expire", refusedExpire},
}

// newRefused returns a refused request of the tenant, a second after the last one.
func (e *env) newRefused(change ...func(*atrium.RefusedRequest)) atrium.RefusedRequest {
	e.clock.step(time.Second)
	f := atrium.RefusedRequest{
		ID: atrium.NewID[atrium.RefusedRequestID](), TenantID: e.tenant, At: e.clock.instant(), Count: 1, RequestID: "req-1",
		Method: "POST", Route: "/v0/account_logs", Status: 400, Code: atrium.CodeInvalidRequest, Detail: "The request is not valid.",
		Faults: []atrium.Fault{{In: atrium.InBody, Where: "/domain", Detail: "must be a domain"}, {In: atrium.InHeader, Where: "Idempotency-Key", Detail: "is too long"}},
		KeyID:  "key_00000000000000000000000001", UserAgent: "crm/1.2",
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

func (e *env) storeRefused(t tb, refused ...atrium.RefusedRequest) {
	t.Helper()
	if err := e.StoreRefusedRequests(t.Context(), refused); err != nil {
		t.Fatalf("store refused requests: %v", err)
	}
}

// allRefused returns the refused requests of the tenant that match a filter, read in pages of a size.
func (e *env) allRefused(t tb, f atrium.RefusedRequestFilter, size int) (all []atrium.RefusedRequest) {
	t.Helper()
	var after *atrium.Position
	for {
		some, more, err := e.RefusedRequests(t.Context(), e.tenant, f, after, size)
		if err != nil || more && len(some) == 0 {
			t.Fatalf("list refused requests: %d, %v, %v", len(some), more, err)
		}
		all = append(all, some...)
		if !more {
			return all
		}
		last := some[len(some)-1]
		after = atrium.PositionAt(last.At, last.ID)
	}
}

func refusedListed(t *testing.T, e *env) {
	other := e.node()
	var want []atrium.RefusedRequest
	for i := range 5 {
		f := e.newRefused(func(f *atrium.RefusedRequest) {
			f.Count, f.RequestID = int64(i+1), fmt.Sprint("req-", i)
			if i == 2 {
				f.KeyID, f.UserID, f.UserAgent, f.Faults = "", "user_00000000000000000000000001", "", nil
			}
		})
		node := e
		if i%2 == 1 {
			node = other
		}
		node.storeRefused(t, f)
		want = append([]atrium.RefusedRequest{f}, want...)
	}
	for _, node := range []*env{e, other} {
		for _, size := range []int{1, 2, 100} {
			if got := node.allRefused(t, atrium.RefusedRequestFilter{}, size); !reflect.DeepEqual(got, want) {
				t.Errorf("pages of %d have\n%+v, want\n%+v", size, got, want)
			}
		}
	}
	if got := e.as(e.newTenant(t)).allRefused(t, atrium.RefusedRequestFilter{}, 100); len(got) > 0 {
		t.Errorf("another tenant has %+v", got)
	}
}

func refusedFiltered(t *testing.T, e *env) {
	a := e.newRefused()
	b := e.newRefused(func(f *atrium.RefusedRequest) {
		f.Status, f.Code, f.Route, f.KeyID, f.RequestID = 404, atrium.CodeNotFound, "/v0/pages", "key_00000000000000000000000002", "req-2"
	})
	e.storeRefused(t, a, b)
	next := a.At + 1
	for name, f := range map[string]atrium.RefusedRequestFilter{
		"status": {Status: 404}, "code": {Code: atrium.CodeNotFound}, "route": {Route: "/v0/pages"}, "key": {KeyID: b.KeyID},
		"request": {RequestID: "req-2"}, "since": {Since: &next},
		"all": {Status: 404, Code: atrium.CodeNotFound, Route: "/v0/pages", KeyID: b.KeyID, RequestID: "req-2", Since: &b.At},
	} {
		if got := e.allRefused(t, f, 100); !reflect.DeepEqual(got, []atrium.RefusedRequest{b}) {
			t.Errorf("%s: %+v, want %+v", name, got, b)
		}
	}
	person := e.newRefused(func(f *atrium.RefusedRequest) { f.KeyID, f.UserID = "", "user_00000000000000000000000001" })
	receiver := e.newRefused(func(f *atrium.RefusedRequest) { f.KeyID = "" })
	e.storeRefused(t, person, receiver)
	for sender, want := range map[atrium.Sender][]atrium.RefusedRequest{
		atrium.SentByPeople: {person}, atrium.SentByPrograms: {receiver, b, a}, "": {receiver, person, b, a},
	} {
		if got := e.allRefused(t, atrium.RefusedRequestFilter{SentBy: sender}, 2); !reflect.DeepEqual(got, want) {
			t.Errorf("sent by %q are %+v, want %+v", sender, got, want)
		}
	}
	if got := e.allRefused(t, atrium.RefusedRequestFilter{Until: &b.At}, 100); !reflect.DeepEqual(got, []atrium.RefusedRequest{a}) {
		t.Errorf("until: %+v, want %+v", got, a)
	}
	if got := e.allRefused(t, atrium.RefusedRequestFilter{Status: 404, Code: atrium.CodeInvalidRequest}, 100); len(got) > 0 {
		t.Errorf("fields that contradict each other select %+v", got)
	}
}

func refusedBounded(t *testing.T, e *env) {
	const batches, perBatch = 12, 100
	quiet := e.as(e.newTenant(t))
	first := quiet.newRefused()
	quiet.storeRefused(t, first)
	var newest []atrium.RefusedRequest
	for range batches {
		var some []atrium.RefusedRequest
		for range perBatch {
			some = append(some, e.newRefused())
		}
		e.storeRefused(t, append(some, quiet.newRefused())...)
		newest = append(newest, some...)
	}
	got := e.allRefused(t, atrium.RefusedRequestFilter{}, 100)
	if len(got) != atrium.MaxRefusedRequests {
		t.Errorf("%d are stored, want %d", len(got), atrium.MaxRefusedRequests)
	}
	for i := range got {
		if want := newest[len(newest)-1-i]; got[i].ID != want.ID {
			t.Fatalf("number %d is %s, want %s", i, got[i].ID, want.ID)
		}
	}
	if got := quiet.allRefused(t, atrium.RefusedRequestFilter{}, 100); len(got) != 1+batches || got[batches].ID != first.ID {
		t.Errorf("another tenant has %d, want %d", len(got), 1+batches)
	}
}

func refusedAgain(t *testing.T, e *env) {
	a, b := e.newRefused(), e.newRefused()
	e.storeRefused(t, a)
	e.storeRefused(t, a, b)
	if got := e.allRefused(t, atrium.RefusedRequestFilter{}, 100); !reflect.DeepEqual(got, []atrium.RefusedRequest{b, a}) {
		t.Errorf("stored %+v", got)
	}
}

func refusedWithoutTenant(t *testing.T, e *env) {
	gone := e.as(e.newTenant(t))
	if _, err := e.DeleteTenant(t.Context(), e.operators(), gone.tenant, accept); err != nil {
		t.Fatal(err)
	}
	missing := e.as(atrium.NewID[atrium.TenantID]())
	e.storeRefused(t, gone.newRefused(), missing.newRefused(), e.newRefused())
	for name, c := range map[string]struct {
		e    *env
		want int
	}{"a tenant that is being deleted": {gone, 0}, "no tenant": {missing, 0}, "another tenant": {e, 1}} {
		if got := c.e.allRefused(t, atrium.RefusedRequestFilter{}, 100); len(got) != c.want {
			t.Errorf("%s has %d, want %d", name, len(got), c.want)
		}
	}
}

func refusedCounted(t *testing.T, e *env) {
	count := func(since atrium.Time) atrium.RefusedRequestCounts {
		t.Helper()
		counts, err := e.CountRefusedRequests(t.Context(), e.tenant, "", since)
		if err != nil {
			t.Fatal(err)
		}
		return counts
	}
	begin := e.clock.instant()
	if got := count(begin); got.Since != begin || len(got.Codes) > 0 {
		t.Errorf("nothing was refused: %+v", got)
	}
	notFound := func(f *atrium.RefusedRequest) { f.Status, f.Code, f.Count = 404, atrium.CodeNotFound, 40 }
	e.storeRefused(t, e.newRefused(), e.newRefused(notFound), e.newRefused(), e.newRefused(notFound))
	want := atrium.RefusedRequestCounts{Since: begin, Codes: []atrium.RefusedRequestCount{{Code: atrium.CodeNotFound, Count: 80}, {Code: atrium.CodeInvalidRequest, Count: 2}}}
	if got := count(begin); !reflect.DeepEqual(got, want) {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	person := e.newRefused(func(f *atrium.RefusedRequest) { f.KeyID, f.UserID, f.Count = "", "user_00000000000000000000000001", 3 })
	e.storeRefused(t, person)
	of := func(notFound, invalid int64) (counts []atrium.RefusedRequestCount) {
		if notFound > 0 {
			counts = append(counts, atrium.RefusedRequestCount{Code: atrium.CodeNotFound, Count: notFound})
		}
		return append(counts, atrium.RefusedRequestCount{Code: atrium.CodeInvalidRequest, Count: invalid})
	}
	for sender, want := range map[atrium.Sender][]atrium.RefusedRequestCount{
		atrium.SentByPeople: of(0, 3), atrium.SentByPrograms: of(80, 2), "": of(80, 5),
	} {
		counts, err := e.CountRefusedRequests(t.Context(), e.tenant, sender, begin)
		if err != nil || counts.Since != begin || !reflect.DeepEqual(counts.Codes, want) {
			t.Errorf("sent by %q: %+v, %v", sender, counts, err)
		}
	}
	e.storeRefused(t, e.newRefused(notFound))
	last := e.clock.instant()
	want = atrium.RefusedRequestCounts{Since: last, Codes: []atrium.RefusedRequestCount{{Code: atrium.CodeNotFound, Count: 40}}}
	if got := count(last); !reflect.DeepEqual(got, want) {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	var many []atrium.RefusedRequest
	for range atrium.MaxRefusedRequests {
		many = append(many, e.newRefused())
	}
	e.storeRefused(t, many...)
	want = atrium.RefusedRequestCounts{Since: many[0].At, Codes: []atrium.RefusedRequestCount{{Code: atrium.CodeInvalidRequest, Count: atrium.MaxRefusedRequests}}}
	if got := count(begin); !reflect.DeepEqual(got, want) {
		t.Errorf("older ones were deleted, and counted are %+v, want %+v", got, want)
	}
}

func refusedExpire(t *testing.T, e *env) {
	old, young := e.newRefused(), e.newRefused()
	e.storeRefused(t, old, young)
	e.clock.step(atrium.RefusedRequestLife - time.Second/2)
	e.expire(t)
	if got := e.allRefused(t, atrium.RefusedRequestFilter{}, 100); !reflect.DeepEqual(got, []atrium.RefusedRequest{young}) {
		t.Errorf("left are %+v, want %+v", got, young)
	}
}
