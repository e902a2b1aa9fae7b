package auth_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/auth"
)

// slow is a ring whose answers are on their way for a second.
type slow struct{ *ring }

func (s slow) Key(ctx context.Context, id atrium.KeyID) (atrium.APIKey, []byte, []byte, error) {
	k, current, previous, err := s.ring.Key(ctx, id)
	time.Sleep(time.Second)
	return k, current, previous, err
}

func TestAKeyThatIsForgottenWhileItIsLookedUpIsAskedForAgain(t *testing.T) {
	for _, wait := range []bool{false, true} { // before the answer is there, and after
		synctest.Test(t, func(t *testing.T) {
			r := newRing()
			a := auth.New(slow{r}, time.Now, nil, nil)
			text, id := r.add(nil)
			before := make(chan atrium.Code, 1)
			go func() { before <- code(a, text) }()
			time.Sleep(500 * time.Millisecond) // the answer is on its way
			now := atrium.At(time.Now())
			r.change(id, func(s *stored) { s.key.RevokedAt = &now })
			a.Forget(id)
			if wait {
				<-before // who came before may be told either
			}
			if c := code(a, text); c != atrium.CodeUnauthenticated {
				t.Errorf("who came after it, waiting %v, is told %s", wait, c)
			}
			synctest.Wait()
		})
	}
}

func TestWhoGivesUpWaitingForAKeyIsNotTurnedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing()
		a := auth.New(slow{r}, time.Now, nil, nil)
		text, _ := r.add(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := a.Authenticate(ctx, client, text); atrium.CodeOf(err) != atrium.CodeUnavailable {
			t.Errorf("error %v, want unavailable", err)
		}
		if c := code(a, text); c != "ok" || r.count() != 1 { // the answer came all the same
			t.Errorf("it is %s after %d questions", c, r.count())
		}
	})
}
