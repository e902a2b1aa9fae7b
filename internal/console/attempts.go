package console

import (
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// An attemptHour has the attempts of a webhook in an hour, as the API shows it.
type attemptHour struct {
	StartsAt         string `json:"startsAt"`
	Attempts         int64  `json:"attempts"`
	Succeeded        int64  `json:"succeeded"`
	AverageLatencyMs int64  `json:"averageLatencyMs"`
	MaxLatencyMs     int64  `json:"maxLatencyMs"`
}

// An attemptRange is a range of the charts of a webhook.
type attemptRange struct {
	name, title constant
	hours       int
}

var attemptRanges = []attemptRange{{"24h", "24 hours", 24}, {"7d", "7 days", 7 * 24}}

// attemptRangeOf returns the range with a name, or the first one.
func attemptRangeOf(name string) attemptRange {
	for _, r := range attemptRanges {
		if string(r.name) == name {
			return r
		}
	}
	return attemptRanges[0]
}

// An attemptChart shows the attempts of a webhook by hour: how many succeeded and failed, and how long they took.
type attemptChart struct {
	Phrase           string // such as "24 hours"
	Attempts, Failed int64
	Most, MaxLatency int64 // of an hour; milliseconds
	First, Last      string
	Hours            []attemptHour // with attempts, the newest first
	Links            template.HTML // to the other ranges
	since            time.Time
	bars             int
}

// readAttempts reads the attempts and the progress of the webhook that the URL names.
func (r *request) readAttempts(shown attemptRange) (c attemptChart, p webhookProgress, err error) {
	var stats struct {
		Progress webhookProgress `json:"progress"`
		Hours    []attemptHour   `json:"hours"`
	}
	if _, err = r.get(&stats, r.webhookPath()+"/stats", url.Values{"hours": {strconv.Itoa(shown.hours)}}); err != nil {
		return c, p, err
	}
	c = newAttemptChart(time.Now(), shown, stats.Hours)
	c.Links = attemptLinks(r.http.URL.Path, shown)
	return c, stats.Progress, nil
}

// newAttemptChart returns the chart of the hours up to now. hours are those with attempts, the oldest first.
func newAttemptChart(now time.Time, shown attemptRange, hours []attemptHour) attemptChart {
	last := now.UTC().Truncate(time.Hour)
	c := attemptChart{
		Phrase: string(shown.title), bars: shown.hours,
		since: last.Add(-time.Duration(shown.hours-1) * time.Hour),
	}
	c.First, c.Last = c.since.Format("2006-01-02 15:04"), last.Format("2006-01-02 15:04")
	for _, h := range hours {
		if c.place(h) < 0 {
			continue // it has become too old in the meantime
		}
		c.Attempts += h.Attempts
		c.Failed += h.Attempts - h.Succeeded
		c.Most, c.MaxLatency = max(c.Most, h.Attempts), max(c.MaxLatency, h.AverageLatencyMs)
		c.Hours = append(c.Hours, h)
	}
	slices.Reverse(c.Hours)
	return c
}

// place returns the number of the bar of an hour; -1 if it has none.
func (c attemptChart) place(h attemptHour) int {
	start, err := time.Parse(time.RFC3339Nano, h.StartsAt)
	if err != nil || start.Before(c.since) {
		return -1
	}
	if bar := int(start.Sub(c.since) / time.Hour); bar < c.bars {
		return bar
	}
	return -1
}

// Label describes the attempts to people who cannot see the drawing.
func (c attemptChart) Label() string {
	return showCount(c.Attempts) + " attempts in " + c.Phrase + ", " + showCount(c.Failed) + " of them failed"
}

// LatencyLabel describes the latencies to people who cannot see the drawing.
func (c attemptChart) LatencyLabel() string {
	return "average time of an attempt by hour, at most " + showCount(c.MaxLatency) + " ms"
}

// Drawing returns the bars of attempts: those that failed above those that succeeded.
func (c attemptChart) Drawing() template.HTML {
	var m markup
	for _, h := range c.Hours {
		m.text(`<g><title>`, h.StartsAt+": "+showCount(h.Succeeded)+" succeeded, "+showCount(h.Attempts-h.Succeeded)+" failed")
		m.add(`</title>`)
		y := stackedHeight
		for _, part := range []struct {
			class constant
			n     int64
		}{{"succeeded", h.Succeeded}, {"failed", h.Attempts - h.Succeeded}} {
			if part.n > 0 {
				height := min(y, max(1, int(part.n*stackedHeight/c.Most)))
				y -= height
				c.rect(&m, part.class, h, y, height)
			}
		}
		m.add(`</g>`)
	}
	return m.HTML()
}

// LatencyDrawing returns the bars of average latencies.
func (c attemptChart) LatencyDrawing() template.HTML {
	var m markup
	for _, h := range c.Hours {
		m.text(`<g><title>`, h.StartsAt+": "+showCount(h.AverageLatencyMs)+" ms on average, at most "+showCount(h.MaxLatencyMs)+" ms")
		m.add(`</title>`)
		height := max(1, int(h.AverageLatencyMs*chartHeight/max(1, c.MaxLatency)))
		c.rect(&m, "series1", h, chartHeight-height, height)
		m.add(`</g>`)
	}
	return m.HTML()
}

func (c attemptChart) rect(m *markup, class constant, h attemptHour, y, height int) {
	m.add(`<rect class="` + class)
	m.number(`" x="`, c.place(h)*stackedWidth/c.bars)
	m.number(`" y="`, y)
	m.number(`" width="`, max(1, stackedWidth/c.bars-barGap))
	m.number(`" height="`, height)
	m.add(`"/>`)
}

// attemptLinks returns the links to the charts of all ranges.
func attemptLinks(path string, current attemptRange) template.HTML {
	var m markup
	for _, r := range attemptRanges {
		m.text(`<a href="`, path)
		m.add("?range=" + r.name + `"`)
		if r.name == current.name {
			m.add(` aria-current="true"`)
		}
		m.add(">" + r.title + "</a>")
	}
	return m.HTML()
}
