package erasures

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/entries"
	"atrium/internal/store/kernel"
)

// The job of retention rules finds old entries by their identifiers, which contain the time. Every hour
// it scans, for each age in a rule, the identifiers of the entries that have reached this age since the
// last scan. If there are none, a scan reads one index entry. So entries that are not old, or are old
// and have no rule, cost nothing.
//
// Identifiers of imported entries need not contain their time, and the clock of a node may have been
// wrong. Therefore the job also reads all entries: after each change of the rules, and once a week.

const (
	scanInterval  = time.Hour
	sweepInterval = 7 * 24 * time.Hour

	// maxIDAge is the maximum delay between the time in an identifier and the time at which the entry is
	// stored. An entry with a longer delay waits for the weekly scan.
	maxIDAge = time.Hour
)

// Limits of the job.
const (
	maxScanned       = 1000                // entries per transaction
	retentionTenants = 100                 // tenants per call
	tombstoneDays    = 30 * 24 * time.Hour // how long retries of deleted entries are recognized
)

// A scan is a pass over entries in the order of their identifiers.
type scan struct {
	days  int64       // the age whose entries it examines; 0 for all entries
	until atrium.Time // examines them for expiry at this time
	after []byte      // continues after this packed identifier
}

// afterAllIDs is after the packed form of every identifier.
var afterAllIDs = bytes.Repeat([]byte{0xff}, kernel.IDBytes)

// end returns the packed identifier before which the scan ends.
func (s *scan) end() []byte {
	if s.days == 0 {
		return afterAllIDs
	}
	return idAtAge(s.until, s.days)
}

// idAtAge returns the packed identifier before all entries that are younger than days at a time,
// unless their identifiers are older than maxIDAge.
func idAtAge(at atrium.Time, days int64) []byte {
	id := atrium.FirstID[atrium.EntryID](at.Std().Add(-time.Duration(days)*24*time.Hour - maxIDAge))
	return kernel.IDArg(id).([]byte)
}

// begin returns the scan to continue or to begin at a time, nil if there is nothing to do until the
// next hour.
func (r *retention) begin(now atrium.Time) *scan {
	if latest := max(r.appliedUntil, r.sweptAt); latest > plus(now, clockTolerance) || r.scan != nil && r.scan.until > plus(now, clockTolerance) {
		r.scan, r.appliedUntil, r.sweptAt = nil, 0, 0 // the clock was wrong then
	}
	switch {
	case len(r.Rules) == 0:
		return nil
	case r.scan != nil:
		return r.scan
	case plus(r.sweptAt, sweepInterval) <= now:
		return &scan{until: now, after: []byte{}}
	case r.appliedUntil < now:
		return r.window(now, 0)
	}
	return nil
}

// window returns the scan of the entries that have reached, since the last scan, the lowest age in a rule
// above days; nil if there is no such rule.
func (r *retention) window(until atrium.Time, days int64) *scan {
	next := int64(0)
	for _, rule := range r.Rules {
		if rule.Days > days && (next == 0 || rule.Days < next) {
			next = rule.Days
		}
	}
	if next == 0 {
		return nil
	}
	return &scan{days: next, until: until, after: idAtAge(r.appliedUntil, next)}
}

// next returns the scan that follows s, nil for none.
func (r *retention) next(s *scan) *scan {
	if s.days == 0 {
		return nil
	}
	return r.window(s.until, s.days)
}

func plus(t atrium.Time, d time.Duration) atrium.Time { return t + atrium.Time(d.Microseconds()) }

const selectAged = `SELECT e.entry_id, e.account_id, e.created_at, e.source, e.type FROM entries e
	WHERE tenant_id = $1 AND entry_id > $2 AND entry_id < $3 ORDER BY entry_id LIMIT $4`

// An agedEntry is a row of selectAged.
type agedEntry struct {
	entries.Found
	source, entryType string
}

func scanAged(r engine.Row) (e agedEntry) {
	e.EntryID, e.AccountID = kernel.IDAt[atrium.EntryID](r, 0), kernel.IDAt[atrium.AccountID](r, 1)
	e.At = *atrium.PositionAt(atrium.Time(r.Int(2)), e.EntryID)
	e.source, e.entryType = r.Text(3), r.Text(4)
	return e
}

// findExpired continues a scan, and those that follow it, until it has examined maxScanned entries or
// found eraseBatchEntries to delete. It returns the scan in which it found them, and the scan to
// continue with when they are deleted, nil if it has reached the end.
func (r *retention) findExpired(tx engine.Tx, s *scan) (found []entries.Found, in, next *scan, err error) {
	for left := maxScanned; ; {
		limit, n := left, 0
		var last []byte
		err := tx.Query(selectAged, engine.Args{kernel.IDArg(r.TenantID), s.after, s.end(), int64(limit)}, func(row engine.Row) error {
			if len(found) == eraseBatchEntries {
				return kernel.ErrPageFull
			}
			e := scanAged(row)
			if n, last = n+1, row.Bytes(0); r.Rules.Expired(e.source, e.entryType, atrium.Time(e.At.Key), s.until) >= 0 {
				found = append(found, e.Found)
			}
			return nil
		})
		full := errors.Is(err, kernel.ErrPageFull)
		switch {
		case err != nil && !full:
			return nil, nil, nil, err
		case full || n == limit:
			return found, s, &scan{s.days, s.until, last}, nil
		}
		next := r.next(s)
		if left -= n + 1; next == nil || len(found) > 0 || left <= 0 {
			return found, s, next, nil
		}
		s = next
	}
}

// A retentionRound has what calls of RunRetention have found since the first tenant.
type retentionRound struct {
	mu      sync.Mutex                       // held by RunRetention
	waiting bool                             // rules wait for the clock; guarded by mu
	ended   map[atrium.TenantID]expiredCount // counts of days that have ended; guarded by mu
}

// An expiredCount is how many entries of a tenant were deleted, which is not in the audit log yet.
type expiredCount struct {
	deleted int64
	since   atrium.Time // when the first of them was deleted
}

// RunRetention deletes entries by the retention rules of up to retentionTenants tenants after the given
// one, "" for the first. It returns the tenant to continue after, "" at the end, and whether tenants have
// more to delete. It runs one transaction per tenant, round-robin, with pauses, as ContinueErasures. On
// an error it continues with the next tenant, and returns the first error. At the end, it records the
// entries that were deleted on earlier days (recordExpired).
//
// It deletes nothing unless the clock has run steadily for a day (clockIsSteady).
func (s *Store) RunRetention(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, more bool, err error) {
	s.round.mu.Lock()
	defer s.round.mu.Unlock()
	tenants, err := s.db.TenantsAfter(ctx, after, retentionTenants)
	if err != nil {
		return after, false, err
	}
	if len(tenants) == retentionTenants {
		next = tenants[len(tenants)-1]
	}
	now := s.db.Now()
	steady, err := s.clockIsSteady(ctx, now)
	if err != nil {
		return after, false, err
	}
	waiting := false
	hour, deadline := atrium.At(now.Truncate(scanInterval)), now.Add(maxTimePerRun)
	turnErr := s.db.InTurn(ctx, tenants, func(ctx context.Context, tenant atrium.TenantID) (bool, error) {
		r, stepErr := findRetention(s.db.OutsideTx(ctx), tenant)
		again := false
		if stepErr == nil {
			waiting = waiting || len(r.Rules) > 0 && !steady
			if r.deletedSince != nil && day(now) != day(r.deletedSince.Std()) {
				s.round.ended[tenant] = expiredCount{r.deleted, *r.deletedSince}
			}
			if steady {
				again, stepErr = s.expire(ctx, &r, hour)
			}
		}
		switch {
		case errors.Is(stepErr, atrium.ErrNoTenant): // another job deletes all of it
			delete(s.round.ended, tenant)
			return false, nil
		case stepErr != nil:
			err = cmp.Or(err, fmt.Errorf("apply the retention rules of %s: %w", tenant, stepErr))
			return false, nil
		}
		if again && !s.db.Now().Before(deadline) {
			more, again = true, false
		}
		return again, nil
	})
	s.round.waiting = waiting || after != "" && s.round.waiting
	if ended := next == "" && turnErr == nil; ended || s.round.waiting {
		s.waiting.Store(s.round.waiting)
	}
	switch {
	case turnErr != nil:
		return after, false, cmp.Or(err, turnErr)
	case next == "":
		err = cmp.Or(err, s.recordExpired(ctx))
	}
	return next, more, err
}

// day returns the date of a time, in UTC.
func day(t time.Time) int64 { return t.Unix() / (24 * 60 * 60) }

// expire deletes a batch of expired entries, and reports whether there may be more.
func (s *Store) expire(ctx context.Context, r *retention, hour atrium.Time) (more bool, err error) {
	begun := r.begin(hour)
	if begun == nil {
		return false, nil
	}
	var found []entries.Found
	var in, next *scan
	if err := s.db.Read(ctx, func(tx engine.Tx) (err error) {
		found, in, next, err = r.findExpired(tx, begun)
		return err
	}); err != nil {
		return false, err
	}
	if batch := ofFirstAccounts(found); len(batch) < len(found) {
		found, next = batch, in.from(&batch[len(batch)-1])
	}
	deleted := 0
	change := atrium.Change{TenantID: r.TenantID, Actor: atrium.ActorRetention}
	_, _, err = kernel.MutateLarge(ctx, s.db, change, func(tx *kernel.Mutation) (none struct{}, err error) {
		survivors, err := entries.LockAccounts(tx, accountsOf(found))
		if err != nil {
			return none, err
		}
		saved, expiry := *r, plus(tx.At, tombstoneDays)
		n, done, err := deleteFound(tx, string(r.TenantID), found, survivors, &expiry)
		if err != nil {
			return none, err
		}
		deleted = n
		if saved.scan = next; done < len(found) {
			if saved.scan = in; done > 0 {
				saved.scan = in.from(&found[done-1])
			}
		}
		more = saved.scan != nil
		if !more {
			saved.appliedUntil = max(in.until, r.appliedUntil)
			if in.days == 0 {
				saved.sweptAt = in.until
			}
		}
		if saved.deleted += int64(deleted); deleted > 0 && saved.deletedSince == nil {
			saved.deletedSince = &tx.At
		}
		return none, saved.save(tx)
	})
	if errors.Is(err, errOutdated) {
		return true, nil
	}
	if err == nil {
		s.expired.Add(int64(deleted))
	}
	return more, err
}

// from returns the scan after an entry.
func (s *scan) from(e *entries.Found) *scan {
	return &scan{s.days, s.until, kernel.IDArg(e.EntryID).([]byte)}
}

// recordExpired purges the database, so that nothing of the entries that were deleted is left in its
// files, and then records their number in the audit logs: one record for each tenant and day. On an error
// it continues with the next tenant, and returns the first error. The next round finds what it has not
// recorded.
func (s *Store) recordExpired(ctx context.Context) (err error) {
	ended := s.round.ended
	s.round.ended = map[atrium.TenantID]expiredCount{}
	if len(ended) == 0 {
		return nil
	}
	if err := s.purgeInJob(ctx, false); err != nil {
		if errors.Is(err, errPurgeBusy) {
			err = nil
		}
		return err
	}
	for tenant, was := range ended {
		_, _, stepErr := kernel.MutateLarge(ctx, s.db, atrium.Change{TenantID: tenant, Actor: atrium.ActorRetention}, func(tx *kernel.Mutation) (none struct{}, err error) {
			r, err := findRetention(tx.Lock, tenant)
			if err != nil || r.deletedSince == nil || *r.deletedSince != was.since {
				return none, err // another node has recorded it
			}
			if r.deleted -= was.deleted; r.deleted == 0 {
				r.deletedSince = nil
			} else {
				r.deletedSince = &tx.At // these are not purged yet
			}
			tx.RecordDetail("retention.delete", string(tenant), map[string]any{"accountLogs": was.deleted, "since": was.since})
			return none, r.save(tx)
		})
		if stepErr != nil && !errors.Is(stepErr, atrium.ErrNoTenant) {
			err = cmp.Or(err, fmt.Errorf("record the deleted entries of %s: %w", tenant, stepErr))
		}
	}
	return err
}
