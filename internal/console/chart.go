package console

import (
	"cmp"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"time"
)

// A chart shows counts by day: bars, and a table with the same numbers.
type chart struct {
	Bars  []bar
	Top   int64 // of the axis
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

// chartStart returns the first day of the chart of a moment.
func chartStart(now time.Time) time.Time {
	return now.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-chartDays)
}

// readChart reads the counts of the last days.
func (r *request) readChart(path string) (chart, error) {
	since := chartStart(time.Now())
	query := url.Values{"since": {since.Format(time.RFC3339)}, "limit": {"100"}}
	var counts []count
	for range chartCalls {
		var some list[count]
		if _, err := r.get(&some, path, query); err != nil {
			return chart{}, err
		}
		counts = append(counts, some.Items...)
		if !some.HasMore {
			break
		}
		query.Set("cursor", some.NextCursor)
	}
	return newChart(since, counts), nil
}

// chartOf returns the chart from a day on of entries, which are all of the account.
func chartOf(since time.Time, entries []entry) chart {
	first := since.Format(time.DateOnly)
	var counts []count
	for i := range entries {
		if day := entries[i].CreatedAt[:len(first)]; day >= first {
			counts = append(counts, count{day, entries[i].Source, entries[i].Type, 1})
		}
	}
	return newChart(since, counts)
}

// newChart returns the chart of counts. There may be several of a day, source and type.
func newChart(since time.Time, counts []count) (c chart) {
	slices.SortFunc(counts, func(a, b count) int {
		return cmp.Or(cmp.Compare(b.Day, a.Day), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Type, b.Type))
	})
	byDay := map[string]int64{}
	for _, n := range counts {
		byDay[n.Day] += n.Count
		if last := len(c.Rows) - 1; last >= 0 && c.Rows[last].Day == n.Day && c.Rows[last].Source == n.Source && c.Rows[last].Type == n.Type {
			c.Rows[last].Count += n.Count
			continue
		}
		c.Rows = append(c.Rows, n)
	}
	for _, n := range byDay {
		c.Top = max(c.Top, n)
		c.Total += n
	}
	c.Top = roundUp(c.Top)
	for i := range chartDays {
		day := since.AddDate(0, 0, i).Format(time.DateOnly)
		b := bar{Day: day, Count: byDay[day], X: i * barWidth}
		if b.Count > 0 {
			b.Height = max(2, int(b.Count*chartHeight/c.Top))
		}
		b.Y = chartHeight - b.Height
		c.Bars = append(c.Bars, b)
	}
	return c
}

// Drawing returns the bars of days with entries. In front of each is an area of full height that shows its number.
func (c chart) Drawing() template.HTML {
	var m, areas markup
	areas.add(`<g class="hit">`)
	for _, b := range c.Bars {
		if b.Count == 0 {
			continue
		}
		m.number(`<rect x="`, b.X)
		m.number(`" y="`, b.Y)
		m.number(`" width="8" height="`, b.Height)
		m.add(`"/>`)
		areas.number(`<rect x="`, b.X)
		areas.number(`" width="`, barWidth)
		areas.number(`" height="`, chartHeight)
		areas.text(`"><title>`, b.Day)
		areas.text(`: `, showCount(b.Count))
		areas.add(`</title></rect>`)
	}
	areas.add(`</g>`)
	return m.HTML() + areas.HTML()
}

// Half returns the number at the middle of the axis.
func (c chart) Half() int64 { return c.Top / 2 }

// Ticks returns the days below the bars.
func (c chart) Ticks() (ticks []tick) {
	const count = 5
	for i := range count {
		day := c.Bars[i*chartDays/count].Day
		at, err := time.Parse(time.DateOnly, day)
		if err != nil {
			continue // not a day
		}
		ticks = append(ticks, newTick(at, chartRange{interval: "day"}))
	}
	return ticks
}

// TableRows returns the rows of the table.
func (c chart) TableRows() template.HTML {
	var m markup
	for _, row := range c.Rows {
		m.text(`<tr><td>`, row.Day)
		m.text(`</td><td>`, row.Source)
		m.text(`</td><td>`, row.Type)
		m.text(`</td><td class="number">`, showCount(row.Count))
		m.add(`</td></tr>`)
	}
	return m.HTML()
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
