package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"atrium"
)

// A findPage has the first accounts, prospects and pages that match the search of the header.
type findPage struct {
	Words     string
	Domain    string // the words that accounts are searched with
	Accounts  list[account]
	Prospects list[prospect]
	Pages     []sitePage
	Unread    bool // there are more pages than were examined
}

// Found reports whether anything matches.
func (p findPage) Found() bool { return len(p.Accounts.Items)+len(p.Prospects.Items)+len(p.Pages) > 0 }

// maxFound is how many results of a kind the page shows.
const maxFound = 10

// find leads to what an identifier names, or shows what matches words.
func (c *Console) find(r *request) error {
	p := findPage{Words: r.query("q")}
	if at := r.pathOf(p.Words); at != "" {
		http.Redirect(r.w, r.http, at, http.StatusSeeOther)
		return nil
	}
	if p.Words != "" {
		if err := r.refuse(r.findWords(&p)); err != nil {
			return err
		}
	}
	return r.show("find", "", "Search", p)
}

// pathOf returns the path of the page about what an identifier names, or of its records in the audit log; "" if it is not
// an identifier.
func (r *request) pathOf(id string) string {
	kind, suffix, ok := strings.Cut(id, "_")
	if !ok || !atrium.IsSuffix(suffix) {
		return ""
	}
	section := subjectSections[kind]
	switch {
	case section != "":
		return r.path(section, id)
	case kind == "req":
		return r.path("refused") + "?requestId=" + id
	case kind == "tenant":
		return prefix + "/" + id
	case slices.Contains([]string{"key", "audience", "version", "brand", "move", "preview", "erasure", "mapping", "replay"}, kind):
		return r.path("audit") + "?subject=" + id
	}
	return ""
}

// findWords searches accounts, prospects and pages.
func (r *request) findWords(p *findPage) error {
	limit := strconv.Itoa(maxFound)
	p.Domain = host(p.Words)
	if _, domain, _ := strings.Cut(p.Domain, "@"); domain != "" { // the account of an email address is that of its domain
		p.Domain = domain
	}
	if _, err := r.get(&p.Accounts, "/accounts", url.Values{"q": {p.Domain}, "limit": {limit}}); err != nil {
		return err
	}
	if _, err := r.get(&p.Prospects, "/prospects", url.Values{"q": {p.Words}, "limit": {limit}}); err != nil {
		return err
	}
	var pages list[sitePage] // the API does not search them
	if _, err := r.get(&pages, "/pages", url.Values{"limit": {strconv.Itoa(pageSize)}}); err != nil {
		return err
	}
	p.Unread = pages.HasMore
	p.Pages = slices.DeleteFunc(pages.Items, func(page sitePage) bool { return !containsWords(page.Name+" "+page.Title, p.Words) })
	p.Pages = p.Pages[:min(len(p.Pages), maxFound)]
	return nil
}

// containsWords reports whether a text contains every word of another, ignoring case.
func containsWords(text, words string) bool {
	text = strings.ToLower(text)
	for word := range strings.FieldsSeq(strings.ToLower(words)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
