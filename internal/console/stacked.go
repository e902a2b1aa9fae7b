package console

import (
	"cmp"
	"hash/fnv"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"atrium"
)

// A stackedChart shows counts by period, source and type: stacked bars, and a table with the same numbers.
type stackedChart struct {
	Phrase        string
	Bar           string // the length of a bar
	Bars          []stackedBar
	Series        []series // the largest first; entries of all others are the last one
	Total, Most   int64
	Top           int64  // of the axis: Most, rounded up
	Ticks         []tick // below the bars
	CompleteUntil string // "" while entries are counted for the first time
	Hourly        bool   // bars are shorter than a day
	Activity      string // the path of the list of entries

	since     time.Time
	barLength time.Duration
}

// A tick marks a time below the bars of a chart. Ticks have the same distance.
type tick struct {
	At    string // an instant, or a day in UTC
	Text  string
	Shown constant // how a script shows it
}

// A series is a source and type. Their texts are hostile.
type series struct {
	Source, Type string // "" for all others
	Class        string // of its color
	Total        int64
	Path         string // the list of its entries; "" for all others
}

// A stackedBar is a period. X is in the units of the drawing.
type stackedBar struct {
	Title  string // such as 2026-03-02 14:00
	Start  time.Time
	X      int
	Total  int64
	Parts  []barPart
	Counts []int64 // of every series
}

// A barPart is the part of a bar of one series.
type barPart struct {
	Class     string
	Y, Height int
}

const (
	stackedHeight = 160
	stackedWidth  = 960
	chartSeries   = 5 // with a color of their own
	chartColors   = 7
	barGap        = 2
)

type entryCount struct {
	Start  string `json:"start"`
	Source string `json:"source"`
	Type   string `json:"type"`
	Count  int64  `json:"count"`
}

// readStackedChart reads the counts of a range that ends with the current period.
func (r *request) readStackedChart(shown chartRange, now time.Time) (c stackedChart, err error) {
	bar := time.Duration(shown.barHours) * time.Hour
	until := now.UTC().Truncate(bar).Add(bar)
	since := until.Add(-time.Duration(shown.hours) * time.Hour)
	var counts struct {
		CompleteUntil string       `json:"completeUntil"`
		Total         int64        `json:"total"`
		Items         []entryCount `json:"items"`
	}
	if _, err := r.get(&counts, "/activity/counts", url.Values{
		"interval": {shown.interval}, "since": {since.Format(time.RFC3339)}, "until": {until.Format(time.RFC3339)}, "series": {strconv.Itoa(chartSeries)},
	}); err != nil {
		return c, err
	}
	bars, format := shown.hours/shown.barHours, time.DateOnly
	c = stackedChart{Bars: make([]stackedBar, bars), Phrase: shown.phrase, Bar: shown.bar, Total: counts.Total, CompleteUntil: counts.CompleteUntil, Hourly: shown.barHours < 24}
	c.Activity, c.since, c.barLength = r.path("activity"), since, bar
	c.Series = seriesOf(counts.Items)
	colorSeries(c.Series)
	period := url.Values{"since": {since.Format(time.RFC3339)}}
	for i := range c.Series {
		s := &c.Series[i]
		if s.Source == "" {
			continue
		}
		period.Set("source", s.Source)
		period.Set("type", s.Type)
		s.Path = address(c.Activity, period)
	}
	if c.Hourly {
		format = "2006-01-02 15:04"
	}
	for i := range bars {
		start := since.Add(time.Duration(i) * bar)
		c.Bars[i] = stackedBar{Title: start.Format(format), Start: start, X: i * stackedWidth / bars, Counts: make([]int64, len(c.Series))}
	}
	for _, n := range counts.Items {
		start, err := time.Parse(time.RFC3339Nano, n.Start)
		if err != nil {
			return c, err
		}
		b := &c.Bars[int(start.Sub(since)/bar)]
		b.Total += n.Count
		b.Counts[slices.IndexFunc(c.Series, func(s series) bool { return s.Source == n.Source && s.Type == n.Type })] += n.Count
		c.Most = max(c.Most, b.Total)
	}
	c.Top = roundUp(c.Most)
	for i := range c.Bars {
		c.Bars[i].stack(c.Series, c.Top)
	}
	for i := range shown.ticks {
		c.Ticks = append(c.Ticks, newTick(c.Bars[i*bars/shown.ticks].Start, shown))
	}
	return c, nil
}

// seriesOf returns the series of counts, the largest first and all others last.
func seriesOf(items []entryCount) (all []series) {
	for _, n := range items {
		i := slices.IndexFunc(all, func(s series) bool { return s.Source == n.Source && s.Type == n.Type })
		if i < 0 {
			i = len(all)
			all = append(all, series{Source: n.Source, Type: n.Type})
		}
		all[i].Total += n.Count
	}
	slices.SortStableFunc(all, func(a, b series) int {
		switch {
		case a.Source == "" && b.Source != "":
			return 1
		case a.Source != "" && b.Source == "":
			return -1
		}
		return cmp.Compare(b.Total, a.Total)
	})
	return all
}

// colorSeries gives each series the color that its names select, or the next one that is free. So it keeps its color
// when the order of the series changes.
func colorSeries(all []series) {
	order := make([]int, len(all))
	for i := range all {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(all[a].Source, all[b].Source), cmp.Compare(all[a].Type, all[b].Type))
	})
	var used [chartColors]bool
	for _, i := range order {
		if all[i].Source == "" {
			all[i].Class = "others"
			continue
		}
		h := fnv.New32a()
		_, _ = h.Write([]byte(all[i].Source + "\x00" + all[i].Type)) // never fails
		color := int(h.Sum32() % chartColors)
		for used[color] {
			color = (color + 1) % chartColors
		}
		used[color] = true
		all[i].Class = "series" + strconv.Itoa(color+1)
	}
}

// minTop is the least top of an axis, so that a few entries do not look like many.
const minTop = 6

// roundUp returns a round number that is even, at least a count and at least minTop.
func roundUp(count int64) int64 {
	if count <= minTop {
		return minTop
	}
	for scale := int64(1); ; scale *= 10 {
		for _, n := range []int64{8, 10, 20, 40, 60} {
			if top := n * scale; top >= count {
				return top
			}
		}
	}
}

// newTick returns the tick at the start of a bar of a range.
func newTick(at time.Time, shown chartRange) tick {
	switch {
	case shown.interval == "day":
		return tick{at.Format(time.DateOnly), at.Format("2 Jan"), "day"}
	case shown.hours > 24:
		return tick{at.Format(time.RFC3339), at.Format("Mon 15:04 UTC"), "weekday"}
	}
	return tick{at.Format(time.RFC3339), at.Format("15:04 UTC"), "clock"}
}

// stack computes the parts of a bar from bottom to top. A part that has entries is visible.
func (b *stackedBar) stack(all []series, top int64) {
	y := stackedHeight
	for i, n := range b.Counts {
		if n == 0 {
			continue
		}
		height := max(1, int(n*stackedHeight/top))
		y = max(0, y-height)
		b.Parts = append(b.Parts, barPart{all[i].Class, y, height})
	}
}

// Half returns the number at the middle of the axis.
func (c stackedChart) Half() int64 { return c.Top / 2 }

// Label describes the drawing to people who cannot see it.
func (c stackedChart) Label() string {
	texts := []string{showCount(c.Total) + " entries " + c.Phrase}
	for _, s := range c.Series {
		texts = append(texts, s.Title()+": "+showCount(s.Total))
	}
	return strings.Join(texts, ", ")
}

// Drawing returns the bars. In front of each is an area of full height that shows its number.
func (c stackedChart) Drawing() template.HTML {
	var m, areas markup
	zone := constant(" UTC")
	if !c.Hourly {
		zone = ""
	}
	areas.add(`<g class="hit">`)
	for _, b := range c.Bars {
		if b.Total == 0 {
			continue
		}
		for _, part := range b.Parts {
			m.text(`<rect class="`, part.Class)
			m.number(`" x="`, b.X)
			m.number(`" y="`, part.Y)
			m.number(`" width="`, stackedWidth/len(c.Bars)-barGap)
			m.number(`" height="`, part.Height)
			m.add(`"/>`)
		}
		areas.number(`<rect x="`, b.X)
		areas.number(`" width="`, stackedWidth/len(c.Bars))
		areas.number(`" height="`, stackedHeight)
		areas.text(`"><title>`, b.Title)
		areas.text(zone+": ", showCount(b.Total))
		areas.add(`</title></rect>`)
	}
	areas.add(`</g>`)
	return m.HTML() + areas.HTML()
}

// TableRows returns the rows of bars with entries, the newest first.
func (c stackedChart) TableRows() template.HTML {
	var m markup
	for _, b := range slices.Backward(c.Bars) {
		if b.Total == 0 {
			continue
		}
		m.text(`<tr><th scope="row">`, b.Title)
		m.add(`</th>`)
		for _, n := range b.Counts {
			m.text(`<td class="number">`, showCount(n))
			m.add(`</td>`)
		}
		m.text(`<td class="number"><a href="`, c.Activity)
		m.text(`?since=`, url.QueryEscape(b.Start.Format(time.RFC3339)))
		m.text(`&amp;until=`, url.QueryEscape(b.Start.Add(c.barLength).Format(time.RFC3339)))
		m.text(`">`, showCount(b.Total))
		m.add(`</a></td></tr>`)
	}
	return m.HTML()
}

// Title names a series.
func (s series) Title() string {
	if s.Source == "" {
		return "all others"
	}
	return atrium.Shorten(40, s.Source) + " " + atrium.Shorten(40, s.Type)
}
