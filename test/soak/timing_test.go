package soak

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"time"

	"atrium"
	"atrium/internal/auth"
)

const (
	pooledKeys   = 40              // used so rarely that no cache has them
	forgotten    = 6 * time.Second // key lookups are cached for 5 s
	maxTimings   = 20_000
	timingRounds = 60 // at most per quiet phase
)

// The measured requests: rejected keys, which must not reveal the reason, and unknown
// identifiers, which must not reveal other tenants' data.
const (
	validCached  = "valid key, cached"
	validFresh   = "valid key, not cached"
	unknownID    = "unknown key"
	wrongSecret  = "wrong secret"
	malformed    = "malformed key"
	foreignThing = "another tenant's identifier"
	absentThing  = "absent identifier"
)

// pairs are requests whose timing must not be distinguishable.
var pairs = [][2]string{{unknownID, wrongSecret}, {foreignThing, absentThing}, {validFresh, wrongSecret}}

// A timing has response times in seconds.
type timing struct {
	pool  []pooledKey
	taken map[string][]float64
}

type pooledKey struct {
	text string
	used time.Time
}

func newTiming() *timing { return &timing{taken: map[string][]float64{}} }

// measure times requests to the first node in random order, until end at the latest.
func (t *timing) measure(s *soak, end time.Time) {
	client := &http.Client{Transport: &http.Transport{}, Timeout: hang}
	defer client.CloseIdleConnections()
	own, other := s.tenants[0], s.tenants[1]
	foreign := s.ledger.accountOf(other, func(int) int { return 0 })
	if foreign == "" {
		return
	}
	shuffled := []string{validCached, validFresh, unknownID, wrongSecret, malformed, foreignThing, absentThing}
	for range timingRounds {
		s.mu.Lock()
		s.rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		s.mu.Unlock()
		for _, kind := range shuffled {
			if time.Now().After(end) {
				return
			}
			key, id, want := own.key, atrium.NewID[atrium.AccountID](), http.StatusNotFound
			switch kind {
			case validFresh:
				i := slices.IndexFunc(t.pool, func(k pooledKey) bool { return time.Since(k.used) > forgotten })
				if i < 0 {
					continue
				}
				t.pool[i].used = time.Now()
				key = t.pool[i].text
			case unknownID:
				_, key, _ = auth.NewKey()
				want = http.StatusUnauthorized
			case wrongSecret:
				key, _ = auth.NewSecret(own.keyID)
				want = http.StatusUnauthorized
			case malformed:
				key = key[:len(key)-1] + "!"
				want = http.StatusUnauthorized
			case foreignThing:
				id = foreign
			}
			s.timed(client, kind, key, string(id), want)
			time.Sleep(2 * time.Millisecond)
		}
	}
}

func (s *soak) timed(client *http.Client, kind, key, id string, want int) {
	r, err := http.NewRequest(http.MethodGet, "http://"+s.nodes[0].Addr+"/v0/accounts/"+id, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("x-api-key", key)
	began := time.Now()
	res, err := client.Do(r)
	if err != nil {
		s.tally.fault(&s.tally.unexpected, "%s in a quiet phase: %v", kind, err)
		return
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	took := time.Since(began)
	s.tally.answered("key lookups, timed", res.StatusCode, took, true)
	switch {
	case res.StatusCode >= 500:
		s.tally.fault(&s.tally.unexpected, "%s in a quiet phase: %s", kind, res.Status)
	case res.StatusCode != want:
		s.tally.fault(&s.tally.wrong, "%s: %s", kind, res.Status)
	case len(s.timing.taken[kind]) < maxTimings:
		s.timing.taken[kind] = append(s.timing.taken[kind], took.Seconds())
	}
}

// A spread has the quartiles of some times.
type spread struct {
	N                    int           `json:"n"`
	Lower, Median, Upper time.Duration // quartiles
}

func spreadOf(times []float64) (s spread) {
	if len(times) == 0 {
		return s
	}
	sorted := slices.Sorted(slices.Values(times))
	at := func(q float64) time.Duration {
		return time.Duration(sorted[int(q*float64(len(sorted)-1))] * float64(time.Second)).Round(time.Microsecond)
	}
	return spread{len(times), at(0.25), at(0.5), at(0.75)}
}

// mannWhitney returns how often one of a takes longer than one of b, 0.5 if they are
// alike, and how many standard deviations that is from chance (Mann and Whitney 1947, in
// the normal approximation, which needs about twenty samples of each).
func mannWhitney(a, b []float64) (share, z float64) {
	type ranked struct {
		value float64
		ofA   bool
	}
	var all []ranked
	for _, v := range a {
		all = append(all, ranked{v, true})
	}
	for _, v := range b {
		all = append(all, ranked{v, false})
	}
	slices.SortFunc(all, func(x, y ranked) int { return cmp.Compare(x.value, y.value) })
	sum := 0.0
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].value == all[i].value {
			j++
		}
		for _, r := range all[i:j] {
			if r.ofA {
				sum += float64(i+j+1) / 2 // ties share their ranks
			}
		}
		i = j
	}
	n, m := float64(len(a)), float64(len(b))
	if n == 0 || m == 0 {
		return 0.5, 0
	}
	u := sum - n*(n+1)/2
	return u / (n * m), (u - n*m/2) / math.Sqrt(n*m*(n+m+1)/12)
}

// A likeness compares the times of two kinds of responses.
type likeness struct {
	Of    string  `json:"of"`
	Share float64 `json:"share"` // fraction of pairs in which the first took longer
	Z     float64 `json:"z"`
}

func (t *timing) likenesses() (all []likeness) {
	for _, p := range pairs {
		share, z := mannWhitney(t.taken[p[0]], t.taken[p[1]])
		all = append(all, likeness{fmt.Sprintf("%s / %s", p[0], p[1]), share, z})
	}
	return all
}
