package entries

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// An entry is stored within maxIDDelay of the time in its identifier, unless it was imported, its append
// waited for longer, or the clock was wrong.
const maxIDDelay = time.Minute

// maxFoundAccounts is how many accounts one transaction of MostActiveAccounts looks up.
const maxFoundAccounts = 2000

// MostActiveAccounts returns the accounts with the most entries since a time, without the unattributed
// one. Entries of a merged account count for its survivor.
//
// It reads entries by identifier, newest first, until the time in an identifier is maxIDDelay before
// the range. So it does not count imported entries whose identifiers are older than the range. Of the
// accounts, it returns at most kernel.ListBytes, or one.
//
// It reads in short transactions, which are not one snapshot: what changes in between may count in its
// old place or its new one. It calls pause between them, with the number of accounts that it holds in
// memory, and returns its error.
func (s *Store) MostActiveAccounts(ctx context.Context, tenant atrium.TenantID, q atrium.MostActiveQuery, pause func(accounts int) error) (all atrium.MostActive, err error) {
	counts := map[atrium.AccountID]int64{}
	if all.CountedSince, err = s.countByAccount(ctx, tenant, &q, counts, pause); err != nil {
		return all, err
	}
	if err := s.countForSurvivors(ctx, tenant, counts, pause); err != nil {
		return all, err
	}
	var most []atrium.AccountID // sorted
	for id, n := range counts {
		all.Entries += n
		i, _ := slices.BinarySearchFunc(most, id, func(a, b atrium.AccountID) int {
			return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
		})
		if i < q.MaxAccounts {
			most = slices.Insert(most[:min(len(most), q.MaxAccounts-1)], i, id)
		}
	}
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		all.Accounts = nil
		listed, err := accounts.Listed(tx, tenant, most)
		for _, a := range listed {
			all.Accounts = append(all.Accounts, atrium.AccountEntries{Account: a, Entries: counts[a.ID]})
		}
		return err
	})
	return all, err
}

// countByAccount adds the numbers of entries to counts, by the account that stores them. It returns the
// time since which they are counted.
func (s *Store) countByAccount(ctx context.Context, tenant atrium.TenantID, q *atrium.MostActiveQuery, counts map[atrium.AccountID]int64, pause func(accounts int) error) (atrium.Time, error) {
	var last *atrium.Position
	for left := q.MaxEntries; ; {
		found, position, read, err := s.activeAccounts(ctx, tenant, q, last, min(left, maxMatchEntries))
		if err != nil {
			return 0, err
		}
		for _, id := range found {
			counts[id]++
		}
		if position == nil {
			return q.Since, nil
		}
		if last, left = position, left-read; left == 0 {
			oldest := atrium.At(atrium.IDTime(entryIDAt(last)))
			return max(q.Since+1000, min(oldest, atrium.At(s.db.Now()))), nil // any identifier can be imported
		}
		if err := pause(len(counts)); err != nil {
			return 0, err
		}
	}
}

// An entryKind has the columns that the filter of a count needs.
type entryKind struct{ source, entryType string }

// activeAccounts reads up to limit entries after a position, nil for the newest, and returns the account
// of each one to count. next is the position to continue after, nil at the end of the range.
func (s *Store) activeAccounts(ctx context.Context, tenant atrium.TenantID, q *atrium.MostActiveQuery, after *atrium.Position, limit int) (found []atrium.AccountID, next *atrium.Position, read int, err error) {
	first := atrium.PositionAt(0, atrium.FirstID[atrium.EntryID](q.Since.Std().Add(-maxIDDelay))).ID
	filter := atrium.TimelineFilter{Source: q.Source, Type: q.Type}
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		found, next, read = nil, nil, 0
		var last *atrium.Position
		it := newTenantIterator(tx, tenant, after, maxChunk, "e.source, e.type", func(r engine.Row) entryKind { return entryKind{r.Text(3), r.Text(4)} })
		for ; ; read++ {
			p, err := it.next()
			if err != nil || p == nil || p.position.ID < first {
				return err
			}
			if read == limit {
				next = last
				return nil
			}
			last = &p.position
			if atrium.Time(p.position.Key) >= q.Since && filter.Has(p.value.source, p.value.entryType) {
				found = append(found, p.account)
			}
		}
	})
	return found, next, read, err
}

// countForSurvivors moves the counts of merged accounts to their survivors, and deletes those of accounts
// that are erased, and of the unattributed one.
func (s *Store) countForSurvivors(ctx context.Context, tenant atrium.TenantID, counts map[atrium.AccountID]int64, pause func(accounts int) error) error {
	unattributed := string(kernel.Hash16(atrium.UnattributedDomain))
	for some := range slices.Chunk(slices.Sorted(maps.Keys(counts)), maxFoundAccounts) {
		if err := pause(len(counts)); err != nil {
			return err
		}
		keys := make([]kernel.TenantKey, len(some))
		for i, id := range some {
			keys[i] = kernel.TenantKey{Tenant: tenant, Key: string(id)}
		}
		var refs map[kernel.TenantKey]accounts.AccountRef
		if err := s.db.Read(ctx, func(tx engine.Tx) (err error) {
			refs, err = accounts.FindAccountRefs(tx, keys)
			return err
		}); err != nil {
			return err
		}
		for i, id := range some {
			ref, found := refs[keys[i]]
			if ref.Survivor != "" {
				counts[ref.Survivor] += counts[id]
			}
			if !found || ref.Survivor != "" || ref.Hash == unattributed {
				delete(counts, id)
			}
		}
	}
	return nil
}
