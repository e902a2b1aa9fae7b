package soak

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"atrium"
)

// newSampleLedger returns a ledger with five acknowledged entries, and matching stored entries.
func newSampleLedger(t *testing.T) (l *ledger, of *tenant, stored []*atrium.Entry) {
	t.Helper()
	l, of = newLedger(), &tenant{id: atrium.NewID[atrium.TenantID](), mark: markPrefix + "0123456789ab"}
	account := atrium.NewID[atrium.AccountID]()
	for n := range 5 {
		payload := fmt.Appendf(nil, `{"marker":"%s-%d"}`, of.mark, n)
		p := &posting{
			tenant: of, marker: markerOf(payload), digest: sha256.Sum256(payload),
			source: "soak", kind: "webhook", key: fmt.Sprint("key-", n), account: account,
		}
		e := &atrium.Entry{
			ID: atrium.NewID[atrium.EntryID](), TenantID: of.id, AccountID: account, CreatedAt: atrium.At(time.Now()),
			Submission: atrium.Submission{Source: p.source, Type: p.kind, Payload: payload, IdempotencyKey: p.key},
		}
		l.sending(p)
		if err := l.acknowledged(p, encode(receipt{account, e.ID, e.CreatedAt.String(), e.Source, e.Type}), false); err != nil {
			t.Fatal(err)
		}
		stored = append(stored, e)
	}
	return l, of, stored
}

func examine(l *ledger, of *tenant, stored []*atrium.Entry) *verdict {
	v := &verdict{}
	a := l.auditor(of, v)
	for _, e := range stored {
		_ = a.examine(e)
	}
	a.finish()
	return v
}

func TestAuditFindsLostDuplicatedAndAlteredEntries(t *testing.T) {
	first := func(l *ledger) *posting {
		for _, p := range l.postings {
			if strings.HasSuffix(p.marker, "-0") {
				return p
			}
		}
		return nil
	}
	for _, c := range []struct {
		name                 string
		spoil                func(l *ledger, stored []*atrium.Entry) []*atrium.Entry
		lost, doubled, wrong int
	}{
		{"nothing", func(_ *ledger, s []*atrium.Entry) []*atrium.Entry { return s }, 0, 0, 0},
		{"one is lost", func(_ *ledger, s []*atrium.Entry) []*atrium.Entry { return s[1:] }, 1, 0, 0},
		{"one is doubled", func(_ *ledger, s []*atrium.Entry) []*atrium.Entry { return append(s, s[0]) }, 0, 1, 0},
		{"a payload is altered", func(_ *ledger, s []*atrium.Entry) []*atrium.Entry {
			s[0].Payload = []byte(strings.Replace(string(s[0].Payload), "}", " }", 1))
			return s
		}, 0, 0, 1},
		{"a type is altered", func(_ *ledger, s []*atrium.Entry) []*atrium.Entry { s[0].Type = "other"; return s }, 0, 0, 1},
		{"an identifier is not the acknowledged one", func(_ *ledger, s []*atrium.Entry) []*atrium.Entry {
			s[0].ID = atrium.NewID[atrium.EntryID]()
			return s
		}, 0, 0, 1},
		{"one went to another account", func(_ *ledger, s []*atrium.Entry) []*atrium.Entry {
			s[0].AcknowledgedID, s[0].AccountID = s[0].AccountID, atrium.NewID[atrium.AccountID]()
			return s
		}, 0, 0, 1},
		{"nobody sent one", func(_ *ledger, s []*atrium.Entry) []*atrium.Entry {
			e := *s[0]
			e.Payload = []byte(`{"marker":"nobody"}`)
			return append(s, &e)
		}, 0, 0, 1},
		{"a refused one is there", func(l *ledger, s []*atrium.Entry) []*atrium.Entry {
			first(l).receipt = receipt{}
			return s
		}, 0, 0, 1},
		{"one without a response is there", func(l *ledger, s []*atrium.Entry) []*atrium.Entry {
			first(l).receipt, first(l).unsure = receipt{}, true
			return s
		}, 0, 0, 0},
		{"an erased one is there", func(l *ledger, s []*atrium.Entry) []*atrium.Entry {
			l.rehomed([]*posting{first(l)}, "", erased)
			return s
		}, 0, 0, 1},
		{"an erased one is gone", func(l *ledger, s []*atrium.Entry) []*atrium.Entry {
			l.rehomed([]*posting{first(l)}, "", erased)
			return s[1:]
		}, 0, 0, 0},
		{"two responses were the first", func(l *ledger, s []*atrium.Entry) []*atrium.Entry { first(l).fresh = 2; return s }, 0, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, of, stored := newSampleLedger(t)
			v := examine(l, of, c.spoil(l, stored))
			if v.lost != c.lost || v.doubled != c.doubled || v.wrong != c.wrong {
				t.Errorf("lost %d, duplicated %d, wrong %d; want %d, %d, %d: %q", v.lost, v.doubled, v.wrong, c.lost, c.doubled, c.wrong, v.faults)
			}
		})
	}
}

func TestInconsistentReplayIsAFault(t *testing.T) {
	l, _, stored := newSampleLedger(t)
	p := l.postings[markerOf(stored[0].Payload)]
	other := p.receipt
	other.CreatedAt = "2026-01-01T00:00:00.000Z"
	if err := l.acknowledged(p, encode(other), true); err == nil {
		t.Error("it was accepted")
	}
}

func TestLostChangeIsFound(t *testing.T) {
	f := &fact{path: "/pages/page_1", want: map[string]any{"name": "new", "deletedAt": anyValue}}
	for body, right := range map[string]bool{
		`{"name":"new","deletedAt":"2026-01-01T00:00:00.000Z"}`: true,
		`{"name":"old","deletedAt":"2026-01-01T00:00:00.000Z"}`: false,
		`{"name":"new","deletedAt":null}`:                       false,
		`{"name":"new"}`:                                        false,
	} {
		if got := f.differs(response{status: http.StatusOK, body: []byte(body)}) == ""; got != right {
			t.Errorf("%s is right: %t", body, got)
		}
	}
	if f.differs(response{status: http.StatusNotFound}) == "" {
		t.Error("it is not missed")
	}
	f.want = nil
	if f.differs(response{status: http.StatusOK, body: []byte("{}")}) == "" {
		t.Error("what was removed may be there")
	}
}

// A 5xx is allowed only during a fault, and only with Retry-After.
func TestFailuresAreAllowedOnlyDuringFaults(t *testing.T) {
	fair := response{status: 503, header: http.Header{"Retry-After": {"1"}}, body: []byte(`{"code":"unavailable"}`)}
	bare, broken, gateway := fair, fair, fair
	bare.header, broken.status, gateway.status = http.Header{}, 500, 502
	for _, c := range []struct {
		name  string
		a     response
		quiet bool
		want  int
	}{
		{"503 with a fault", fair, false, 0},
		{"503 in a quiet phase", fair, true, 1},
		{"503 without Retry-After", bare, false, 1},
		{"500 with a fault", broken, false, 1},
		{"502 of a node", gateway, false, 1},
	} {
		s := &soak{tally: newTally()}
		s.judgeRefusal(call{}, c.a, c.quiet)
		if s.tally.unexpected != c.want {
			t.Errorf("%s: %d unexpected, want %d", c.name, s.tally.unexpected, c.want)
		}
	}
}

func TestFaultDuringARequestExcusesItsFailure(t *testing.T) {
	var w phases
	before := w.now()
	if !w.quietSince(before) {
		t.Error("not quiet without a fault")
	}
	over := w.beginFault()
	within := w.now()
	if w.quietSince(before) || w.quietSince(within) {
		t.Error("quiet with a fault")
	}
	over()
	if w.quietSince(before) || w.quietSince(within) {
		t.Error("quiet though there was a fault")
	}
	if !w.quietSince(w.now()) {
		t.Error("not quiet after a fault")
	}
}

func TestForeignMarkIsDetected(t *testing.T) {
	one := &tenant{id: atrium.NewID[atrium.TenantID](), mark: markPrefix + "000000000001"}
	other := &tenant{id: atrium.NewID[atrium.TenantID](), mark: markPrefix + "000000000002"}
	s := &soak{tenants: []*tenant{one, other}}
	for body, found := range map[string]string{
		`{"name":"` + one.mark + ` brand"}`:                               "",
		`{"a":"` + one.mark + `","b":"` + other.mark + `-poster0-1"}`:     other.mark,
		`{"tenantId":"` + string(other.id) + `"}`:                         string(other.id),
		`{"tenantId":"` + string(one.id) + `","x":"` + markPrefix + `000`: "",
	} {
		if got := s.foreignMark([]byte(body), one); got != found {
			t.Errorf("in %s: %q, want %q", body, got, found)
		}
	}
}

func TestGrowthIsDetectedDespiteNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	steady, leaking, late := newGrowth(), newGrowth(), newGrowth()
	for n := range int64(30) {
		noise := size{10 + rng.Int64N(30), 20 + rng.Int64N(30), 5<<20 + rng.Int64N(10<<20), 60<<20 + rng.Int64N(50<<20), 1 << 30}
		steady.add("a", noise)
		leaking.add("a", size{Goroutines: 10 + 5*n, Files: 10 + 3*n, Heap: n << 20, Anonymous: n << 22})
		late.add("a", size{Goroutines: 10 + 20*max(n-15, 0)})
	}
	if faults := steady.judge(growthLimits); len(faults) > 0 {
		t.Errorf("noise: %q", faults)
	}
	if faults := leaking.judge(growthLimits); len(faults) != 4 {
		t.Errorf("a leak of all: %q", faults)
	}
	if faults := late.judge(growthLimits); len(faults) != 1 {
		t.Errorf("a leak of goroutines: %q", faults)
	}
}

func TestTimingDifferencesAreDetected(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	times := func(shift float64) (all []float64) {
		for range 400 {
			all = append(all, shift+rng.ExpFloat64())
		}
		return all
	}
	if share, z := mannWhitney(times(0), times(0)); math.Abs(z) > 4 || math.Abs(share-0.5) > 0.1 {
		t.Errorf("of the same: %g, %g", share, z)
	}
	if share, z := mannWhitney(times(0.5), times(0)); z < 5 || share < 0.6 {
		t.Errorf("of a longer one: %g, %g", share, z)
	}
	// 3 of 4 pairs, and one tie: (1+1+1+0.5)/4.
	if share, _ := mannWhitney([]float64{2, 3}, []float64{1, 2}); share != 0.875 {
		t.Errorf("share %g", share)
	}
}

func TestQuantilesAreWithinAStep(t *testing.T) {
	var l latencies
	for ms := 1; ms <= 1000; ms++ {
		l.add(time.Duration(ms) * time.Millisecond)
	}
	for q, want := range map[float64]time.Duration{0.5: 500 * time.Millisecond, 0.99: 990 * time.Millisecond} {
		if got := l.quantile(q); got < want*95/100 || got > want*106/100 {
			t.Errorf("quantile %g is %s, not %s", q, got, want)
		}
	}
}
