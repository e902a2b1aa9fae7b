package storetest

import (
	"context"
	"slices"

	"atrium"
)

// admissions records how the transactions of changes were admitted.
type admissions struct {
	large []bool // for each transaction
	open  int    // admitted and not released
}

// of returns the change with an Admit that records.
func (a *admissions) of(c atrium.Change) atrium.Change {
	c.Admit = a.admit
	return c
}

func (a *admissions) admit(_ context.Context, large bool) (release func(), err error) {
	a.large, a.open = append(a.large, large), a.open+1
	return func() { a.open-- }, nil
}

// want fails the test unless a change since the last call was admitted as small, and then as large
// if it is large. A rename may be admitted as small twice: in a group and by itself.
func (a *admissions) want(t tb, what string, large bool) {
	t.Helper()
	transactions := map[bool][]bool{false: {false}, true: {false, true}}[large]
	if !slices.Equal(slices.Compact(a.large), transactions) || a.open != 0 {
		t.Errorf("%s: admitted as large: %v, want %v; %d not released", what, a.large, transactions, a.open)
	}
	a.large = nil
}
