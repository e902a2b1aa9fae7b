package events

import (
	"context"
	"time"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// maxDisorder is how much later the time of an event can be than that of one with a higher position: the time is that of the
// beginning of a transaction, and clocks of nodes differ by up to a minute.
const maxDisorder = engine.MaxWriteTime + time.Minute

// The last row up to a position has the event at the position, if it is stored.
const rowAt = "SELECT first_position, at FROM event_log WHERE tenant_id = $1 AND first_position <= $2 ORDER BY first_position DESC LIMIT 1"

// rowAfter is the first row after a position.
const rowAfter = "SELECT first_position FROM event_log WHERE tenant_id = $1 AND first_position > $2 ORDER BY first_position LIMIT 1"

// FirstEventSince returns a position to start reading from to get every stored event since the given time, or the position of the
// next event if there is none. Up to two minutes of earlier events may follow, because transactions overlap and clocks differ. It
// returns NotFound if the tenant does not exist.
func (s *Store) FirstEventSince(ctx context.Context, tenant atrium.TenantID, since atrium.Time) (position int64, err error) {
	since = atrium.At(since.Std().Add(-maxDisorder))
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		if err := kernel.RequireTenantIn(tx, tenant); err != nil {
			return err
		}
		settings, err := findSettings(tx.Query, tenant)
		if err != nil {
			return err
		}
		low, high := settings.Oldest, settings.Next // the position is in this range
		for low < high {
			middle := low + (high-low)/2
			first, at := middle, since
			if err := tx.Query(rowAt, engine.Args{kernel.IDArg(tenant), middle}, func(r engine.Row) error {
				first, at = r.Int(0), atrium.Time(r.Int(1))
				return nil
			}); err != nil {
				return err
			}
			if at >= since {
				high = max(first, low)
				continue
			}
			low = middle + 1
			if atrium.EpochStart(first) == atrium.EpochStart(middle) {
				continue
			}
			// No event follows the row in its epoch. The positions up to the next one are many.
			low = high
			if err := tx.Query(rowAfter, engine.Args{kernel.IDArg(tenant), middle}, func(r engine.Row) error {
				low = min(high, r.Int(0))
				return nil
			}); err != nil {
				return err
			}
		}
		position = low
		return nil
	})
	return position, err
}
