package console

import (
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"time"

	"atrium"
)

// An overview is the home of a tenant.
type overview struct {
	Concerns []concern
	SeesAll  bool // everything that can need attention
	Figures  []figure
	Chart    stackedChart
	Range    string        // of the chart
	Newest   []account     // without that of entries without an account
	Server   string        // the address for the commands of empty states
	Refused  refusedCounts // of programs: people have seen what was wrong with their form

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
	ticks           int // of which each is at the start of a bar
	interval        string
	hours, barHours int
}

var chartRanges = []chartRange{
	{"24h", "24 hours", "in 24 hours", "an hour", 4, "hour", 24, 1},
	{"7d", "7 days", "in 7 days", "6 hours", 4, "hour", 7 * 24, 6},
	{"90d", "90 days", "in 90 days", "a day", 5, "day", 90 * 24, 24},
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

// newest returns the newest of accounts.
func newest(accounts []account) []account {
	accounts = slices.DeleteFunc(accounts, account.Unattributed)
	return accounts[:min(len(accounts), newestAccounts)]
}

// NewestAccounts returns the items of the list of the newest accounts.
func (f frame) NewestAccounts(accounts []account) template.HTML {
	var m markup
	path := f.Path("accounts") + "/"
	for i := range accounts {
		a := &accounts[i]
		m.text(`<li class="pair"><a href="`, path+string(a.AccountID))
		m.text(`">`, atrium.Shorten(60, a.Title()))
		m.html(`</a> <small class="quiet">`, showTime(a.CreatedAt))
		m.add(`</small></li>`)
	}
	return m.HTML()
}

func (c *Console) tenantHome(r *request) error {
	o := overview{Server: r.server(), SeesAll: r.may(atrium.ScopeManageEvents) && r.may(atrium.ScopeManageReceivers)}
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
	var accounts list[account]
	if _, err := r.get(&accounts, "/accounts", url.Values{"limit": {strconv.Itoa(newestAccounts + 1)}}); err != nil {
		return err
	}
	o.Newest = newest(accounts.Items)
	if _, err := r.get(&o.Refused, "/refused_requests/counts", url.Values{"sentBy": {string(atrium.SentByPrograms)}}); err != nil {
		return err
	}
	var err error
	if o.Chart, err = r.readStackedChart(shown, time.Now()); err != nil {
		return err
	}
	o.Figures = r.figures(&o)
	if o.Concerns, err = r.concerns(&o, c.Ready(r.http) == nil); err != nil {
		return err
	}
	return r.show("overview", "overview", "Overview", o)
}

// A figure is a number of the overview in large type, which leads to the list behind it.
type figure struct {
	Count int64
	More  bool // the number is at least Count
	Title string
	Path  string
}

// figures returns the figures of the overview for the range of its chart.
func (r *request) figures(o *overview) []figure {
	c, without, refused := &o.Chart, o.Unattributed.Count, o.Refused.Count
	return []figure{
		{Count: c.Total, Title: oneOr(c.Total, "entry ", "entries ") + c.Phrase, Path: address(c.Activity, url.Values{"since": {c.since.Format(time.RFC3339)}})},
		{Count: without, More: o.Unattributed.HasMore, Title: oneOr(without, "entry", "entries") + " without an account", Path: c.Activity + "?unattributed=true"},
		{Count: refused, Title: oneOr(refused, "request", "requests") + " refused in 24 hours", Path: r.refusedPath(o)},
	}
}

// refusedPath returns the path of the list of the refused requests that the overview counts.
func (r *request) refusedPath(o *overview) string {
	return address(r.path("refused"), url.Values{"sentBy": {string(atrium.SentByPrograms)}, "since": {o.Refused.Since}})
}

// oneOr returns the word for one thing, or for several.
func oneOr(n int64, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}
