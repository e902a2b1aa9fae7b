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

// A racing is a database on which another transaction is always faster.
type racing struct {
	engine.DB
	tries int
}

func (db *racing) Write(_ context.Context, f func(engine.Tx) error) error {
	db.tries++
	return f(nil)
}

func TestAChangeThatOthersOvertakeEachTimeIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &racing{}
		_, _, err := Mutate(t.Context(), &DB{Engine: db, Now: time.Now}, atrium.Change{}, func(*Mutation) (struct{}, error) {
			return struct{}{}, ErrRace
		})
		if atrium.CodeOf(err) != atrium.CodeUnavailable || !errors.Is(err, ErrRace) || db.tries != MaxRaces {
			t.Errorf("%v after %d tries, want unavailable after %d", err, db.tries, MaxRaces)
		}
	})
}
