package auth_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/auth"
)

// guesses returns generators of guessed keys, by what is wrong with them. right is well-formed and
// exists.
func guesses(right string) map[string]func() string {
	return map[string]func() string{
		"wrong secret": func() string { // of an existing identifier
			_, other, _ := auth.NewKey()
			return withSecretOf(right, other)
		},
		"unknown id": func() string {
			_, unknown, _ := auth.NewKey()
			return unknown
		},
	}
}

func TestAWrongSecretAndAnUnknownIdentifierCostTheSame(t *testing.T) {
	at(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		rotated, id := r.add(nil)
		plain, _ := r.add(nil)
		now := atrium.At(time.Now())
		revoked, _ := r.add(func(k *atrium.APIKey) { k.RevokedAt = &now })
		_, hash := auth.NewSecret(id)
		r.change(id, func(s *stored) { s.previous = hash })
		for _, right := range []string{plain, rotated, revoked} {
			for name, guess := range guesses(right) {
				for range 10 {
					queries, compared := r.count(), auth.Compared()
					if c := code(a, guess()); c != atrium.CodeUnauthenticated {
						t.Errorf("a key with a %s is %s", name, c)
					}
					if queries, compared = r.count()-queries, auth.Compared()-compared; queries != 1 || compared != 2 {
						t.Errorf("a key with a %s took %d queries and %d comparisons, want 1 and 2", name, queries, compared)
					}
				}
			}
		}
	})
}

func TestAMalformedKeyReachesNeitherTheStoreNorTheCache(t *testing.T) {
	at(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		good, _ := r.add(nil)
		compared := auth.Compared()
		for _, key := range []string{
			"", " ", good + " ", " " + good, good + good, good[:len(good)-1],
			strings.ToLower(good), strings.ToUpper(good), strings.Replace(good, "_", "-", 1),
			good[:40] + "\x00" + good[41:], good[:40] + "é" + good[42:],
			strings.Repeat("a", len(good)), strings.Repeat("\xff", len(good)), strings.Repeat("a", 1<<20),
			"atr_" + strings.Repeat("0", len(good)-4), "Bearer " + good, "'; DROP TABLE keys; --", "%00", "*",
		} {
			if c := code(a, key); c != atrium.CodeUnauthenticated {
				t.Errorf("%.80q is %s", key, c)
			}
		}
		if n := r.count(); n != 0 || a.Cached() != 0 || auth.Compared() != compared {
			t.Errorf("%d queries of the store, %d results cached, %d secrets compared",
				n, a.Cached(), auth.Compared()-compared)
		}
	})
}

// quick is a keyStore without latency.
type quick struct{ *keyStore }

func (q quick) Key(_ context.Context, id atrium.KeyID) (atrium.APIKey, []byte, []byte, error) {
	s, ok := q.keys[id]
	if !ok {
		return atrium.APIKey{}, nil, nil, atrium.NotFound()
	}
	return s.key, s.current, s.previous, nil
}

// BenchmarkGuess measures each kind of guess without the latency of storage. The network must hide
// the difference between the first two.
func BenchmarkGuess(b *testing.B) {
	r := quick{newKeyStore()}
	right, _ := r.add(nil)
	kinds := guesses(right)
	kinds["malformed"] = func() string { return swap(right, len(right)-1) }
	for _, name := range []string{"wrong secret", "unknown id", "malformed"} {
		b.Run(name, func(b *testing.B) {
			a := auth.New(r, time.Now, nil, nil)
			keys := make([]string, b.N)
			for i := range keys {
				keys[i] = kinds[name]()
			}
			b.ResetTimer()
			for _, key := range keys {
				if c := code(a, key); c != atrium.CodeUnauthenticated {
					b.Fatal(c)
				}
			}
		})
	}
}
