package counts

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// EntryCounts returns the numbers of entries of a tenant.
func (s *Store) EntryCounts(ctx context.Context, tenant atrium.TenantID, q atrium.CountQuery) (c atrium.EntryCounts, err error) {
	now := s.db.Now()
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		c = atrium.EntryCounts{CountQuery: q}
		state, err := findState(tx.Query, tenant)
		if err != nil {
			return err
		}
		if c.CompleteUntil, err = state.completeUntil(tx, now); err != nil {
			return err
		}
		return state.read(tx, &c)
	})
	return c, err
}

// completeUntil returns the time before which every entry is counted; nil if there is none.
func (s *state) completeUntil(tx engine.Tx, now time.Time) (*atrium.Time, error) {
	until := now.Add(-settleDelay)
	after, end, examined := s.pass.timelyAfter, settledBefore(now), bytes.Equal(s.pass.untimelyAfter, afterAllIDs)
	if !examined {
		after, end = s.pass.untimelyAfter, afterAllIDs
	}
	var first atrium.EntryID // that is not counted
	if err := tx.Query("SELECT entry_id FROM entries WHERE tenant_id = $1 AND entry_id > $2 AND entry_id < $3 ORDER BY entry_id LIMIT $4",
		engine.Args{kernel.IDArg(s.tenant), after, end, int64(1)}, func(r engine.Row) error {
			first = kernel.IDAt[atrium.EntryID](r, 0)
			return nil
		}); err != nil {
		return nil, err
	}
	switch {
	case first != "" && !examined:
		return nil, nil
	case first != "":
		until = atrium.IDTime(first)
	}
	complete := atrium.At(until.Add(-maxIDDelay))
	return &complete, nil
}

// read adds the numbers of the current pass to c: first the totals of each source and type, and then the
// series of those that are largest.
func (s *state) read(tx engine.Tx, c *atrium.EntryCounts) error {
	totals := map[kind]int64{}
	each := func(add func(k kind, period int, n int64)) error {
		return tx.Query(`SELECT starts_at, source, type, entries FROM entry_counts
			WHERE tenant_id = $1 AND pass = $2 AND hours = $3 AND starts_at >= $4 AND starts_at < $5`,
			engine.Args{kernel.IDArg(s.tenant), s.pass.number, int64(c.Interval), int64(c.Since), int64(c.Until)}, func(r engine.Row) error {
				k := kind{r.Text(1), r.Text(2)}
				if n := r.Int(3); n <= 0 { // its entries were erased
					return nil
				}
				if c.Source != "" && k.source != c.Source || c.Type != "" && k.entryType != c.Type {
					return nil
				}
				add(k, int((atrium.Time(r.Int(0))-c.Since)/c.Interval.Micros()), r.Int(3))
				return nil
			})
	}
	if err := each(func(k kind, _ int, n int64) { totals[k] += n }); err != nil {
		return err
	}
	for k, total := range totals {
		if k != (kind{}) {
			c.Series = append(c.Series, atrium.CountSeries{Source: k.source, Type: k.entryType, Total: total})
		}
	}
	slices.SortFunc(c.Series, func(a, b atrium.CountSeries) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Type, b.Type))
	})
	c.Series = c.Series[:min(len(c.Series), c.CountQuery.Series)]
	place := map[kind]*atrium.CountSeries{}
	for i := range c.Series {
		series := &c.Series[i]
		series.Counts = make([]int64, c.Periods())
		place[kind{series.Source, series.Type}] = series
	}
	c.Other.Counts = make([]int64, c.Periods())
	return each(func(k kind, period int, n int64) {
		series := place[k]
		if series == nil {
			series = &c.Other
			series.Total += n
		}
		series.Counts[period] += n
		c.Total += n
	})
}
