package kernel

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/store/engine"
)

// A conflicting database is one on which every transaction conflicts.
type conflicting struct {
	engine.DB
	tries int
}

func (db *conflicting) Write(_ context.Context, f func(engine.Tx) error) error {
	db.tries++
	return f(nil)
}

func TestAChangeThatConflictsEveryTimeIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &conflicting{}
		_, _, err := Mutate(t.Context(), &DB{Engine: db, Now: time.Now}, atrium.CommandLine(atrium.OperatorChain), func(*Mutation) (struct{}, error) {
			return struct{}{}, ErrRace
		})
		if atrium.CodeOf(err) != atrium.CodeUnavailable || !errors.Is(err, ErrRace) || db.tries != MaxTries {
			t.Errorf("%v after %d tries, want unavailable after %d", err, db.tries, MaxTries)
		}
	})
}
