package ingest

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"atrium"
)

// The queue is compared with a simple model: the waiting drafts of each tenant, and the order of
// the tenants.
func TestTheQueueServesTenantsRoundRobinAndEachInFIFOOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue()
		waiting := map[atrium.TenantID][]*waiter{}
		var order []atrium.TenantID // tenants with waiting drafts
		arrived := 0
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			tenant := atrium.TenantID(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant"))
			switch rapid.SampledFrom([]string{"push", "push", "push", "take", "drop"}).Draw(t, "step") {
			case "push":
				arrived++
				w := &waiter{draft: &atrium.Draft{TenantID: tenant, Submission: atrium.Submission{
					Source: strconv.Itoa(arrived), Payload: make([]byte, rapid.SampledFrom([]int{0, 100, 5000}).Draw(t, "payload")),
				}}}
				q.push(w)
				if len(waiting[tenant]) == 0 {
					order = append(order, tenant)
				}
				waiting[tenant] = append(waiting[tenant], w)
			case "take":
				entries, bytes := rapid.IntRange(1, 6).Draw(t, "entries"), rapid.IntRange(1, 12_000).Draw(t, "bytes")
				oneTenant := rapid.Bool().Draw(t, "of one tenant")
				var want []*waiter
				size := 0
				for len(order) > 0 && len(want) < entries {
					next := order[0]
					if oneTenant && len(want) > 0 {
						next = want[0].draft.TenantID
					}
					if len(waiting[next]) == 0 {
						break
					}
					w := waiting[next][0]
					if size += w.draft.Size(); size > bytes && len(want) > 0 {
						break
					}
					want = append(want, w)
					waiting[next] = waiting[next][1:]
					order = slices.DeleteFunc(order, func(t atrium.TenantID) bool { return t == next })
					if len(waiting[next]) > 0 {
						order = append(order, next)
					}
				}
				if got := q.take(&q.normal, entries, bytes, oneTenant); !slices.Equal(got, want) {
					t.Fatalf("took %s, want %s", sources(got), sources(want))
				}
			case "drop":
				m := rapid.SampledFrom([]measure{byEntries, byBytes}).Draw(t, "measure")
				newest := &waiter{draft: &atrium.Draft{TenantID: tenant, Submission: atrium.Submission{
					Payload: make([]byte, rapid.SampledFrom([]int{0, 5000}).Draw(t, "payload of the new one")),
				}}}
				size := func(of []*waiter) (sum int) {
					for _, w := range of {
						sum += m.ofOne(w)
					}
					return sum
				}
				own := size(append(slices.Clone(waiting[tenant]), newest))
				dropped := q.dropFor(newest, m)
				var from atrium.TenantID
				if dropped != nil {
					from = dropped.draft.TenantID
				}
				for other, line := range waiting {
					switch {
					case len(line) < 2:
					case dropped == nil && m == byEntries && size(line[:len(line)-1]) >= own:
						t.Fatalf("%s uses %d and %s would use %d, but nothing was dropped", other, size(line), tenant, own)
					case dropped != nil && size(line) > size(waiting[from]):
						t.Fatalf("dropped from %s, but %s uses more", from, other)
					}
				}
				if dropped == nil {
					break
				}
				line := waiting[from]
				waiting[from] = line[:len(line)-1]
				if line[len(line)-1] != dropped || size(waiting[from]) < own || from == tenant {
					t.Fatalf("dropped %s of %s for %s, waiting: %s", dropped.draft.Source, from, tenant, sources(line))
				}
			}
			entries, bytes := 0, 0
			for _, line := range waiting {
				for _, w := range line {
					entries, bytes = entries+1, bytes+w.draft.Size()
				}
			}
			if q.entries != entries || q.bytes != bytes {
				t.Fatalf("the queue counts %d of %d bytes, want %d of %d", q.entries, q.bytes, entries, bytes)
			}
		}
	})
}

func sources(line []*waiter) (all []string) {
	for _, w := range line {
		all = append(all, w.draft.Source)
	}
	return all
}

// Otherwise, tenants with long queues would take the rows of a commit from the same others again
// and again.
func TestTenantsOfReturnedEntriesAreServedNext(t *testing.T) {
	q := newQueue()
	push := func(tenant atrium.TenantID, source string) {
		q.push(&waiter{draft: &atrium.Draft{TenantID: tenant, Submission: atrium.Submission{Source: source}}})
	}
	for _, source := range []string{"a1", "a2", "b1", "c1", "a3", "c2"} {
		push(atrium.TenantID(source[:1]), source)
	}
	want := func(got []*waiter, want string) {
		t.Helper()
		if fmt.Sprint(sources(got)) != want {
			t.Errorf("took %s, want %s", sources(got), want)
		}
	}
	batch := q.take(&q.normal, 5, 1<<20, false)
	want(batch, "[a1 b1 c1 a2 c2]")
	push("d", "d1")
	push("b", "b2")
	q.pushFront(batch[1:])
	want(q.take(&q.normal, 9, 1<<20, false), "[b1 c1 a2 d1 b2 c2 a3]")
}

func TestTenantsWithFewEntriesDoNotWaitForLongCommitsOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		push := func(tenant atrium.TenantID, n int) {
			for range n {
				q.push(&waiter{draft: &atrium.Draft{TenantID: tenant}})
			}
		}
		want := func(oneTenant bool, want int, why string) {
			t.Helper()
			if got := len(q.take(&q.normal, 256, 1<<20, oneTenant)); got != want {
				t.Errorf("%s: took %d, want %d", why, got, want)
			}
		}
		push("a", 1000)
		want(false, 256, "one tenant alone")
		push("b", 1)
		want(false, maxPerTenant+1, "with another tenant")
		want(false, maxPerTenant, "after another tenant")
		want(true, maxPerTenant, "after another tenant, in a commit of one tenant")
		time.Sleep(sharedDuration)
		want(true, 256, "alone again")
		push("b", 100)
		want(false, 2*maxPerTenant, "with another tenant that has many")
	})
}
