package manage

import (
	"context"
	"fmt"
	"slices"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

// defaultSeries is how many combinations of source and type are counted separately.
const defaultSeries = 10

// defaultPeriods is the length of the default range of counts.
var defaultPeriods = map[atrium.Interval]atrium.Time{atrium.Hourly: 24, atrium.Daily: 30}

type entryCount struct {
	Start  atrium.Time `json:"start"`
	Source string      `json:"source,omitzero"`
	Type   string      `json:"type,omitzero"`
	Count  int64       `json:"count"`
}

type entryCounts struct {
	Interval      string       `json:"interval"`
	Since         atrium.Time  `json:"since"`
	Until         atrium.Time  `json:"until"`
	CompleteUntil *atrium.Time `json:"completeUntil,omitzero"`
	Total         int64        `json:"total"`
	Items         []entryCount `json:"items"`
}

func newEntryCounts(c atrium.EntryCounts) entryCounts {
	all := entryCounts{"hour", c.Since, c.Until, c.CompleteUntil, c.Total, []entryCount{}}
	if c.Interval == atrium.Daily {
		all.Interval = "day"
	}
	series := append(slices.Clip(c.Series), c.Other)
	for period := range c.Periods() {
		start := c.Since + atrium.Time(period)*c.Interval.Micros()
		for _, s := range series {
			if n := s.Counts[period]; n > 0 {
				all.Items = append(all.Items, entryCount{start, s.Source, s.Type, n})
			}
		}
	}
	return all
}

func (a *API) countEntries(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	counts := atrium.CountQuery{Interval: atrium.Hourly, Series: defaultSeries}
	if interval, ok := q.Text("interval"); ok && interval == "day" {
		counts.Interval = atrium.Daily
	} else if ok && interval != "hour" {
		q.Fault("interval", "must be hour or day")
	}
	if text, ok := q.Text("series"); ok {
		n, ok := strictjson.Digits(text, atrium.MaxCountSeries)
		if counts.Series = int(n); !ok || n < 1 {
			q.Fault("series", fmt.Sprintf("must be a whole number from 1 to %d, in digits", atrium.MaxCountSeries))
		}
	}
	f := timelineFilter(q)
	counts.Source, counts.Type = f.Source, f.Type
	setPeriods(q, &counts, f.Since, f.Until, a.Store.Now())
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	found, err := a.Store.EntryCounts(ctx, who.TenantID, counts)
	if err != nil {
		return rest.Response{}, err
	}
	return rest.Response{Body: newEntryCounts(found)}, nil
}

// years are the first and the last time that RFC 3339 can express, in whole hours.
var years = [2]atrium.Time{
	atrium.At(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)),
	atrium.At(time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC)),
}

// setPeriods sets the range of counts to whole periods. A range that is too long, or leaves
// the years of RFC 3339, is a fault.
func setPeriods(q *rest.Query, counts *atrium.CountQuery, since, until *atrium.Time, now time.Time) {
	length, end := counts.Interval.Micros(), atrium.At(now)+1 // now is in the range
	if until != nil {
		end = *until
	}
	counts.Until = start(end+length-1, length)
	counts.Since = counts.Until - defaultPeriods[counts.Interval]*length
	if since != nil {
		counts.Since = start(*since, length)
	}
	switch most := counts.Interval.MaxPeriods(); {
	case counts.Until > years[1]:
		q.Fault("until", "must be earlier: its period ends after the year 9999")
	case counts.Since < years[0]:
		q.Fault("until", "must be later: the range without since begins before the year 0000")
	case since != nil && until != nil && *since >= *until:
		q.Fault("until", "must be after since")
	case since != nil && counts.Until-counts.Since > atrium.Time(most)*length || counts.Until <= counts.Since:
		q.Fault("since", fmt.Sprintf("must be at most %d days before until, in whole periods", most*int(counts.Interval)/24))
	}
}

// start returns the start of the period that contains a time, which may be before 1970.
func start(at, length atrium.Time) atrium.Time { return at - (at%length+length)%length }
