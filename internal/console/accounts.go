package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/csvrows"
)

// An account is an account as lists of the API show it.
type account struct {
	AccountID        atrium.AccountID `json:"accountId"`
	Domain           string           `json:"domain"`
	Name             *string          `json:"name"`
	CreatedAt        string           `json:"createdAt"`
	UpdatedAt        string           `json:"updatedAt"`
	LatestActivityAt string           `json:"latestActivityAt"`
	Merged           []struct {
		AccountID  atrium.AccountID `json:"accountId"`
		Domain     string           `json:"domain"`
		Name       *string          `json:"name"`
		MergedInto atrium.AccountID `json:"mergedInto"`
	} `json:"merged"`
}

// Title returns what people call the account.
func (a account) Title() string {
	if a.Unattributed() {
		return "Entries without an account"
	}
	return named(a.Name, showDomain(a.Domain))
}

// Unattributed reports whether the account is that of entries that name no account.
func (a account) Unattributed() bool { return a.Domain == atrium.UnattributedDomain && a.Name == nil }

// NameText returns the name; "" for none.
func (a account) NameText() string { return text(a.Name) }

// Orders of the list of accounts, with the titles that people see.
var orders = []struct{ Value, Title string }{
	{"activity", "Latest activity"}, {"newest", "Newest"}, {"name", "Name"},
}

type accountsPage struct {
	Words, Order string
	Orders       any
	Accounts     list[account]
}

// accountsQuery returns the parameters of the API for the filters of the list of accounts.
func (r *request) accountsQuery() url.Values {
	words, order, query := r.query("q"), r.query("order"), url.Values{}
	if words != "" {
		query.Set("q", host(words))
	}
	if order != "" || words == "" { // by default, a search has the order of the words
		query.Set("order", cmp.Or(order, "activity"))
	}
	return query
}

func (c *Console) accountsCSV(r *request) error {
	return r.sendCSV("/accounts", "accounts.csv", "atrium accounts list -o csv", r.accountsQuery())
}

func (c *Console) listAccounts(r *request) error {
	p := accountsPage{Words: r.query("q"), Order: r.query("order"), Orders: orders}
	query, shown := r.accountsQuery(), url.Values{}
	query.Set("limit", strconv.Itoa(pageSize))
	for name, value := range map[string]string{"q": p.Words, "order": p.Order} {
		if value != "" {
			shown.Set(name, value)
		}
	}
	var err error
	if p.Accounts, err = readPages[account](r, "/accounts", query, shown); err != nil {
		return err
	}
	return r.show("accounts", "accounts", "Accounts", p)
}

func (c *Console) createAccount(r *request) error {
	body := map[string]any{"domain": r.form("domain")}
	if err := checkDomain(r.form("domain")); err != nil {
		return err
	}
	if name := r.form("name"); name != "" {
		body["name"] = name
	}
	a, err := r.call(call{method: http.MethodPost, path: "/accounts", body: body})
	if err != nil {
		return err
	}
	var made account
	if err := json.Unmarshal(a.body, &made); err != nil {
		return err
	}
	return r.redirect(r.path("accounts", string(made.AccountID)), "accountcreated")
}

// checkDomain returns an error about the field domain if its text is not a domain, as in an import of CSV. The API takes any
// text.
func checkDomain(text string) error {
	if !csvrows.IsDomain([]byte(text)) {
		return wrong("domain", csvrows.NotDomain)
	}
	return nil
}

// names are the titles of accounts by identifier.
type names map[atrium.AccountID]string

// Of returns the title of an account, or its identifier if it was merged or erased.
func (n names) Of(id atrium.AccountID) string { return cmp.Or(n[id], string(id)) }

// accountNames returns the titles of accounts.
func (r *request) accountNames(ids ...atrium.AccountID) (names, error) {
	accounts, err := r.accountsByID(ids...)
	found := names{}
	for id, a := range accounts {
		found[id] = a.Title()
	}
	return found, err
}

// accountsByID returns accounts by identifier, without those that were merged or erased.
func (r *request) accountsByID(ids ...atrium.AccountID) (map[atrium.AccountID]account, error) {
	found := map[atrium.AccountID]account{}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for some := range slices.Chunk(ids, atrium.MaxListedIDs) {
		texts := make([]string, len(some))
		for i, id := range some {
			texts[i] = string(id)
		}
		var page list[account]
		if _, err := r.get(&page, "/accounts", url.Values{"accountIds": {strings.Join(texts, ",")}, "limit": {strconv.Itoa(atrium.MaxListedIDs)}}); err != nil {
			return nil, err
		}
		for _, a := range page.Items {
			found[a.AccountID] = a
		}
	}
	return found, nil
}

// host returns the host of the address of a site, without www, and other words as they are.
func host(words string) string {
	_, rest, ok := strings.Cut(words, "://")
	if !ok {
		return words
	}
	host, _, _ := strings.Cut(rest, "/")
	return strings.TrimPrefix(host, "www.")
}

// A prospect is a prospect as lists of the API show it.
type prospect struct {
	ProspectID atrium.ProspectID `json:"prospectId"`
	Name       string            `json:"name"`
	Email      string            `json:"email"`
	Phone      string            `json:"phoneNumber"`
	Domain     string            `json:"domain"`
	Slug       string            `json:"slug"`
	LinkedIn   string            `json:"linkedinProfileUrl"`
	UpdatedAt  string            `json:"updatedAt"`
}

// Title returns what people call the prospect.
func (p prospect) Title() string { return cmp.Or(p.Name, p.Email, "Prospect without a name") }

type accountPage struct {
	Account   account
	Prospects list[prospect]
	Days      []day
	Timeline  list[entry]
	Chart     chart
	Unlinked  *prospect // which the user has just unlinked
}

// A day has the entries of one day, newest first.
type day struct {
	At      string // an instant of the day
	Entries []entry
}

// prospectsShown is how many prospects the page of an account shows.
const prospectsShown = "20"

// readAccount reads the account in the path, without its prospects.
func (r *request) readAccount() (a account, err error) {
	_, err = r.get(&a, "/accounts/"+url.PathEscape(r.http.PathValue("account_id")), url.Values{"linkedProspects": {"false"}})
	return a, err
}

func (c *Console) showAccount(r *request) error {
	var p accountPage
	var err error
	if p.Account, err = r.readAccount(); err != nil {
		return err
	}
	id := string(p.Account.AccountID)
	if _, err := r.get(&p.Prospects, "/prospects", url.Values{"accountId": {id}, "limit": {prospectsShown}}); err != nil {
		return err
	}
	if unlinked, ok := atrium.ParseID[atrium.ProspectID](r.query("unlinked")); ok {
		p.Unlinked = &prospect{}
		if _, err := r.get(p.Unlinked, "/prospects/"+string(unlinked), nil); err != nil {
			return err
		}
	}
	shown := url.Values{}
	query := url.Values{"limit": {"50"}, "include": {"summary"}}
	for _, name := range []string{"source", "type"} {
		if value := r.query(name); value != "" {
			query.Set(name, value)
			shown.Set(name, value)
		}
	}
	if p.Timeline, err = readPages[entry](r, "/accounts/"+id+"/activity", query, shown); err != nil {
		return err
	}
	p.Days = byDay(p.Timeline.Items)
	if whole := len(shown) == 0 && p.Timeline.First == "" && p.Timeline.Next == ""; whole {
		p.Chart = chartOf(chartStart(time.Now()), p.Timeline.Items)
	} else if p.Chart, err = r.readChart("/accounts/" + id + "/activity/counts"); err != nil {
		return err
	}
	return r.show("account", "accounts", p.Account.Title(), p)
}

// byDay groups entries, which are newest first, by their day in UTC.
func byDay(entries []entry) (days []day) {
	first := 0 // of the last day
	for i := range entries {
		at := entries[i].CreatedAt
		if n := len(days); n == 0 || days[n-1].At[:len("2006-01-02")] != at[:len("2006-01-02")] {
			days, first = append(days, day{At: at}), i
		}
		days[len(days)-1].Entries = entries[first : i+1]
	}
	return days
}

// unchanged returns errChanged if the account differs from what the user has seen, which hidden fields of the form contain.
func (r *request) unchanged(current account) error {
	if r.form("seen:name") == text(current.Name) && r.form("seen:domain") == current.Domain {
		return nil
	}
	return errChanged
}

// changeAccount sends a change of the account in the path, unless it has changed since the user saw it.
func (r *request) changeAccount(method, suffix string, body any) error {
	path := "/accounts/" + url.PathEscape(r.http.PathValue("account_id"))
	head, err := r.call(call{method: http.MethodHead, path: path})
	if err != nil {
		return err
	}
	current, err := r.readAccount()
	if err == nil {
		err = r.unchanged(current)
	}
	if err != nil {
		return err
	}
	_, err = r.call(call{method: method, path: path + suffix, ifMatch: head.tag, body: body, discard: true})
	return err
}

func (c *Console) renameAccount(r *request) error {
	change := map[string]any{}
	if name := r.form("name"); name != r.form("seen:name") {
		if change["name"] = name; name == "" {
			change["name"] = nil
		}
	}
	if domain := r.form("domain"); domain != r.form("seen:domain") {
		if err := checkDomain(domain); err != nil {
			return err
		}
		change["domain"] = domain
	}
	own := r.path("accounts", r.http.PathValue("account_id"))
	if len(change) == 0 {
		return r.redirect(own, "unchanged")
	}
	if err := r.changeAccount(http.MethodPatch, "", change); err != nil {
		return err
	}
	return r.redirect(own, "renamed")
}

// findAccount returns the account that a person names by its identifier, its domain or, if no other account is
// like it, its name.
func (r *request) findAccount(name string) (a account, err error) {
	if id, ok := atrium.ParseID[atrium.AccountID](name); ok {
		if _, err = r.get(&a, "/accounts/"+string(id), url.Values{"linkedProspects": {"false"}}); atrium.CodeOf(err) == atrium.CodeNotFound {
			err = atrium.Errorf(atrium.CodeNotFound, "No account has this ID.")
		}
		return a, err
	}
	var found list[account]
	if _, err = r.get(&found, "/accounts", url.Values{"domain": {name}, "limit": {"1"}}); err != nil {
		return a, err
	}
	if len(found.Items) == 1 {
		return found.Items[0], nil
	}
	if _, err = r.get(&found, "/accounts", url.Values{"q": {name}, "limit": {"5"}}); err != nil {
		return a, err
	}
	var same []account
	var domains []string
	for _, like := range found.Items {
		if strings.EqualFold(text(like.Name), name) {
			same = append(same, like)
		}
		domains = append(domains, like.Domain)
	}
	switch {
	case len(same) == 1 && !found.HasMore:
		return same[0], nil
	case len(domains) > 0:
		return a, atrium.Errorf(atrium.CodeNotFound, "Enter the domain of one account. These are like %s: %s.", name, strings.Join(domains, ", "))
	}
	return a, atrium.Errorf(atrium.CodeNotFound, "No account has the domain or name %s.", name)
}

type mergePage struct {
	Account, Into account
	Asked         string
	Found         bool
}

// mergePage asks for the account to merge into, and then shows what the merge does.
func (c *Console) mergePage(r *request) error {
	if err := r.require(atrium.ScopeManageAccounts); err != nil {
		return err
	}
	p := mergePage{Asked: r.query("into")}
	var err error
	if p.Account, err = r.readAccount(); err != nil {
		return err
	}
	if p.Asked != "" {
		p.Into, err = r.findAccount(p.Asked)
		if err == nil && p.Into.AccountID == p.Account.AccountID {
			err = wrong("into", "That is the same account.")
		}
		p.Found = err == nil
		if err := r.refuse(at("into", err)); err != nil {
			return err
		}
	}
	return r.show("merge", "accounts", "Merge "+p.Account.Title(), p)
}

func (c *Console) mergeAccount(r *request) error {
	into := r.form("into")
	if err := r.changeAccount(http.MethodPost, "/merge", map[string]any{"into": into}); err != nil {
		return err
	}
	return r.redirect(r.path("accounts", into), "merged", cmp.Or(r.form("seen:name"), r.form("seen:domain")))
}

func (c *Console) splitAccount(r *request) error {
	if err := r.changeAccount(http.MethodPost, "/split", map[string]any{"accountId": r.form("accountId")}); err != nil {
		return err
	}
	return r.redirect(r.path("accounts", r.form("accountId")), "split")
}

const maxSummary = atrium.MaxSummary

// An entry is an entry as the API shows it.
type entry struct {
	AccountLogID          atrium.EntryID   `json:"accountLogId"`
	AccountID             atrium.AccountID `json:"accountId"`
	AcknowledgedAccountID atrium.AccountID `json:"acknowledgedAccountId"`
	CreatedAt             string           `json:"createdAt"`
	OccurredAt            string           `json:"occurredAt"`
	Source                string           `json:"source"`
	Type                  string           `json:"type"`
	Claimed               struct {
		AccountID string `json:"accountId"`
		Domain    string `json:"domain"`
		Name      string `json:"name"`
	} `json:"claimed"`
	IdempotencyKey string         `json:"idempotencyKey"`
	MoveID         atrium.MoveID  `json:"moveId"`
	SubmittedBy    string         `json:"submittedBy"`
	RequestID      string         `json:"requestId"`
	PayloadBytes   int64          `json:"payloadBytes"`
	Payload        jsontext.Value `json:"payload"` // not in lists
	Summary        string         `json:"summary"` // only in lists
}
