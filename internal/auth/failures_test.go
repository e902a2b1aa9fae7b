package auth_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
)

// allowed is the failure rate per minute in these tests.
const allowed = 100

// limited runs a test on a fake clock, with a failure rate.
func limited(t *testing.T, f func(t *testing.T, r *keyStore, a *auth.Authenticator)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newKeyStore()
		f(t, r, auth.New(r, time.Now, limit.NewRates[netip.Addr](allowed, time.Minute, 1000), nil))
		time.Sleep(time.Second) // until the batcher has stopped
	})
}

func codeFrom(a *auth.Authenticator, from netip.Addr, key string) atrium.Code {
	if _, err := a.Authenticate(context.Background(), from, key); err != nil {
		return atrium.CodeOf(err)
	}
	return "ok"
}

func newKey() string {
	_, text, _ := auth.NewKey()
	return text
}

// block makes a client reach its failure rate.
func block(t *testing.T, a *auth.Authenticator) {
	t.Helper()
	for range allowed {
		if c := code(a, "x"); c != atrium.CodeUnauthenticated {
			t.Fatalf("a failure within the rate is %s", c)
		}
	}
	if c := code(a, "x"); c != atrium.CodeRateLimited {
		t.Fatalf("a failure above the rate is %s", c)
	}
}

// other is another client.
var other = netip.MustParseAddr("198.51.100.1")

func TestTenThousandConcurrentInvalidKeysCauseFewQueriesAndBlockNoValidKey(t *testing.T) {
	limited(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		good, fresh := make([]string, 50), make([]string, 50)
		for i := range good {
			good[i], _ = r.add(nil)
			fresh[i], _ = r.add(nil)
		}
		var wg sync.WaitGroup
		for range 10_000 {
			wrong := newKey()
			wg.Go(func() {
				if c := code(a, wrong); c != atrium.CodeUnauthenticated {
					t.Errorf("a wrong key is %s", c)
				}
			})
		}
		synctest.Wait()
		before := r.count()
		for i := range good { // none of them is cached
			wg.Go(func() {
				if c := code(a, good[i]); c != "ok" {
					t.Errorf("a valid key from the same client is %s", c)
				}
			})
			start := time.Now()
			if c := codeFrom(a, other, fresh[i]); c != "ok" || time.Since(start) > time.Millisecond {
				t.Errorf("a valid key from another client is %s after %v", c, time.Since(start))
			}
		}
		start := time.Now()
		wg.Wait()
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("valid keys waited %v", took)
		}
		const most = allowed + 10_000/auth.MaxBatchKeys + 2
		if n := r.count() - len(fresh); n > most {
			t.Errorf("%d queries of the store (%d at first), want at most %d", n, before, most)
		}
	})
}

func TestTenThousandSequentialInvalidKeysCauseAtMostTenQueriesASecond(t *testing.T) {
	limited(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		start := time.Now()
		for range 10_000 {
			_ = code(a, newKey())
		}
		took := time.Since(start)
		most := allowed + int(took/auth.BatchPause) + int(took.Minutes()*allowed) + 2
		if n := r.count(); n > most {
			t.Errorf("%d queries of the store in %v, want at most %d", n, took, most)
		}
	})
}

func TestAClientAboveTheFailureRateIsRejectedWithoutTheStoreAndWithARetryTime(t *testing.T) {
	limited(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		known := newKey()
		_ = code(a, known)
		time.Sleep(time.Minute / allowed) // it is still cached
		block(t, a)
		before := r.count()
		for _, key := range []string{"", "x", known, swap(known, 40)} {
			_, err := a.Authenticate(t.Context(), client, key)
			e, ok := errors.AsType[*atrium.Error](err)
			if !ok || e.Code != atrium.CodeRateLimited || e.Retry <= 0 || e.Retry > time.Minute/allowed {
				t.Errorf("%q: %+v", key, err)
			}
		}
		if n := r.count(); n != before {
			t.Errorf("%d queries of the store", n-before)
		}
		if c := codeFrom(a, other, "x"); c != atrium.CodeUnauthenticated {
			t.Errorf("the failure of another client is %s", c)
		}
		time.Sleep(time.Minute / allowed)
		if c := code(a, "x"); c != atrium.CodeUnauthenticated {
			t.Errorf("a failure after the retry time: %s", c)
		}
	})
}

func TestValidKeysDoNotCountAsFailures(t *testing.T) {
	limited(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		for range 10 * allowed {
			text, _ := r.add(nil)
			if c := code(a, text); c != "ok" {
				t.Fatal(c)
			}
		}
		block(t, a) // fails if the rate was already used
	})
}

func TestAProvenKeyIsLookedUpAtOnceDespiteFailuresOfItsClient(t *testing.T) {
	limited(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		text, id := r.add(nil)
		_ = code(a, text)
		block(t, a)
		for range 3 {
			time.Sleep(auth.CacheTime)
			for code(a, "x") != atrium.CodeRateLimited { // the pause has allowed some failures
			}
			_ = code(a, newKey()) // makes the batcher busy
			start := time.Now()
			if c := code(a, text); c != "ok" || time.Since(start) > time.Millisecond {
				t.Errorf("it is %s after %v", c, time.Since(start))
			}
		}
		now := atrium.At(time.Now())
		r.change(id, func(s *stored) { s.key.RevokedAt = &now })
		time.Sleep(auth.CacheTime)
		if c := code(a, text); c != atrium.CodeUnauthenticated {
			t.Errorf("a revoked key: %s", c)
		}
	})
}

func TestABatchedLookupRejectsARevokedKey(t *testing.T) {
	limited(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		now := atrium.At(time.Now())
		revoked, _ := r.add(func(k *atrium.APIKey) { k.RevokedAt = &now })
		good, _ := r.add(nil)
		second, _ := r.add(nil)
		block(t, a)
		for key, want := range map[string]atrium.Code{
			revoked: atrium.CodeUnauthenticated, withSecretOf(good, second): atrium.CodeUnauthenticated, good: "ok",
		} {
			if c := code(a, key); c != want {
				t.Errorf("it is %s, want %s", c, want)
			}
		}
	})
}

func TestUnavailableStorageDoesNotMakeAKeyInvalidInABatchedLookup(t *testing.T) {
	limited(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		good, _ := r.add(nil)
		block(t, a)
		r.fail(errors.New("unreachable"))
		if c := code(a, good); c != atrium.CodeUnavailable {
			t.Errorf("it is %s", c)
		}
		r.fail(nil)
		if c := code(a, good); c != "ok" {
			t.Errorf("after storage has recovered: %s", c)
		}
	})
}

func TestUnavailableStorageDoesNotCountAsAFailure(t *testing.T) {
	limited(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		good, _ := r.add(nil)
		r.fail(errors.New("unreachable"))
		for range 2 * allowed {
			if c := code(a, good); c != atrium.CodeUnavailable {
				t.Fatalf("it is %s", c)
			}
		}
		r.fail(nil)
		block(t, a) // fails if the rate was already used
	})
}

func TestARevokedKeyIsNotProven(t *testing.T) {
	limited(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		now := atrium.At(time.Now())
		revoked, _ := r.add(func(k *atrium.APIKey) { k.RevokedAt = &now })
		_ = code(a, revoked)
		time.Sleep(auth.CacheTime)
		for code(a, "x") != atrium.CodeRateLimited {
		}
		_ = code(a, newKey()) // makes the batcher busy
		start := time.Now()
		if c := code(a, revoked); c != atrium.CodeUnauthenticated || time.Since(start) < auth.BatchPause/2 {
			t.Errorf("it is %s after %v, without waiting for a batch", c, time.Since(start))
		}
	})
}

func TestOneClientCannotFillTheBatchQueue(t *testing.T) {
	limited(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		good, _ := r.add(nil)
		for range allowed {
			_ = codeFrom(a, other, "x")
		}
		block(t, a)
		var wg sync.WaitGroup
		for range auth.MaxWaiting {
			wrong := newKey()
			wg.Go(func() { _ = code(a, wrong) })
		}
		synctest.Wait()
		if c := codeFrom(a, other, good); c != "ok" {
			t.Errorf("a valid key of another client that exceeds its rate: %s", c)
		}
		wg.Wait()
	})
}

func TestAFullBatchQueueDoesNotRejectAKeyAsInvalid(t *testing.T) {
	limited(t, func(t *testing.T, r *keyStore, a *auth.Authenticator) {
		block(t, a)
		var wg sync.WaitGroup
		for range auth.MaxWaiting/2 + 1 {
			wrong := newKey()
			wg.Go(func() { _ = code(a, wrong) })
		}
		synctest.Wait()
		good, _ := r.add(nil)
		if c := code(a, good); c != atrium.CodeUnavailable {
			t.Errorf("a valid key is %s", c)
		}
		wg.Wait()
		if c := code(a, good); c != "ok" {
			t.Errorf("the next attempt: %s", c)
		}
	})
}

func TestInvalidKeysAboveTheFailureRateEvictNothingFromTheCache(t *testing.T) {
	limited(t, func(t *testing.T, _ *keyStore, a *auth.Authenticator) {
		block(t, a)
		before := a.Cached()
		var wg sync.WaitGroup
		for range 2000 {
			wrong := newKey()
			wg.Go(func() { _ = code(a, wrong) })
		}
		wg.Wait()
		if n := a.Cached(); n > before+1 { // the elapsed time has allowed one more failure
			t.Errorf("%d results are cached, want %d", n, before)
		}
	})
}

func TestAnIPv6ClientSharesItsFailureRateWithItsNetwork(t *testing.T) {
	limited(t, func(t *testing.T, _ *keyStore, a *auth.Authenticator) {
		for i := range allowed {
			_ = codeFrom(a, netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i)), "x")
		}
		if c := codeFrom(a, netip.MustParseAddr("2001:db8::ffff:1"), "x"); c != atrium.CodeRateLimited {
			t.Errorf("another address of the network is %s", c)
		}
		if c := codeFrom(a, netip.MustParseAddr("2001:db8:0:1::1"), "x"); c != atrium.CodeUnauthenticated {
			t.Errorf("another network is %s", c)
		}
	})
}
