package console

import (
	"cmp"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"atrium"
)

// An overview is the home of a tenant.
type overview struct {
	Chart    stackedChart
	Range    string // of the chart
	Accounts list[account]
	Server   string // the address for the commands of empty states
	Ready    bool   // the service is
	Refused  refusedCounts

	Unattributed struct {
		Count   int64 `json:"count"`
		HasMore bool  `json:"hasMore"`
	} `json:"unattributed"`
	Schedules []struct {
		PageID atrium.PageID `json:"pageId"`
		Name   string        `json:"name"`
		Action string        `json:"action"`
		DueAt  string        `json:"dueAt"`
	} `json:"schedules"`
	ExpiringKeys []struct {
		KeyID     atrium.KeyID `json:"keyId"`
		Name      string       `json:"name"`
		ExpiresAt string       `json:"expiresAt"`
	} `json:"expiringKeys"`
}

// A chartRange is a range of the chart of entries. A bar has the counts of several hours or of a day.
type chartRange struct {
	name, title     constant
	phrase, bar     string
	interval        string
	hours, barHours int
}

var chartRanges = []chartRange{
	{"24h", "24 hours", "in 24 hours", "an hour", "hour", 24, 1},
	{"7d", "7 days", "in 7 days", "6 hours", "hour", 7 * 24, 6},
	{"90d", "90 days", "in 90 days", "a day", "day", 90 * 24, 24},
}

const newestAccounts = 5

// RangeLinks returns the links to the page with each range of the chart.
func (f frame) RangeLinks(current string) template.HTML {
	var m markup
	path := f.Path()
	for _, r := range chartRanges {
		m.text(`<a href="`, path)
		m.add("?range=" + r.name + `"`)
		if string(r.name) == current {
			m.add(` aria-current="true"`)
		}
		m.add(">" + r.title + "</a>")
	}
	return m.HTML()
}

// NewestAccounts returns the items of the list of the newest accounts.
func (f frame) NewestAccounts(accounts []account) template.HTML {
	var m markup
	path := f.Path("accounts") + "/"
	for i := range accounts {
		a := &accounts[i]
		m.text(`<li><a href="`, path+string(a.AccountID))
		m.text(`">`, atrium.Shorten(60, a.Title()))
		m.html(`</a><br><small class="quiet">`, showTime(a.CreatedAt))
		m.add(`</small></li>`)
	}
	return m.HTML()
}

func (c *Console) tenantHome(r *request) error {
	o := overview{Server: r.server(), Ready: c.Ready(r.http) == nil}
	shown := chartRanges[0]
	for _, candidate := range chartRanges {
		if string(candidate.name) == r.query("range") {
			shown = candidate
		}
	}
	o.Range = string(shown.name)
	if _, err := r.get(&o, "/overview", nil); err != nil {
		return err
	}
	if _, err := r.get(&o.Accounts, "/accounts", url.Values{"limit": {strconv.Itoa(newestAccounts)}}); err != nil {
		return err
	}
	if _, err := r.get(&o.Refused, "/refused_requests/counts", nil); err != nil {
		return err
	}
	var err error
	if o.Chart, err = r.readStackedChart(shown, time.Now()); err != nil {
		return err
	}
	return r.show("overview", "overview", "Overview", o)
}

// A stackedChart shows counts by period, source and type: stacked bars, and a table with the same numbers.
type stackedChart struct {
	Phrase        string
	Bar           string // the length of a bar
	Bars          []stackedBar
	Series        []series // the largest first; entries of all others are the last one
	Total, Most   int64
	CompleteUntil string // "" while entries are counted for the first time
	Hourly        bool   // bars are shorter than a day
	Activity      string // the path of the list of entries

	barLength time.Duration
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
	c.Activity, c.barLength = r.path("activity"), bar
	c.Series = seriesOf(counts.Items)
	period := url.Values{"since": {since.Format(time.RFC3339)}}
	for i := range c.Series {
		s := &c.Series[i]
		if s.Class = "series" + strconv.Itoa(i+1); s.Source == "" {
			s.Class = "others"
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
	for i := range c.Bars {
		c.Bars[i].stack(c.Series, c.Most)
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

// stack computes the parts of a bar from bottom to top. A part that has entries is visible.
func (b *stackedBar) stack(all []series, most int64) {
	y := stackedHeight
	for i, n := range b.Counts {
		if n == 0 {
			continue
		}
		height := max(1, int(n*stackedHeight/most))
		y = max(0, y-height)
		b.Parts = append(b.Parts, barPart{all[i].Class, y, height})
	}
}

// First returns the start of the first bar.
func (c stackedChart) First() string { return c.Bars[0].Title + " UTC" }

// Last returns the start of the last bar.
func (c stackedChart) Last() string { return c.Bars[len(c.Bars)-1].Title + " UTC" }

// Label describes the drawing to people who cannot see it.
func (c stackedChart) Label() string {
	texts := []string{showCount(c.Total) + " entries " + c.Phrase}
	for _, s := range c.Series {
		texts = append(texts, s.Title()+": "+showCount(s.Total))
	}
	return strings.Join(texts, ", ")
}

// Drawing returns the bars.
func (c stackedChart) Drawing() template.HTML {
	var m markup
	width := stackedWidth/len(c.Bars) - barGap
	for _, b := range c.Bars {
		if len(b.Parts) == 0 {
			continue
		}
		m.text(`<g><title>`, b.Title)
		m.add(`</title>`)
		for _, part := range b.Parts {
			m.text(`<rect class="`, part.Class)
			m.number(`" x="`, b.X)
			m.number(`" y="`, part.Y)
			m.number(`" width="`, width)
			m.number(`" height="`, part.Height)
			m.add(`"/>`)
		}
		m.add(`</g>`)
	}
	return m.HTML()
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
