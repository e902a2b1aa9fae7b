package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"atrium"
)

// A prospectField is a field of a prospect in forms.
type prospectField struct{ Name, Title, Value string }

// Fields returns the fields of a prospect.
func (p prospect) Fields() []prospectField {
	return []prospectField{
		{"name", "Name", p.Name}, {"email", "Email", p.Email}, {"phoneNumber", "Phone", p.Phone}, {"domain", "Domain", p.Domain},
		{"slug", "Slug", p.Slug}, {"linkedinProfileUrl", "LinkedIn", p.LinkedIn},
	}
}

type prospectsPage struct {
	Words     string
	Account   account // whose prospects are shown; zero for all
	Prospects list[prospect]
}

// prospectFilters are the parameters of the list of prospects.
var prospectFilters = []string{"q", "accountId"}

func (c *Console) listProspects(r *request) error {
	p := prospectsPage{Words: r.query("q")}
	if id := r.query("accountId"); id != "" {
		if _, err := r.get(&p.Account, "/accounts/"+url.PathEscape(id), url.Values{"linkedProspects": {"false"}}); err != nil {
			return err
		}
	}
	var err error
	if p.Prospects, err = readList[prospect](r, "/prospects", prospectFilters...); err != nil {
		return err
	}
	return r.show("prospects", "prospects", "Prospects", p)
}

type prospectPage struct {
	Prospect prospect
	Tag      string // what the user has seen
	Accounts []atrium.AccountID
	More     bool  // of Accounts
	Names    names // of Accounts
}

func (r *request) prospectPath() string {
	return "/prospects/" + url.PathEscape(r.http.PathValue("prospect_id"))
}

func (c *Console) showProspect(r *request) error {
	var found struct {
		prospect
		AccountIDs        []atrium.AccountID `json:"accountIds"`
		AccountIDsHasMore bool               `json:"accountIdsHasMore"`
	}
	tag, err := r.get(&found, r.prospectPath(), nil)
	if err != nil {
		return err
	}
	p := prospectPage{Prospect: found.prospect, Tag: tag, Accounts: found.AccountIDs, More: found.AccountIDsHasMore}
	if p.Names, err = r.accountNames(found.AccountIDs...); err != nil {
		return err
	}
	return r.show("prospect", "prospects", p.Prospect.Title(), p)
}

// updateProspect changes the fields that the user has changed. Hidden fields have what the user has seen.
func (c *Console) updateProspect(r *request) error {
	change := map[string]any{}
	for _, f := range (prospect{}).Fields() {
		if value := r.form(f.Name); value != r.form("seen:"+f.Name) {
			if change[f.Name] = value; value == "" {
				change[f.Name] = nil
			}
		}
	}
	own := r.path("prospects", r.http.PathValue("prospect_id"))
	if len(change) == 0 {
		return r.redirect(own, "unchanged")
	}
	if _, err := r.call(call{method: http.MethodPatch, path: r.prospectPath(), ifMatch: r.form("tag"), body: change}); err != nil {
		return err
	}
	return r.redirect(own, "prospect")
}

// createProspect creates a prospect and links it to the account in the path.
func (c *Console) createProspect(r *request) error {
	account := r.http.PathValue("account_id")
	if _, err := r.get(&struct{}{}, "/accounts/"+url.PathEscape(account), nil); err != nil { // before the prospect is stored
		return err
	}
	body := map[string]any{}
	for _, f := range (prospect{}).Fields() {
		if value := r.form(f.Name); value != "" {
			body[f.Name] = value
		}
	}
	a, err := r.call(call{method: http.MethodPost, path: "/prospects", body: body})
	if err != nil {
		return err
	}
	var made prospect
	if err := json.Unmarshal(a.body, &made); err != nil {
		return err
	}
	if _, err := r.call(call{method: http.MethodPut, path: "/accounts/" + url.PathEscape(account) + "/prospects/" + string(made.ProspectID)}); err != nil {
		r.kept = "The prospect was created, but not linked to the account."
		return err
	}
	return r.redirect(r.path("accounts", account), "prospectcreated", made.Title())
}

// linkProspect links an existing prospect, which the user names, to the account in the path.
func (c *Console) linkProspect(r *request) error {
	account := r.http.PathValue("account_id")
	id, err := r.findProspect(r.form("prospect"))
	if err != nil {
		return at("prospect", err)
	}
	if err := r.link(account, string(id)); err != nil {
		return err
	}
	return r.redirect(r.path("accounts", account), "linked")
}

// linkToAccount links the prospect in the path to an account, which the user names.
func (c *Console) linkToAccount(r *request) error {
	id := r.http.PathValue("prospect_id")
	a, err := r.findAccount(r.form("account"))
	if err != nil {
		return at("account", err)
	}
	if err := r.link(string(a.AccountID), id); err != nil {
		return err
	}
	return r.redirect(r.path("prospects", id), "linked")
}

func (r *request) link(account, prospect string) error {
	_, err := r.call(call{method: http.MethodPut, path: "/accounts/" + url.PathEscape(account) + "/prospects/" + url.PathEscape(prospect)})
	return err
}

// findProspect returns the prospect that a person names by its identifier or its email address.
func (r *request) findProspect(name string) (found atrium.ProspectID, err error) {
	unknown := atrium.Errorf(atrium.CodeNotFound, "No prospect has this email address or ID.")
	if id, ok := atrium.ParseID[atrium.ProspectID](name); ok {
		if _, err = r.get(&struct{}{}, "/prospects/"+string(id), nil); atrium.CodeOf(err) == atrium.CodeNotFound {
			err = unknown
		}
		return id, err
	}
	if !atrium.IsEmail(name) {
		return "", unknown
	}
	query := url.Values{"q": {name}, "limit": {strconv.Itoa(pageSize)}}
	for range maxCalls {
		var page list[prospect]
		if _, err := r.get(&page, "/prospects", query); err != nil {
			return "", err
		}
		for _, p := range page.Items {
			switch {
			case !strings.EqualFold(strings.TrimSpace(p.Email), name):
			case found != "":
				return "", atrium.Errorf(atrium.CodeConflict, "Several prospects have this email address: enter the ID of one, which is on its page.")
			default:
				found = p.ProspectID
			}
		}
		if !page.HasMore {
			break
		}
		query.Set("cursor", page.NextCursor)
	}
	if found == "" {
		return "", unknown
	}
	return found, nil
}

// deleteProspect deletes a prospect with everything about it.
func (c *Console) deleteProspect(r *request) error {
	return remove[prospect](r, r.prospectPath(), r.path("accounts"), "prospectgone")
}

// unlinkProspect ends the link of a prospect to an account. The prospect is kept.
func (c *Console) unlinkProspect(r *request) error {
	account := r.http.PathValue("account_id")
	path := "/accounts/" + url.PathEscape(account) + "/prospects/" + url.PathEscape(r.form("prospectId"))
	if _, err := r.call(call{method: http.MethodDelete, path: path}); err != nil {
		return err
	}
	http.Redirect(r.w, r.http, r.path("accounts", account)+"?done=unlinked&unlinked="+url.QueryEscape(r.form("prospectId")), http.StatusSeeOther)
	return nil
}

func (c *Console) erasePage(r *request) error {
	if err := r.require(atrium.ScopeManageAccounts); err != nil {
		return err
	}
	a, err := r.readAccount()
	if err != nil {
		return err
	}
	return r.show("erase", "accounts", "Erase "+a.Title(), a)
}

// eraseAccount erases an account whose domain the user has typed.
func (c *Console) eraseAccount(r *request) error {
	if r.form("domain") != r.form("seen:domain") {
		return wrong("domain", "You typed %q, which is not the domain of the account.", atrium.Shorten(80, r.form("domain")))
	}
	if err := r.changeAccount(http.MethodDelete, "", nil); err != nil {
		return err
	}
	return r.redirect(r.path("accounts"), "erased")
}
