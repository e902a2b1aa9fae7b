package accounts

import (
	"context"
	"errors"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file checks the precondition of a change of an account, such as that of If-Match,
// which may depend on all linked prospects and merged accounts. If these are too large to hold in
// memory, the check runs in a read transaction before the change. The change is then made only
// if the account is still in the state that was checked.

// An accountState is equal to another one of the same tenant if all that is shown of the
// Account is the same, except for its latest activity.
type accountState struct {
	audit   int64          // the last number of the audit log: every change but those that entries make has one
	account atrium.Account // without LatestActivityAt; an entry can give it a name
}

func stateOf(tx engine.Tx, a atrium.Account) (accountState, error) {
	state := accountState{account: a}
	state.account.LatestActivityAt = nil
	err := tx.Query("SELECT number FROM audit_heads WHERE tenant_id = $1", engine.Args{kernel.IDArg(a.TenantID)}, func(r engine.Row) error {
		state.audit = r.Int(0)
		return nil
	})
	return state, err
}

// errUnchecked ends a transaction because the state of an account has to be checked
// outside of it first.
var errUnchecked = errors.New("the account is not in a state that was checked")

// A Precondition is what an account must be like for a change.
type Precondition struct {
	check   func(atrium.AccountDetail) error // nil for none
	checked *accountState                    // in which check was called before the transaction; nil for none
}

// test returns the error of the check for an account that is locked and was read by the
// transaction. It is errUnchecked if the account is not held in memory as a whole and not in
// the state that was checked.
func (p Precondition) test(tx *kernel.Mutation, d atrium.AccountDetail) error {
	switch {
	case p.check == nil:
		return nil
	case !d.Partial():
		return p.check(d)
	}
	state, err := stateOf(tx, d.Account)
	if err == nil && (p.checked == nil || *p.checked != state) {
		err = errUnchecked
	}
	return err
}

// CheckGroup is test for the account that stands for a group.
func (p Precondition) CheckGroup(tx *kernel.Mutation, g *Group) error {
	if p.check == nil {
		return nil
	}
	d, err := findAccountDetail(tx, tx.Change.TenantID, g.Root.ID)
	if err != nil {
		return err
	}
	return p.test(tx, d)
}

// CheckedChange is change for an f that tests a precondition, which is check, of the account
// that id leads to. It is Unavailable if the state of the account changes kernel.MaxRaces times between being checked
// and being locked.
func CheckedChange[T any](ctx context.Context, s *Store, c atrium.Change, id atrium.AccountID, check func(atrium.AccountDetail) error,
	f func(*kernel.Mutation, Precondition) (T, error),
) (result T, replayed bool, err error) {
	p := Precondition{check: check}
	for range kernel.MaxTries {
		result, replayed, err = kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (T, error) { return f(tx, p) })
		if !errors.Is(err, errUnchecked) {
			return result, replayed, err
		}
		if p.checked, err = s.checkOutside(ctx, c.TenantID, id, check); err != nil {
			return result, false, err
		}
	}
	return result, false, atrium.Unavailable(errors.New("the account is changed again and again"))
}

// checkOutside calls check for an account, and returns the state that it had.
func (s *Store) checkOutside(ctx context.Context, tenant atrium.TenantID, id atrium.AccountID, check func(atrium.AccountDetail) error) (checked *accountState, err error) {
	yield := func() error { return nil }
	if s.AdmitCheck != nil {
		var release func()
		if yield, release, err = s.AdmitCheck(ctx, tenant); err != nil {
			return nil, err
		}
		defer release()
	}
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		return readAccount(ctx, tx, tenant, id, func(d atrium.AccountDetail) error {
			state, err := stateOf(tx, d.Account)
			if err != nil {
				return err
			}
			checked = &state
			d.Stream, d.StreamMerged = yielding(d.Stream, prospectPage, yield), yielding(d.StreamMerged, 1, yield)
			return check(d)
		})
	})
	return checked, err
}

// yielding returns the stream with a call of yield after each batch of the given size.
func yielding[T any](s stream[T], after int, yield func() error) stream[T] {
	return func(each func(*T) error) error {
		read := 0
		return s(func(v *T) error {
			if read++; read%after == 0 {
				if err := yield(); err != nil {
					return err
				}
			}
			return each(v)
		})
	}
}
