package console

import (
	"html"
	"html/template"
	"strconv"
	"strings"

	"atrium"
)

// A markup builds the HTML of what a page has much of, such as navigation, bars and rows: a template takes much
// longer. Texts are escaped for the places that they have after constants here: between tags, and in quoted attributes
// other than scripts, styles and addresses from elsewhere.
type markup struct{ b strings.Builder }

// A constant is HTML of this package. The compiler converts no variable to it, so a text from elsewhere is never
// taken for HTML.
type constant string

// add appends HTML.
func (m *markup) add(html constant) { m.b.WriteString(string(html)) }

// text appends HTML and a text, which is escaped.
func (m *markup) text(before constant, text string) {
	m.add(before)
	m.b.WriteString(html.EscapeString(text))
}

// number appends HTML and a number.
func (m *markup) number(before constant, n int) {
	m.add(before)
	var digits [20]byte
	m.b.Write(strconv.AppendInt(digits[:0], int64(n), 10))
}

// html appends HTML that is safe already.
func (m *markup) html(before constant, shown template.HTML) {
	m.add(before)
	m.b.WriteString(string(shown))
}

// HTML returns what was appended.
func (m *markup) HTML() template.HTML { return template.HTML(m.b.String()) } //nolint:gosec // has constants and escaped texts only

// usualRow is the number of bytes for which room is made for a row of entries.
const usualRow = 512

// TimelineRows returns the rows of a day of a timeline.
func (f frame) TimelineRows(entries []entry) template.HTML {
	var m markup
	m.b.Grow(usualRow * len(entries))
	path := f.Path("activity") + "/"
	for i := range entries {
		e := &entries[i]
		m.html(`<li><span class="when">`, showClock(e.CreatedAt))
		m.text(`</span> <span class="tag">`, atrium.Shorten(40, e.Source))
		m.text(`</span> <a href="`, path+string(e.AccountLogID))
		m.text(`">`, atrium.Shorten(60, e.Type))
		m.text(`</a> <span class="summary">`, e.Summary)
		m.add(`</span></li>`)
	}
	return m.HTML()
}

// ActivityRows returns the rows of a list of entries.
func (f frame) ActivityRows(p activityPage) template.HTML {
	var m markup
	m.b.Grow(usualRow * len(p.Entries.Items))
	entries, accounts := f.Path("activity")+"/", f.Path("accounts")+"/"
	for i := range p.Entries.Items {
		e := &p.Entries.Items[i]
		m.text(`<tr data-id="`, string(e.AccountLogID))
		m.html(`"><td>`, showTime(e.CreatedAt))
		m.text(`</td><td>`, atrium.Shorten(40, e.Source))
		m.text(`</td><td class="first"><a href="`, entries+string(e.AccountLogID))
		m.text(`">`, atrium.Shorten(60, e.Type))
		m.add(`</a>`)
		if e.Summary != "" {
			m.text(`<br><small class="quiet">`, e.Summary)
			m.add(`</small>`)
		}
		m.text(`</td><td><a href="`, accounts+string(e.AccountID))
		m.text(`">`, atrium.Shorten(60, p.Names.Of(e.AccountID)))
		m.add(`</a>`)
		if e.MoveID != "" {
			m.add(`<br><small class="quiet">moved`)
			if e.Claimed.Domain != "" {
				m.text(`; the entry says `, atrium.Shorten(60, e.Claimed.Domain))
			}
			m.add(`</small>`)
		}
		m.text(`</td><td class="number">`, showBytes(e.PayloadBytes))
		m.add(`</td></tr>`)
	}
	return m.HTML()
}
