package auth_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/auth"
)

// slow is a keyStore whose responses take a second.
type slow struct{ *keyStore }

func (s slow) Key(ctx context.Context, id atrium.KeyID) (atrium.APIKey, []byte, []byte, error) {
	k, current, previous, err := s.keyStore.Key(ctx, id)
	time.Sleep(time.Second)
	return k, current, previous, err
}

func TestAKeyForgottenDuringItsLookupIsLookedUpAgain(t *testing.T) {
	for _, wait := range []bool{false, true} { // before and after the first response
		synctest.Test(t, func(t *testing.T) {
			r := newKeyStore()
			a := auth.New(slow{r}, time.Now, nil, nil)
			text, id := r.add(nil)
			before := make(chan atrium.Code, 1)
			go func() { before <- code(a, text) }()
			time.Sleep(500 * time.Millisecond) // the response is in flight
			now := atrium.At(time.Now())
			r.change(id, func(s *stored) { s.key.RevokedAt = &now })
			a.Forget(id)
			if wait {
				<-before // an earlier request may get either result
			}
			if c := code(a, text); c != atrium.CodeUnauthenticated {
				t.Errorf("a request after Forget, waiting %v: %s", wait, c)
			}
			synctest.Wait()
		})
	}
}

func TestACanceledRequestDoesNotCancelTheLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newKeyStore()
		a := auth.New(slow{r}, time.Now, nil, nil)
		text, _ := r.add(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := a.Authenticate(ctx, client, text); atrium.CodeOf(err) != atrium.CodeUnavailable {
			t.Errorf("error %v, want unavailable", err)
		}
		if c := code(a, text); c != "ok" || r.count() != 1 { // the lookup completed nevertheless
			t.Errorf("it is %s after %d queries", c, r.count())
		}
	})
}
