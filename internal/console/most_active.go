package console

import (
	"bytes"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/csvrows"
	"atrium/internal/rest"
)

// An activeRange is a range of the page of the most active accounts, which ends now.
type activeRange struct {
	Value, Title string
	length       time.Duration
}

var activeRanges = []activeRange{{"24h", "24 hours", 24 * time.Hour}, {"7d", "7 days", 7 * 24 * time.Hour}, {"30d", "30 days", 30 * 24 * time.Hour}}

// mostActive are the accounts with the most entries as the API shows them.
type mostActive[T any] struct {
	Since        string `json:"since"`
	CountedSince string `json:"countedSince"`
	Entries      int64  `json:"entries"`
	Items        []T    `json:"items"`
}

// Partial reports whether the range has more entries than were counted.
func (m mostActive[T]) Partial() bool { return m.CountedSince != m.Since }

// A countedAccount is an account with its number of entries.
type countedAccount struct {
	account
	Entries int64  `json:"entries"`
	Path    string `json:"-"` // of the list of these entries
}

type mostActivePage struct {
	Ranges       []activeRange
	Range        activeRange
	Source, Type string
	MaxEntries   int64
	Unattributed string // the path of the list of entries without an account
	Found        mostActive[countedAccount]
}

const mostActivePath = "/activity/accounts"

// activeRange returns the range that the URL names, by default a week.
func (r *request) activeRange() activeRange {
	for _, named := range activeRanges {
		if named.Value == r.query("range") {
			return named
		}
	}
	return activeRanges[1]
}

// mostActiveQuery returns the parameters of the API for a list of the most active accounts, and those of the list of
// the entries that it counts, without since.
func (r *request) mostActiveQuery(limit int) (query, entries url.Values) {
	query, entries = url.Values{}, url.Values{}
	for _, name := range []string{"source", "type"} {
		if value := r.query(name); value != "" {
			query.Set(name, value)
			entries.Set(name, value)
		}
	}
	query.Set("since", time.Now().UTC().Add(-r.activeRange().length).Format(time.RFC3339))
	query.Set("limit", strconv.Itoa(limit))
	return query, entries
}

func (c *Console) listMostActive(r *request) error {
	p := mostActivePage{Ranges: activeRanges, Range: r.activeRange(), Source: r.query("source"), Type: r.query("type"), MaxEntries: atrium.MaxMostActiveEntries}
	query, entries := r.mostActiveQuery(pageSize)
	if _, err := r.get(&p.Found, mostActivePath, query); err != nil {
		return err
	}
	entries.Set("since", p.Found.CountedSince)
	for i := range p.Found.Items {
		a := &p.Found.Items[i]
		entries.Set("accountId", string(a.AccountID))
		a.Path = address(r.path("activity"), entries)
	}
	entries.Del("accountId")
	entries.Set("unattributed", "true")
	p.Unattributed = address(r.path("activity"), entries)
	return r.show("mostactive", "accounts", "Most active accounts", p)
}

func (c *Console) mostActiveCSV(r *request) error {
	var b bytes.Buffer
	if err := r.encodeMostActive(&b); err != nil {
		return err
	}
	attach(r.w.Header(), contentTypeCSV, "active.csv")
	return r.sendPart(&b)
}

// encodeMostActive writes the most active accounts as CSV, within the limits of pages.
func (r *request) encodeMostActive(b *bytes.Buffer) error {
	release, err := rest.Admit(r.http.Context(), r.w, r.console.Pages, r.user.TenantID)
	if err != nil {
		return err
	}
	defer release()
	var found mostActive[jsontext.Value]
	query, _ := r.mostActiveQuery(csvPage)
	if _, err := r.get(&found, mostActivePath, query); err != nil {
		return err
	}
	b.WriteString(byteOrderMark)
	rows := csvrows.NewEncoder(b, csvrows.Lists[mostActivePath], nil, true)
	if err := r.heavily(func() error { return rows.Encode(found.Items) }); err != nil || !found.Partial() {
		return err
	}
	return rows.Note("There are more than " + showCount(atrium.MaxMostActiveEntries) + " entries since " + found.Since + ". Only those since " + found.CountedSince + " are counted")
}
