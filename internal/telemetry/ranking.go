package telemetry

import (
	"cmp"
	"slices"
	"strings"
)

// otherKey is the label of the series that counts all remaining keys.
const otherKey = "other"

// maxCandidates is the number of unnamed keys whose events are estimated. A key with more than
// 1/maxCandidates of the events of unnamed keys is always a candidate.
const maxCandidates = 16

// decay is the factor by which an election reduces the weight of earlier events: with one election in
// an hour, events count half after 23 hours.
const decay = 0.97

// A ranking counts events by key, for a bounded number of named keys, and the events of all other keys
// together. The first keys are named. A named key keeps its name until an election in which another
// key has had more than twice as many events recently: keys of similar activity never take turns.
// Other keys are estimated in constant memory (the Space-Saving algorithm of Metwally, Agrawal and
// El Abbadi). A ranking is not safe for concurrent use.
type ranking struct {
	size       int // maximum number of named keys
	named      map[string]*tally
	others     uint64 // events of keys without a name
	candidates []candidate
}

// A tally counts the events of a named key.
type tally struct {
	total  uint64   // since the key was named
	recent float64  // weighted by age
	parts  *ranking // of the events of this key; nil for none
}

// A candidate is a key without a name.
type candidate struct {
	key     string
	recent  float64 // weighted by age; at most surplus too high
	surplus float64
}

func newRanking(size int) *ranking {
	return &ranking{size: size, named: map[string]*tally{}}
}

// add counts an event of a key. It returns the tally of the key, or nil if the key has no name.
func (r *ranking) add(key string) *tally {
	t := r.named[key]
	switch {
	case t != nil:
	case key == otherKey: // would be the name of two series
		r.others++
		return nil
	case len(r.named) < r.size:
		t = r.name(key, 0)
	default:
		r.others++
		r.estimate(key)
		return nil
	}
	t.total++
	t.recent++
	return t
}

// name gives a key a name. The key is copied: it can be part of a large request.
func (r *ranking) name(key string, recent float64) *tally {
	t := &tally{recent: recent}
	r.named[strings.Clone(key)] = t
	return t
}

// estimate counts an event of a key without a name. A new key takes the place of the candidate with the
// fewest events, and may have had as many before.
func (r *ranking) estimate(key string) {
	least := 0
	for i := range r.candidates {
		if r.candidates[i].key == key {
			r.candidates[i].recent++
			return
		}
		if r.candidates[i].recent < r.candidates[least].recent {
			least = i
		}
	}
	if len(r.candidates) < maxCandidates {
		r.candidates = append(r.candidates, candidate{key: strings.Clone(key), recent: 1})
		return
	}
	replaced := r.candidates[least].recent
	r.candidates[least] = candidate{key: strings.Clone(key), recent: replaced + 1, surplus: replaced}
}

// elect names the candidates that certainly had more than twice as many events recently as the named
// key with the fewest, which loses its name.
func (r *ranking) elect() {
	certain := func(c candidate) float64 { return c.recent - c.surplus }
	slices.SortFunc(r.candidates, func(a, b candidate) int { return cmp.Compare(certain(b), certain(a)) })
	for len(r.candidates) > 0 {
		weakest := ""
		for key, t := range r.named {
			if weakest == "" || t.recent < r.named[weakest].recent {
				weakest = key
			}
		}
		first := r.candidates[0]
		if weakest == "" || certain(first) <= 2*r.named[weakest].recent {
			break
		}
		delete(r.named, weakest)
		r.name(first.key, certain(first))
		r.candidates = slices.Delete(r.candidates, 0, 1)
	}
	for _, t := range r.named {
		t.recent *= decay
		if t.parts != nil {
			t.parts.elect()
		}
	}
	for i := range r.candidates {
		r.candidates[i].recent *= decay
		r.candidates[i].surplus *= decay
	}
}
