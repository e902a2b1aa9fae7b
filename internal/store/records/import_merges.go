package records

import (
	"errors"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
)

// merges makes merges one after the other, because one may need the result of another. It does
// not change the names of accounts: they are imported.
func (im *importTx) merges(run importRun) error {
	for i, item := range run.items {
		m, index := item.Record.(*atrium.Merge), run.first+i
		if err := im.lockGroups(index, m); err != nil {
			return err
		}
		from, to := im.groups[m.AccountID], im.groups[m.Into]
		if from.Root.ID != m.AccountID {
			is, err := accounts.FindMember(im.tx, im.tenant, m.AccountID)
			if err != nil {
				return err
			}
			if member := item.Differs(&atrium.Merge{AccountID: m.AccountID, Into: is.MergedInto}); member != "" {
				return refuseDifferent(member, index)
			}
			continue
		}
		if refusal := accounts.MergeRefusal(from, to); refusal != "" {
			return refuse(index, "into", refusal)
		}
		if err := im.countMerge(index, from); err != nil {
			return err
		}
		if err := accounts.MergeGroups(im.tx, im.tenant, from, to, m.Into); err != nil {
			return err
		}
		for _, id := range from.IDs() {
			im.groups[id] = to
		}
		im.added++
	}
	return nil
}

// lockGroups locks the groups of the two accounts of a merge, unless they are locked already:
// accounts.MergeGroups keeps locked groups up to date.
func (im *importTx) lockGroups(index int, m *atrium.Merge) error {
	var ids []atrium.AccountID
	for _, id := range []atrium.AccountID{m.AccountID, m.Into} {
		if im.groups[id] == nil {
			ids = append(ids, id)
		}
	}
	groups, err := accounts.LockGroups(im.tx, ids...)
	if errors.Is(err, engine.ErrNoRow) {
		member := "into"
		if _, err := accounts.FindSurvivor(im.tx, im.tenant, m.AccountID); errors.Is(err, engine.ErrNoRow) {
			member = "accountId"
		}
		return refuse(index, member, "names an account that does not exist")
	}
	if err != nil {
		return err
	}
	for _, g := range groups {
		for _, id := range g.IDs() {
			im.groups[id] = g
		}
		if err := im.countRegrouped(len(g.Members) + 1); err != nil {
			return err
		}
	}
	return nil
}

// countMerge counts the accounts and links that a merge changes. It refuses a merge that alone
// changes too many.
func (im *importTx) countMerge(index int, from *accounts.Group) error {
	if im.copy {
		return nil
	}
	if err := im.countRegrouped(len(from.Members) + 1); err != nil {
		return err
	}
	left, err := accounts.RemainingLinks(im.tx, im.tenant, from.IDs(), accounts.MaxCopiedLinks-im.copied)
	switch {
	case err != nil:
		return err
	case left < 0 && im.copied > 0:
		return ErrChunkTooLarge
	case left < 0:
		return refuse(index, "accountId", accounts.TooManyLinks)
	}
	im.copied = accounts.MaxCopiedLinks - left
	return nil
}

// countRegrouped counts accounts that merges lock or change. It returns ErrChunkTooLarge if there
// are too many.
func (im *importTx) countRegrouped(accounts int) error {
	im.regrouped += accounts
	if im.bounded && im.regrouped > maxRegroupedAccounts {
		return ErrChunkTooLarge
	}
	return nil
}
