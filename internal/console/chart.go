package console

import (
	"net/url"
	"slices"
	"strings"
	"time"
)

// A chart shows counts by day: bars, and a table with the same numbers.
type chart struct {
	Bars  []bar
	Most  int64
	Total int64
	Rows  []count // newest day first
}

// A bar is a day of a chart. X, Y and Height are in the units of the drawing.
type bar struct {
	Day          string // such as 2026-03-02
	Count        int64
	X, Y, Height int
}

// A count is the number of entries of a day with a source and type.
type count struct {
	Day    string `json:"day"`
	Source string `json:"source"`
	Type   string `json:"type"`
	Count  int64  `json:"count"`
}

const (
	chartDays   = 30
	chartHeight = 60 // of the highest bar
	barWidth    = 10
	chartCalls  = 5 // for counts; beyond, the chart is not complete
)

// readChart reads the counts of the last days.
func (r *request) readChart(path string) (c chart, err error) {
	today := time.Now().UTC().Truncate(24 * time.Hour)
	since := today.AddDate(0, 0, 1-chartDays)
	query := url.Values{"since": {since.Format(time.RFC3339)}, "limit": {"100"}}
	byDay := map[string]int64{}
	for range chartCalls {
		var some list[count]
		if _, err := r.get(&some, path, query); err != nil {
			return c, err
		}
		for _, n := range some.Items {
			byDay[n.Day] += n.Count
			c.add(n)
		}
		if !some.HasMore {
			break
		}
		query.Set("cursor", some.NextCursor)
	}
	for _, n := range byDay {
		c.Most = max(c.Most, n)
		c.Total += n
	}
	for i := range chartDays {
		day := since.AddDate(0, 0, i).Format(time.DateOnly)
		b := bar{Day: day, Count: byDay[day], X: i * barWidth}
		if b.Count > 0 {
			b.Height = max(2, int(b.Count*chartHeight/c.Most))
		}
		b.Y = chartHeight - b.Height
		c.Bars = append(c.Bars, b)
	}
	return c, nil
}

// add adds a count to the table. The API may split the counts of a day between two pages.
func (c *chart) add(n count) {
	i := slices.IndexFunc(c.Rows, func(row count) bool { return row.Day == n.Day && row.Source == n.Source && row.Type == n.Type })
	if i < 0 {
		c.Rows = append(c.Rows, n)
		return
	}
	c.Rows[i].Count += n.Count
}

// Width returns the width of the drawing.
func (c chart) Width() int { return chartDays * barWidth }

// Label describes the drawing to people who cannot see it.
func (c chart) Label() string {
	var days []string
	for _, b := range c.Bars {
		if b.Count > 0 {
			days = append(days, b.Day+": "+showCount(b.Count))
		}
	}
	if len(days) == 0 {
		return "No entries in the last 30 days"
	}
	return "Entries by day, " + strings.Join(days, ", ")
}
