package auth_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/auth"
)

// guesses are keys of somebody who has none, by what is wrong with them. right is
// well-formed and somebody's.
func guesses(right string) map[string]func() string {
	return map[string]func() string{
		"wrong secret": func() string { // of an identifier that there is
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
	at(t, func(t *testing.T, r *ring, a *auth.Authenticator) {
		rotated, id := r.add(nil)
		plain, _ := r.add(nil)
		now := atrium.At(time.Now())
		revoked, _ := r.add(func(k *atrium.APIKey) { k.RevokedAt = &now })
		_, hash := auth.NewSecret(id)
		r.change(id, func(s *stored) { s.previous = hash })
		for _, right := range []string{plain, rotated, revoked} {
			for name, guess := range guesses(right) {
				for range 10 {
					asked, compared := r.count(), auth.Compared()
					if c := code(a, guess()); c != atrium.CodeUnauthenticated {
						t.Errorf("a key with a %s is %s", name, c)
					}
					if asked, compared = r.count()-asked, auth.Compared()-compared; asked != 1 || compared != 2 {
						t.Errorf("a key with a %s took %d questions and %d comparisons, want 1 and 2", name, asked, compared)
					}
				}
			}
		}
	})
}

func TestAMalformedKeyNeverReachesStorageOrTheCache(t *testing.T) {
	at(t, func(t *testing.T, r *ring, a *auth.Authenticator) {
		good, _ := r.add(nil)
		compared := auth.Compared()
		for _, key := range []string{
			"", " ", good + " ", " " + good, good + good, good[:len(good)-1], strings.ToLower(good), strings.ToUpper(good), strings.Replace(good, "_", "-", 1),
			good[:40] + "\x00" + good[41:], good[:40] + "é" + good[42:], strings.Repeat("a", len(good)), strings.Repeat("\xff", len(good)), strings.Repeat("a", 1<<20),
			"atr_" + strings.Repeat("0", len(good)-4), "Bearer " + good, "'; DROP TABLE keys; --", "%00", "*",
		} {
			if c := code(a, key); c != atrium.CodeUnauthenticated {
				t.Errorf("%.80q is %s", key, c)
			}
		}
		if n := r.count(); n != 0 || a.Cached() != 0 || auth.Compared() != compared {
			t.Errorf("the store was asked %d times, %d verdicts are cached, %d secrets were compared", n, a.Cached(), auth.Compared()-compared)
		}
	})
}

// quick is a ring that takes no time.
type quick struct{ *ring }

func (q quick) Key(_ context.Context, id atrium.KeyID) (atrium.APIKey, []byte, []byte, error) {
	s, ok := q.keys[id]
	if !ok {
		return atrium.APIKey{}, nil, nil, atrium.NotFound()
	}
	return s.key, s.current, s.previous, nil
}

// BenchmarkGuess prints how long each kind of guess takes when storage takes no time.
// What the first two differ by, the network must hide.
func BenchmarkGuess(b *testing.B) {
	r := quick{newRing()}
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
