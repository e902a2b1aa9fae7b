// Package events stores the events of tenants: it gives them positions, reads them with their contents, and
// deletes them when they expire.
package events

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
	"atrium/internal/store/migrations"
	"atrium/internal/store/register"
)

// A Store stores events. It is safe for concurrent use.
type Store struct {
	db   *kernel.DB
	wake func(tx engine.Tx, tenant atrium.TenantID) error

	// EventRetention is how long events are stored. 0 means atrium.MinEventRetention.
	EventRetention time.Duration

	sweep     sweep
	sequenced atomic.Int64

	mu      sync.Mutex
	waiting map[atrium.TenantID]chan struct{} // guarded by mu; see EventsChanged
}

// New returns a Store on a database. If wake is not nil, each transaction that gives positions to events of a
// tenant calls it at its end, with the row of the tenant in event_feeds locked.
func New(db *kernel.DB, wake func(tx engine.Tx, tenant atrium.TenantID) error) *Store {
	return &Store{db: db, wake: wake}
}

// EventSettings returns the settings of a tenant. It returns NotFound if the tenant does not exist.
func (s *Store) EventSettings(ctx context.Context, tenant atrium.TenantID) (settings atrium.EventSettings, err error) {
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		if err := kernel.RequireTenantIn(tx, tenant); err != nil {
			return err
		}
		settings, err = findSettings(tx.Query, tenant)
		return err
	})
	return settings, err
}

func findSettings(query kernel.QueryFunc, tenant atrium.TenantID) (atrium.EventSettings, error) {
	settings := atrium.EventSettings{TenantID: tenant, Oldest: 1, Next: 1}
	args := engine.Args{kernel.IDArg(tenant)}
	if err := query("SELECT enabled, enabled_at, next_position FROM event_feeds WHERE tenant_id = $1", args, func(r engine.Row) error {
		settings.Enabled, settings.EnabledAt, settings.Next = r.Int(0) == 1, kernel.TimeAt(r, 1), r.Int(2)
		return nil
	}); err != nil {
		return settings, err
	}
	settings.Oldest = settings.Next
	if err := query("SELECT first_position FROM event_log WHERE tenant_id = $1 ORDER BY first_position LIMIT 1", args, func(r engine.Row) error {
		settings.Oldest = r.Int(0)
		return nil
	}); err != nil {
		return settings, err
	}
	var err error
	settings.Last, err = lastBefore(query, tenant, settings.Next)
	return settings, err
}

// lastBefore returns the position of the last event that is stored before a position, 0 if there is none. The position must be
// the first one of a row of event_log, or of none.
func lastBefore(query kernel.QueryFunc, tenant atrium.TenantID, position int64) (last int64, err error) {
	err = query("SELECT last_position FROM event_log WHERE tenant_id = $1 AND first_position < $2 ORDER BY first_position DESC LIMIT 1",
		engine.Args{kernel.IDArg(tenant), position}, func(r engine.Row) error {
			last = r.Int(0)
			return nil
		})
	return last, err
}

// EventFeed returns the feed of a tenant. It returns NotFound if the tenant does not exist.
func (s *Store) EventFeed(ctx context.Context, tenant atrium.TenantID) (feed atrium.EventFeed, err error) {
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		if err := kernel.RequireTenantIn(tx, tenant); err != nil {
			return err
		}
		feed.Ends = nil
		if feed.EventSettings, err = findSettings(tx.Query, tenant); err != nil {
			return err
		}
		for start := atrium.EpochStart(feed.Next); start > feed.Oldest; {
			end, err := lastBefore(tx.Query, tenant, start)
			if err != nil || end == 0 {
				return err
			}
			feed.Ends = append(feed.Ends, min(end, start-1))
			start = atrium.EpochStart(min(end, start-1))
		}
		return nil
	})
	return feed, err
}

// AnyAfter reports whether there may be events after a position: stored ones, or ones that have expired. next is the position of
// the next event.
func AnyAfter(tx engine.Tx, tenant atrium.TenantID, after, next int64) (bool, error) {
	if after+1 >= next {
		return false, nil
	}
	last, err := lastBefore(tx.Query, tenant, next)
	return last == 0 || last > after, err
}

// ContinueAfterRestore continues all feeds with new positions: see atrium.RestoredPosition. Feeds that begin later begin with
// them. Call it once after a restore from a backup.
func (s *Store) ContinueAfterRestore(ctx context.Context) error {
	return s.db.Write(ctx, func(tx engine.Tx) error {
		used, err := firstPosition(tx.Query)
		if err != nil {
			return err
		}
		if err := tx.Query("SELECT MAX(next_position) FROM event_feeds", nil, func(r engine.Row) error {
			if !r.Null(0) {
				used = max(used, r.Int(0))
			}
			return nil
		}); err != nil {
			return err
		}
		next := max(atrium.RestoredPosition(s.db.Now()), atrium.EpochStart(used)+atrium.EpochPositions)
		if _, err := tx.Exec("INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
			register.FirstPosition, binary.BigEndian.AppendUint64(nil, uint64(next))); err != nil {
			return err
		}
		_, err = tx.Exec("UPDATE event_feeds SET next_position = $1", next)
		return err
	})
}

// firstPosition returns the position of the first event of a feed that begins now.
func firstPosition(query kernel.QueryFunc) (first int64, err error) {
	first = 1
	err = query("SELECT value FROM settings WHERE name = $1", engine.Args{register.FirstPosition}, func(r engine.Row) error {
		first = int64(binary.BigEndian.Uint64(r.Bytes(0)))
		return nil
	})
	return first, err
}

// SetEventSettings enables or disables the events of the tenant of the change, and returns its settings. It
// first calls check with the current ones; an error of check ends the call. The setting applies to
// transactions that begin after it returns. It returns NotFound if the tenant does not exist, and Conflict if nodes of
// a release without events may still run.
func (s *Store) SetEventSettings(ctx context.Context, c atrium.Change, enabled bool, check func(atrium.EventSettings) error) (atrium.EventSettings, error) {
	settings, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (settings atrium.EventSettings, err error) {
		if _, err := LockHead(tx, c.TenantID); err != nil {
			return settings, err
		}
		if settings, err = findSettings(tx.Query, c.TenantID); err != nil {
			return settings, err
		}
		if err := check(settings); err != nil {
			return settings, err
		}
		if err := setEnabled(tx, enabled); err != nil {
			return settings, err
		}
		return findSettings(tx.Query, c.TenantID)
	})
	return settings, err
}

// Enable enables the events of the tenant of a change, unless they are enabled, and locks the row of the tenant in
// event_feeds. It returns Conflict if nodes of a release without events may still run.
func Enable(tx *kernel.Mutation) error { return setEnabled(tx, true) }

func setEnabled(tx *kernel.Mutation, enabled bool) error {
	id := tx.Change.TenantID
	head, err := LockHead(tx, id)
	if err != nil {
		return err
	}
	was, err := kernel.EventsEnabled(tx.Query, id)
	if err != nil || was == enabled {
		return err
	}
	if !enabled {
		tx.RecordDetail("events.disable", string(id), map[string]any{})
		_, err = tx.Exec("UPDATE event_feeds SET enabled = 0 WHERE tenant_id = $1", kernel.IDArg(id))
		return err
	}
	if finished, err := kernel.FinishedAt(tx.Query); err != nil {
		return err
	} else if finished < migrations.Events {
		return atrium.Errorf(atrium.CodeConflict, "Nodes of the previous release may still run. Finish the upgrade with atrium migrate --finish first.")
	}
	tx.RecordDetail("events.enable", string(id), map[string]any{})
	if head == 0 {
		first, err := firstPosition(tx.Query)
		if err != nil {
			return err
		}
		_, err = tx.Exec("INSERT INTO event_feeds (tenant_id, enabled, enabled_at, next_position) VALUES ($1, $2, $3, $4)",
			kernel.IDArg(id), int64(1), int64(tx.At), first)
		return err
	}
	_, err = tx.Exec("UPDATE event_feeds SET enabled = 1, enabled_at = $1 WHERE tenant_id = $2", int64(tx.At), kernel.IDArg(id))
	return err
}

// LockHead locks the row of a tenant in event_feeds: until the transaction ends, no event of the tenant gets a
// position, and its events are neither enabled nor disabled. It returns the position of the next event, or 0 if
// there is no such row: the tenant never had events.
func LockHead(tx engine.Tx, tenant atrium.TenantID) (next int64, err error) {
	err = tx.Lock("SELECT next_position FROM event_feeds WHERE tenant_id = $1", engine.Args{kernel.IDArg(tenant)}, func(r engine.Row) error {
		next = r.Int(0)
		return nil
	})
	return next, err
}

// EventsChanged returns a channel that is closed when this process next sequences events of the tenant. Other processes sequence
// events as well, so also poll.
func (s *Store) EventsChanged(tenant atrium.TenantID) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = map[atrium.TenantID]chan struct{}{}
	}
	if s.waiting[tenant] == nil {
		s.waiting[tenant] = make(chan struct{})
	}
	return s.waiting[tenant]
}

func (s *Store) changed(tenant atrium.TenantID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if waiting := s.waiting[tenant]; waiting != nil {
		close(waiting)
		delete(s.waiting, tenant)
	}
}
