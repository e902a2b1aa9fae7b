package accounts

import (
	"context"
	"errors"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file checks preconditions of account changes, such as If-Match, which may depend on all
// linked prospects and merged accounts. If these are too large to buffer, the check runs in a read
// transaction before the change, and the change is made only if the account is still in the
// checked state.

// An accountState identifies a state of an account: if two states of a tenant are equal, all
// fields of the account except its latest activity are equal, and so are its prospects and merged
// accounts.
type accountState struct {
	audit   int64          // last number of the audit log, which every change except appends increments
	account atrium.Account // without LatestActivityAt; an append can set the name
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

// errUnchecked aborts a transaction because the state of the account must first be checked in a
// read transaction.
var errUnchecked = errors.New("the state of the account has not been checked")

// A Precondition is a check of an account that a change depends on.
type Precondition struct {
	check        func(atrium.AccountDetail) error // nil if there is no precondition
	checkedState *accountState                    // the state for which checkInReadTx has called check; nil if it has not
}

// test returns the error of the check for d, an account that the transaction has locked and read.
// If d is partial, it returns errUnchecked unless the account is in the state checked before.
func (p Precondition) test(tx *kernel.Mutation, d atrium.AccountDetail) error {
	switch {
	case p.check == nil:
		return nil
	case !d.Partial():
		return p.check(d)
	}
	state, err := stateOf(tx, d.Account)
	if err == nil && (p.checkedState == nil || *p.checkedState != state) {
		err = errUnchecked
	}
	return err
}

// CheckGroup is test for the root of a group.
func (p Precondition) CheckGroup(tx *kernel.Mutation, g *Group) error {
	if p.check == nil {
		return nil
	}
	d, err := findAccountDetail(tx, tx.Change.TenantID, g.Root.ID, maxDetailProspects)
	if err != nil {
		return err
	}
	return p.test(tx, d)
}

// CheckedChange is kernel.Mutate for a change of the account that id leads to, with the
// precondition check. f must test the Precondition after locking the account. It returns
// Unavailable if the account changes kernel.MaxTries times between check and lock.
func CheckedChange[T any](ctx context.Context, s *Store, c atrium.Change, id atrium.AccountID, check func(atrium.AccountDetail) error,
	f func(*kernel.Mutation, Precondition) (T, error),
) (result T, replayed bool, err error) {
	p := Precondition{check: check}
	for range kernel.MaxTries {
		result, replayed, err = kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (T, error) { return f(tx, p) })
		if !errors.Is(err, errUnchecked) {
			return result, replayed, err
		}
		if p.checkedState, err = s.checkInReadTx(ctx, c.TenantID, id, check); err != nil {
			return result, false, err
		}
	}
	return result, false, atrium.Unavailable(errors.New("the account is being changed too often"))
}

// checkInReadTx calls check in a read transaction, and returns the checked state.
func (s *Store) checkInReadTx(ctx context.Context, tenant atrium.TenantID, id atrium.AccountID, check func(atrium.AccountDetail) error) (checked *accountState, err error) {
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

// yielding returns a stream that calls yield after every batch of the given size.
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
