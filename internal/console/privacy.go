package console

import (
	"net/http"

	"github.com/go-json-experiment/json"

	"atrium"
)

// An erasure is the erasure of a person as the API shows it.
type erasure struct {
	ErasureID   string `json:"erasureId"`
	Status      string `json:"status"`
	AccountLogs int64  `json:"accountLogs"`
	Prospects   int64  `json:"prospects"`
	CreatedAt   string `json:"createdAt"`
	CompletedAt string `json:"completedAt"`
}

type privacyPage struct {
	Erasures list[erasure]
	Rules    []retentionRule
}

// showPrivacy shows the erasures of persons and the retention rules.
func (c *Console) showPrivacy(r *request) error {
	var p privacyPage
	var err error
	if p.Erasures, err = readList[erasure](r, "/erasures"); err != nil {
		return err
	}
	var rules retention
	if _, err := r.get(&rules, "/retention", nil); err != nil {
		return err
	}
	p.Rules = rules.Rules
	return r.show("privacy", "privacy", "Privacy", p)
}

// searchFields are the fields of the form that describes a person.
var searchFields = []string{"text", "textContains", "prospectEmail", "claimedName", "claimedDomain", "pointer", "equals", "account"}

type searchPage struct {
	Fields   fields
	Account  account // to which the search is limited; zero for none
	Searched bool
	Erasing  bool // the page asks to confirm the erasure
	Matches  []match
	More     bool

	Entries, Prospects, Quarantined int // of Matches
}

// Finds describes what was found, such as 1 entry and 2 prospects.
func (p searchPage) Finds() string {
	found := atrium.Count(p.Entries, "entry", "entries") + " and " + atrium.Count(p.Prospects, "prospect", "prospects")
	if p.Quarantined > 0 {
		found = atrium.Count(p.Entries, "entry", "entries") + ", " + atrium.Count(p.Prospects, "prospect", "prospects") + " and " +
			atrium.Count(p.Quarantined, "delivery", "deliveries") + " in quarantine"
	}
	return found
}

// A match is an entry, a prospect or a delivery in quarantine that a rule selects.
type match struct {
	AccountLogID atrium.EntryID   `json:"accountLogId"`
	AccountID    atrium.AccountID `json:"accountId"`
	Source       string           `json:"source"`
	Type         string           `json:"type"`
	CreatedAt    string           `json:"createdAt"`

	prospect

	QuarantinedID atrium.QuarantinedID `json:"quarantinedId"`
	ReceiverID    atrium.ReceiverID    `json:"receiverId"`
}

func (c *Console) searchPerson(r *request) error {
	if err := r.require(atrium.ScopeManageErase); err != nil {
		return err
	}
	return r.show("search", "privacy", "Find a person", searchPage{})
}

// eraseConfirmation is what a user types to erase what is shown.
const eraseConfirmation = "erase"

// findPerson shows what is stored about a person, and erases it when the user confirms that. What is known about the
// person is in the form: addresses are in histories and logs.
func (c *Console) findPerson(r *request) error {
	p := searchPage{Fields: readFields(r.form, searchFields...)}
	p.Erasing = r.form("erase") != "" || r.http.PostForm.Has("confirm")
	err := r.findMatches(&p)
	if err == nil && r.form("confirm") == eraseConfirmation {
		if _, err = r.call(call{method: http.MethodPost, path: "/erasures", body: p.body()}); err == nil {
			return r.redirect(r.path("privacy"), "erasing")
		}
	}
	if err == nil && r.http.PostForm.Has("confirm") {
		err = wrong("confirm", "Type %s to confirm. Nothing was erased.", eraseConfirmation)
	}
	if err := r.refuse(err); err != nil {
		return err
	}
	title := "Find a person"
	if p.Erasing {
		title = "Erase a person"
	}
	return r.show("search", "privacy", title, p)
}

// exportPerson sends everything about the person whom the form describes.
func (c *Console) exportPerson(r *request) error {
	if err := r.require(atrium.ScopeManageErase); err != nil {
		return err
	}
	release, err := r.readForm(maxForm)
	if err != nil {
		return err
	}
	defer release()
	p := searchPage{Fields: readFields(r.form, searchFields...)}
	if err := r.resolveSearch(&p); err != nil {
		return err
	}
	defer r.untilClosed()() // it may send nothing for long
	return r.download(call{method: http.MethodPost, path: "/persons/export", body: p.body()}, "person.ndjson")
}

// body returns what the API takes.
func (p *searchPage) body() map[string]any {
	rule := p.Fields.rule()
	if rule.ProspectEmail == "" && atrium.IsEmail(rule.Text) {
		rule.ProspectEmail = rule.Text
	}
	body := map[string]any{"rule": rule}
	if p.Account.AccountID != "" {
		body["accountId"] = p.Account.AccountID
	}
	return body
}

// resolveSearch checks the fields of a search, and finds its account.
func (r *request) resolveSearch(p *searchPage) (err error) {
	if err := p.Fields.check(); err != nil {
		return err
	}
	if name := p.Fields["account"]; name != "" {
		p.Account, err = r.findAccount(name)
	}
	return at("account", err)
}

// findMatches finds the first entries and prospects that would be downloaded or erased.
func (r *request) findMatches(p *searchPage) error {
	if err := r.resolveSearch(p); err != nil {
		return err
	}
	body := p.body()
	body["check"] = true
	for range maxCalls {
		a, err := r.call(call{method: http.MethodPost, path: "/erasures", body: body})
		if err != nil {
			return err
		}
		var some list[match]
		if err := json.Unmarshal(a.body, &some); err != nil {
			return err
		}
		p.Matches = append(p.Matches, some.Items...)
		if p.More = some.HasMore; !p.More || len(p.Matches) >= pageSize {
			break
		}
		body["cursor"] = some.NextCursor
	}
	for _, m := range p.Matches {
		switch {
		case m.ProspectID != "":
			p.Prospects++
		case m.QuarantinedID != "":
			p.Quarantined++
		default:
			p.Entries++
		}
	}
	p.Searched = true
	return nil
}
