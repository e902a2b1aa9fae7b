package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// Limits of one read of events.
const (
	readRows     = 64      // rows of event_log that are read at a time
	loadedEvents = 32      // whose contents are read at a time
	maxReadBytes = 1 << 20 // of contents; the events that are read when it is reached are included
)

// An eventRef is an event without its contents.
type eventRef struct {
	position int64
	at       atrium.Time // of the transaction that caused it
	kernel.EventRef
}

// Events returns the events of a tenant after a position, 0 for those from the first one, in order: up to limit, at
// most atrium.MaxEventPage, and fewer if their contents are large. It returns none only if there is none. It
// returns an atrium.ExpiredEventsError if some of them are no longer stored, and NotFound if the tenant does
// not exist.
func (s *Store) Events(ctx context.Context, tenant atrium.TenantID, after int64, limit int) (events []atrium.Event, err error) {
	after, limit = max(0, after), min(limit, atrium.MaxEventPage)
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		if err := kernel.RequireTenantIn(tx, tenant); err != nil {
			return err
		}
		found, err := findAfter(tx, tenant, after, limit)
		if err != nil {
			return err
		}
		events, err = load(tx, tenant, found)
		return err
	})
	return events, err
}

const (
	// The first row has the event at the position.
	logAt = `SELECT first_position, at, refs FROM event_log WHERE tenant_id = $1 AND first_position >= COALESCE(
			(SELECT l.first_position FROM event_log l WHERE l.tenant_id = $1 AND l.first_position <= $2 ORDER BY l.first_position DESC LIMIT 1), 0)
		ORDER BY first_position LIMIT $3`
	logAfter = "SELECT first_position, at, refs FROM event_log WHERE tenant_id = $1 AND first_position >= $2 ORDER BY first_position LIMIT $3"
)

// findAfter returns up to limit events after a position.
func findAfter(tx engine.Tx, tenant atrium.TenantID, after int64, limit int) (found []eventRef, err error) {
	sql, next := logAt, after+1
	last := int64(-1) // position of the last event that was read, of those up to after as well; -1 for none
	for rows := readRows; rows == readRows && len(found) < limit; sql = logAfter {
		rows = 0
		err := tx.Query(sql, engine.Args{kernel.IDArg(tenant), next, int64(readRows)}, func(r engine.Row) error {
			rows++
			all, err := scanRefs(r)
			if err != nil {
				return err
			}
			for _, e := range all {
				switch {
				case e.position <= after:
				case len(found) == limit:
					return kernel.ErrPageFull
				case len(found) == 0 && last != after && e.position != after+1: // it does not follow the event at after
					return &atrium.ExpiredEventsError{After: after, Oldest: e.position, Lost: last >= 0}
				default:
					found = append(found, e)
				}
				last = e.position
			}
			next = last + 1
			return nil
		})
		if err != nil && !errors.Is(err, kernel.ErrPageFull) {
			return nil, err
		}
	}
	if len(found) > 0 || last == after {
		return found, nil
	}
	settings, err := findSettings(tx.Query, tenant)
	if err != nil {
		return nil, err
	}
	return nil, checkEnd(&settings, after)
}

// checkEnd returns an error unless the feed, which has no event after a position, continues there.
func checkEnd(settings *atrium.EventSettings, after int64) error {
	switch {
	case after+1 < settings.Oldest:
		return &atrium.ExpiredEventsError{After: after, Oldest: settings.Oldest}
	case after >= settings.Next, after+1 < settings.Next && 0 < settings.Last && settings.Last < after:
		return &atrium.ExpiredEventsError{After: after, Oldest: settings.Next, Lost: true}
	}
	return nil
}

// scanRefs returns the events of a row: its first position, its time and its references.
func scanRefs(r engine.Row) (all []eventRef, err error) {
	refs, err := kernel.DecodeEventRefs(r.View(2))
	if err != nil {
		return nil, fmt.Errorf("read events at position %d: %w", r.Int(0), err)
	}
	for i, ref := range refs {
		all = append(all, eventRef{r.Int(0) + int64(i), atrium.Time(r.Int(1)), ref})
	}
	return all, nil
}

var (
	// The last row up to a position has the event at the position, if it is stored.
	rowsOfPositions = engine.NewBatch(`SELECT (SELECT l.first_position FROM event_log l WHERE l.tenant_id = batch.tenant_id
		AND l.first_position <= batch.position ORDER BY l.first_position DESC LIMIT 1) FROM batch`, "tenant_id bytea", "position bigint")
	logRows = engine.NewBatch(`SELECT l.first_position, l.at, l.refs FROM batch JOIN event_log l ON l.tenant_id = batch.tenant_id
		AND l.first_position = batch.position`, "tenant_id bytea", "position bigint")
)

// EventsAt returns the events at some positions, at most atrium.MaxEventPage, in order and without those that are
// not stored. It returns only the first ones if their contents are large, but at least one if one is stored.
// It returns NotFound if the tenant does not exist.
func (s *Store) EventsAt(ctx context.Context, tenant atrium.TenantID, positions []int64) (events []atrium.Event, err error) {
	wanted := map[int64]bool{}
	var rows []engine.Args
	for _, p := range positions[:min(len(positions), atrium.MaxEventPage)] {
		if !wanted[p] {
			wanted[p] = true
			rows = append(rows, engine.Args{kernel.IDArg(tenant), p})
		}
	}
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		if err := kernel.RequireTenantIn(tx, tenant); err != nil {
			return err
		}
		found, err := findAt(tx, tenant, rows, wanted)
		if err != nil {
			return err
		}
		events, err = load(tx, tenant, found)
		return err
	})
	return events, err
}

// findAt returns the wanted events, whose positions are in rows of rowsOfPositions.
func findAt(tx engine.Tx, tenant atrium.TenantID, rows []engine.Args, wanted map[int64]bool) (found []eventRef, err error) {
	firsts := map[int64]bool{}
	if _, err := tx.Batch(rowsOfPositions, rows, func(r engine.Row) error {
		if !r.Null(0) {
			firsts[r.Int(0)] = true
		}
		return nil
	}); err != nil {
		return nil, err
	}
	rows = nil
	for first := range firsts {
		rows = append(rows, engine.Args{kernel.IDArg(tenant), first})
	}
	_, err = tx.Batch(logRows, rows, func(r engine.Row) error {
		all, err := scanRefs(r)
		for _, e := range all {
			if wanted[e.position] {
				found = append(found, e)
			}
		}
		return err
	})
	slices.SortFunc(found, func(a, b eventRef) int { return cmp.Compare(a.position, b.position) })
	return found, err
}
