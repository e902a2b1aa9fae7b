package auth_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/auth"
)

// client is the address of the requests.
var client = netip.MustParseAddr("192.0.2.1")

// A keyStore is an in-memory store of keys that counts its queries.
type keyStore struct {
	mu      sync.Mutex
	keys    map[atrium.KeyID]stored // guarded by mu, like all fields below
	queries int
	err     error // if set, the store is unavailable
	used    map[atrium.KeyID]atrium.Time
}

type stored struct {
	key               atrium.APIKey
	current, previous []byte
}

func newKeyStore() *keyStore {
	return &keyStore{keys: map[atrium.KeyID]stored{}, used: map[atrium.KeyID]atrium.Time{}}
}

func (r *keyStore) Key(_ context.Context, id atrium.KeyID) (atrium.APIKey, []byte, []byte, error) {
	time.Sleep(time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queries++
	if r.err != nil {
		return atrium.APIKey{}, nil, nil, atrium.Unavailable(r.err)
	}
	s, ok := r.keys[id]
	if !ok {
		return atrium.APIKey{}, nil, nil, atrium.NotFound()
	}
	return s.key, s.current, s.previous, nil
}

func (r *keyStore) EachKey(_ context.Context, ids []atrium.KeyID, f func(atrium.APIKey, []byte, []byte)) error {
	time.Sleep(time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queries++
	if r.err != nil {
		return atrium.Unavailable(r.err)
	}
	for _, id := range ids {
		if s, ok := r.keys[id]; ok {
			f(s.key, s.current, s.previous)
		}
	}
	return nil
}

func (r *keyStore) UseKeys(_ context.Context, used map[atrium.KeyID]atrium.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	maps.Copy(r.used, used)
	return nil
}

func (r *keyStore) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// lastUse returns the number of keys with a stored last use, and the last use of one key.
func (r *keyStore) lastUse(id atrium.KeyID) (keys int, at atrium.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.used), r.used[id]
}

func (r *keyStore) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queries
}

// add creates a key, which change may modify.
func (r *keyStore) add(change func(*atrium.APIKey)) (text string, id atrium.KeyID) {
	id, text, hash := auth.NewKey()
	k := atrium.APIKey{ID: id, TenantID: atrium.NewID[atrium.TenantID](), Scopes: atrium.ExternalScopes()}
	if change != nil {
		change(&k)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[id] = stored{key: k, current: hash}
	return text, id
}

func (r *keyStore) change(id atrium.KeyID, f func(*stored)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.keys[id]
	f(&s)
	r.keys[id] = s
}

// at runs a test on a fake clock.
func at(t *testing.T, f func(t *testing.T, r *keyStore, a *auth.Authenticator)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newKeyStore()
		f(t, r, auth.New(r, time.Now, nil, nil))
	})
}

func code(a *auth.Authenticator, key string) atrium.Code {
	if _, err := a.Authenticate(context.Background(), client, key); err != nil {
		return atrium.CodeOf(err)
	}
	return "ok"
}

func TestAValidKeyIdentifiesItsTenantAndScopes(t *testing.T) {
	at(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		text, id := r.add(func(k *atrium.APIKey) { k.Scopes = atrium.Scopes{"pages:read"} })
		who, err := a.Authenticate(t.Context(), client, text)
		tenant := r.keys[id].key.TenantID
		if err != nil || who.KeyID != id || who.TenantID != tenant || fmt.Sprint(who.Scopes) != "pages:read" {
			t.Errorf("%+v, %v", who, err)
		}
	})
}

func TestEveryInvalidKeyGetsTheSameError(t *testing.T) {
	at(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		good, _ := r.add(nil)
		other, _ := r.add(nil)
		now := atrium.At(time.Now())
		revoked, _ := r.add(func(k *atrium.APIKey) { k.RevokedAt = &now })
		expired, _ := r.add(func(k *atrium.APIKey) { k.ExpiresAt = &now })
		_, unknown, _ := auth.NewKey()
		var first string
		for _, key := range []string{
			"", "atr_", good[1:], good + "x", strings.ToUpper(good), good[:len(good)-1] + "!", unknown, revoked, expired,
			swap(good, 40), swap(good, len(good)-1), withSecretOf(good, other),
		} {
			_, err := a.Authenticate(t.Context(), client, key)
			if atrium.CodeOf(err) != atrium.CodeUnauthenticated {
				t.Fatalf("%q: %v", key, err)
			}
			if first == "" {
				first = err.Error()
			}
			if err.Error() != first {
				t.Errorf("%q: %v, but the first error was %s", key, err, first)
			}
		}
	})
}

// swap changes one character of a key.
func swap(key string, i int) string {
	c := byte('a')
	if key[i] == c {
		c = 'b'
	}
	return key[:i] + string(c) + key[i+1:]
}

// withSecretOf returns a well-formed key with the identifier of one key and the secret of another.
func withSecretOf(id, secret string) string {
	body := id[:len("atr_")+atrium.SuffixLen+1] + secret[len("atr_")+atrium.SuffixLen+1:len(secret)-6]
	return body + auth.Checksum(body)
}

func TestATypingErrorIsDetectedWithoutTheStore(t *testing.T) {
	at(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		good, _ := r.add(nil)
		for i := range good {
			if c := code(a, swap(good, i)); c != atrium.CodeUnauthenticated {
				t.Errorf("a typing error at %d: %s", i, c)
			}
		}
		if n := r.count(); n != 0 {
			t.Errorf("%d queries of the store", n)
		}
	})
}

func TestARevokedKeyStopsWorkingWithinTheCacheTime(t *testing.T) {
	at(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		text, id := r.add(nil)
		if c := code(a, text); c != "ok" {
			t.Fatal(c)
		}
		now := atrium.At(time.Now())
		r.change(id, func(s *stored) { s.key.RevokedAt = &now })
		time.Sleep(auth.CacheTime)
		if c := code(a, text); c != atrium.CodeUnauthenticated {
			t.Errorf("after the cache time: %s", c)
		}
	})
}

func TestAForgottenKeyIsLookedUpAgain(t *testing.T) {
	at(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		text, id := r.add(nil)
		_ = code(a, text)
		now := atrium.At(time.Now())
		r.change(id, func(s *stored) { s.key.RevokedAt = &now })
		a.Forget(id)
		if c := code(a, text); c != atrium.CodeUnauthenticated {
			t.Errorf("it is %s", c)
		}
	})
}

func TestTheKeysOfAForgottenTenantAreLookedUpAgain(t *testing.T) {
	at(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		text, id := r.add(nil)
		other, _ := r.add(nil)
		_, _ = code(a, text), code(a, other)
		tenant := r.keys[id].key.TenantID
		r.mu.Lock()
		delete(r.keys, id)
		r.mu.Unlock()
		before := r.count()
		a.ForgetTenant(tenant)
		if c := code(a, text); c != atrium.CodeUnauthenticated {
			t.Errorf("it is %s", c)
		}
		if c := code(a, other); c != "ok" || r.count() != before+1 {
			t.Errorf("a key of another tenant is %s after %d queries", c, r.count()-before)
		}
	})
}

func TestAKeyThatWorkedBeforeIsNamedWithoutRights(t *testing.T) {
	at(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		now := atrium.At(time.Now())
		good, goodID := r.add(nil)
		revoked, revokedID := r.add(func(k *atrium.APIKey) { k.RevokedAt = &now })
		expired, expiredID := r.add(func(k *atrium.APIKey) { k.ExpiresAt = &now })
		_, unknown, _ := auth.NewKey()
		if c := code(a, good); c != "ok" {
			t.Fatal(c)
		}
		time.Sleep(2 * auth.CacheTime)
		r.change(goodID, func(s *stored) { s.key.RevokedAt = &now })
		for text, id := range map[string]atrium.KeyID{
			revoked: revokedID, expired: expiredID, good: goodID, unknown: "", withSecretOf(revoked, unknown): "", "": "",
		} {
			for _, cached := range []bool{false, true} {
				who, err := a.Authenticate(t.Context(), client, text)
				var want auth.Principal
				if id != "" {
					want = auth.Principal{TenantID: r.keys[id].key.TenantID, KeyID: id}
				}
				if atrium.CodeOf(err) != atrium.CodeUnauthenticated || !reflect.DeepEqual(who, want) {
					t.Errorf("cached: %t: %+v, %v; want %+v", cached, who, err, want)
				}
			}
		}
	})
}

func TestAKeyExpiresWithinTheCacheTime(t *testing.T) {
	at(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		end := atrium.At(time.Now().Add(time.Second))
		text, _ := r.add(func(k *atrium.APIKey) { k.ExpiresAt = &end })
		if c := code(a, text); c != "ok" {
			t.Fatal(c)
		}
		time.Sleep(time.Second)
		if c := code(a, text); c != atrium.CodeUnauthenticated {
			t.Errorf("at its end it is %s", c)
		}
	})
}

func TestANewKeyWorksAtOnce(t *testing.T) {
	at(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		for range 100 {
			text, _ := r.add(nil)
			if c := code(a, text); c != "ok" {
				t.Fatal(c)
			}
		}
	})
}

func TestThePreviousSecretWorksDuringItsGracePeriod(t *testing.T) {
	at(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		old, id := r.add(nil)
		_ = code(a, old)
		rotated, hash := auth.NewSecret(id)
		end := atrium.At(time.Now().Add(7 * time.Second))
		r.change(id, func(s *stored) {
			s.previous, s.current = s.current, hash
			s.key.PreviousEndsAt = &end
		})
		if c := code(a, rotated); c != "ok" {
			t.Errorf("the new secret is %s", c)
		}
		time.Sleep(6 * time.Second) // the cached result of the old secret has expired
		if c := code(a, old); c != "ok" {
			t.Errorf("within the grace the old secret is %s", c)
		}
		time.Sleep(time.Second)
		if c := code(a, old); c != atrium.CodeUnauthenticated {
			t.Errorf("after the grace the old secret is %s", c)
		}
		if c := code(a, rotated); c != "ok" {
			t.Errorf("after the grace the new secret is %s", c)
		}
	})
}

func TestUnavailableStorageDoesNotMakeAKeyInvalid(t *testing.T) {
	at(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		known, _ := r.add(nil)
		fresh, _ := r.add(nil)
		_ = code(a, known)
		r.fail(errors.New("unreachable"))
		if c := code(a, known); c != "ok" {
			t.Errorf("a cached key is %s", c)
		}
		if c := code(a, fresh); c != atrium.CodeUnavailable {
			t.Errorf("a key that is not cached is %s", c)
		}
		time.Sleep(auth.CacheTime)
		if c := code(a, known); c != atrium.CodeUnavailable {
			t.Errorf("after the cache time: %s", c)
		}
		r.fail(nil)
		if c := code(a, fresh); c != "ok" {
			t.Errorf("after storage has recovered: %s", c)
		}
	})
}

func TestConcurrentRequestsWithOneKeyShareALookup(t *testing.T) {
	at(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		text, _ := r.add(nil)
		_, bad, _ := auth.NewKey()
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() { _ = code(a, text) })
			wg.Go(func() { _ = code(a, bad) })
		}
		wg.Wait()
		_, _ = code(a, text), code(a, bad)
		if n := r.count(); n != 2 {
			t.Errorf("%d queries of the store", n)
		}
	})
}

func TestTheCacheIsBounded(t *testing.T) {
	at(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		for range auth.MaxCached + 500 {
			_, bad, _ := auth.NewKey()
			_ = code(a, bad)
		}
		if n := a.Cached(); n != auth.MaxCached {
			t.Errorf("%d results are cached", n)
		}
		good, _ := r.add(nil)
		if c := code(a, good); c != "ok" {
			t.Errorf("a valid key with a full cache: %s", c)
		}
	})
}

func TestTheLastUseIsStoredEveryMinuteAndAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newKeyStore()
		a := auth.New(r, time.Now, nil, nil)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { a.Run(ctx, slog.New(slog.DiscardHandler)); close(ended) }()
		text, id := r.add(nil)
		_, bad, _ := auth.NewKey()
		for range 1000 {
			_, _ = code(a, text), code(a, bad)
		}
		first := atrium.At(time.Now())
		if n, _ := r.lastUse(id); n != 0 {
			t.Error("a use was stored during a request")
		}
		time.Sleep(auth.UseTime + time.Second)
		if n, at := r.lastUse(id); n != 1 || at == 0 || at > first {
			t.Errorf("%d uses are stored, the last at %v; the key was used before %v", n, at, first)
		}
		_ = code(a, text)
		second := atrium.At(time.Now())
		r.fail(errors.New("unreachable")) // uses that cannot be stored are retried
		time.Sleep(auth.UseTime)
		r.fail(nil)
		stop()
		<-ended
		if _, at := r.lastUse(id); at <= first || at > second {
			t.Errorf("after Run, the stored last use is %v, want %v", at, second)
		}
	})
}

func TestAKeyHas160RandomBitsAndAChecksum(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id, text, hash := auth.NewKey()
		got, secret, ok := auth.ParseKey(text)
		if !ok || got != id || len(secret) != 27 || len(hash) != 32 || len(text) != 64 || seen[secret] {
			t.Fatalf("%q: %v, %q, %v", text, got, secret, ok)
		}
		seen[secret] = true
	}
}

func FuzzParseKey(f *testing.F) {
	_, text, _ := auth.NewKey()
	f.Add(text)
	f.Add("atr_00000000000000000000000000_000000000000000000000000000000000")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		id, secret, ok := auth.ParseKey(s)
		if !ok {
			return
		}
		body := "atr_" + strings.TrimPrefix(string(id), id.Prefix()) + "_" + secret
		if s != body+auth.Checksum(body) {
			t.Errorf("%q was parsed as %s and %s", s, id, secret)
		}
	})
}

// The system clock may be set at any time; the monotonic clock may not.
func TestSettingTheClockNeitherKeepsARevokedKeyValidNorClearsTheCache(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			r, set := newKeyStore(), time.Duration(0)
			a := auth.New(r, func() time.Time { return time.Now().Add(set).Round(0) }, nil, nil)
			text, id := r.add(nil)
			_ = code(a, text)
			set = step
			if c, n := code(a, text), r.count(); c != "ok" || n != 1 {
				t.Errorf("after a step of %s: %s, with %d queries of the store", step, c, n)
			}
			now := atrium.At(time.Now())
			r.change(id, func(s *stored) { s.key.RevokedAt = &now })
			time.Sleep(auth.CacheTime)
			if c := code(a, text); c != atrium.CodeUnauthenticated {
				t.Errorf("%s after the revocation, and after a step of %s: %s", auth.CacheTime, step, c)
			}
		})
	}
}

// BenchmarkKnownKey measures a cached key.
func BenchmarkKnownKey(b *testing.B) {
	keys := newKeyStore()
	id, key, hash := auth.NewKey()
	keys.keys[id] = stored{key: atrium.APIKey{ID: id, TenantID: "tenant_1"}, current: hash}
	a := auth.New(keys, time.Now, nil, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Authenticate(b.Context(), client, key); err != nil {
			b.Fatal(err)
		}
	}
}
