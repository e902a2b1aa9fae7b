package console

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/rest"
)

// A move is a move as the API shows it.
type move struct {
	MoveID        atrium.MoveID    `json:"moveId"`
	FromAccountID atrium.AccountID `json:"fromAccountId"`
	ToAccountID   atrium.AccountID `json:"toAccountId"`
	Rule          jsontext.Value   `json:"rule"`
	Moved         int64            `json:"moved"`
	CreatedAt     string           `json:"createdAt"`
	UndoneAt      string           `json:"undoneAt"`
}

// RuleText returns the rule in words; "" if the entries were selected one by one.
func (m move) RuleText() string {
	var r struct {
		rule
		Payload struct {
			Pointer string         `json:"pointer"`
			Equals  jsontext.Value `json:"equals"`
		} `json:"payload"`
	}
	if len(m.Rule) == 0 {
		return ""
	}
	var words []string
	if err := json.Unmarshal(m.Rule, &r); err == nil {
		for _, part := range [][2]string{
			{"source ", r.Source}, {"type ", r.Type}, {"name in the entry ", r.ClaimedName}, {"domain in the entry ", r.ClaimedDomain},
			{r.Payload.Pointer + " is ", string(r.Payload.Equals)},
		} {
			if part[1] != "" {
				words = append(words, part[0]+part[1])
			}
		}
	}
	return atrium.Shorten(maxSummary, cmp.Or(strings.Join(words, ", "), string(m.Rule)))
}

// A rule selects entries, and prospects if it has an address.
type rule struct {
	Source        string     `json:"source,omitempty"`
	Type          string     `json:"type,omitempty"`
	Text          string     `json:"text,omitempty"`
	TextContains  string     `json:"textContains,omitempty"`
	Payload       *condition `json:"payload,omitempty"`
	ClaimedName   string     `json:"claimedName,omitempty"`
	ClaimedDomain string     `json:"claimedDomain,omitempty"`
	ProspectEmail string     `json:"prospectEmail,omitempty"`
}

// A condition is about a member of a payload.
type condition struct {
	Pointer string `json:"pointer"`
	Equals  any    `json:"equals"`
}

// rule returns the rule that fields describe.
func (f fields) rule() rule {
	made := rule{
		Source: f["source"], Type: f["type"],
		Text: f["text"], TextContains: f["textContains"], ClaimedName: f["claimedName"], ClaimedDomain: f["claimedDomain"],
		ProspectEmail: f["prospectEmail"],
	}
	if f["pointer"] != "" || f["equals"] != "" {
		made.Payload = &condition{f["pointer"], scalar(f["equals"])}
	}
	return made
}

// check returns an error if the fields do not describe a rule. Others are left to the API, which names them differently.
func (f fields) check() error {
	if (f["pointer"] != "" || f["equals"] != "") && !strings.HasPrefix(f["pointer"], "/") {
		return wrong("pointer", "must begin with /, such as /form")
	}
	return nil
}

// fields are what the user has entered, by the names of form fields.
type fields map[string]string

// readFields returns fields of a form, or parameters.
func readFields(value func(name string) string, names ...string) fields {
	f := fields{}
	for _, name := range names {
		f[name] = value(name)
	}
	return f
}

// scalar returns the JSON value that a text is, if it is a string, a number, true, false or null, and otherwise the
// text itself.
func scalar(text string) any {
	if value := jsontext.Value(text); value.IsValid() && value.Kind() != '{' && value.Kind() != '[' {
		return value
	}
	return text
}

type movesPage struct {
	Moves list[move]
	Names names // of their accounts
}

func (c *Console) listMoves(r *request) error {
	var p movesPage
	var err error
	if p.Moves, err = readList[move](r, "/moves"); err != nil {
		return err
	}
	var ids []atrium.AccountID
	for _, m := range p.Moves.Items {
		ids = append(ids, m.FromAccountID, m.ToAccountID)
	}
	if p.Names, err = r.accountNames(ids...); err != nil {
		return err
	}
	return r.show("moves", "activity", "Moves", p)
}

type newMovePage struct {
	Fields   fields
	From, To account // From is zero for entries without an account
	Checked  bool    // the rule was applied without moving anything
	Moved    int64   // entries that were moved; or would be, if Checked
	Next     string  // the cursor from which to continue; "" at the end
}

// moveFields are the fields of the form for moves.
var moveFields = []string{"to", "from", "source", "type", "claimedName", "claimedDomain", "pointer", "equals"}

// newMove asks for a rule, and then shows how many entries it selects.
func (c *Console) newMove(r *request) error {
	if err := r.require(atrium.ScopeManageAccounts); err != nil {
		return err
	}
	p := newMovePage{Fields: readFields(r.query, moveFields...)}
	if p.Fields["to"] == "" {
		return r.show("newmove", "activity", "Move entries", p)
	}
	err := r.findAccounts(&p)
	if err == nil {
		err = r.applyRule(&p, true)
	}
	if err := r.refuse(err); err != nil {
		return err
	}
	return r.show("newmove", "activity", "Move entries", p)
}

// createMoves moves the entries that a rule selects: as many as some calls can. The page offers to continue.
func (c *Console) createMoves(r *request) error {
	p := newMovePage{Fields: readFields(r.form, moveFields...), Next: r.form("cursor")}
	err := r.findAccounts(&p)
	if err == nil {
		err = r.applyRule(&p, false)
	}
	if err == nil && p.Next == "" {
		return r.redirect(r.path("moves"), "movedall")
	}
	if err := r.refuse(err); err != nil {
		return err
	}
	return r.show("newmove", "activity", "Move entries", p)
}

// findAccounts finds the accounts that the fields name.
func (r *request) findAccounts(p *newMovePage) (err error) {
	if err := p.Fields.check(); err != nil {
		return err
	}
	if p.To, err = r.findAccount(p.Fields["to"]); err != nil {
		return at("to", err)
	}
	if p.Fields["from"] != "" {
		p.From, err = r.findAccount(p.Fields["from"])
	}
	return at("from", err)
}

// applyRule moves entries from the cursor of the page on, or counts them, and advances the cursor.
func (r *request) applyRule(p *newMovePage, check bool) error {
	body := map[string]any{"to": p.To.AccountID, "rule": p.Fields.rule()}
	if p.From.AccountID != "" {
		body["from"] = p.From.AccountID
	}
	if check {
		body["check"] = true
	}
	for range maxCalls {
		if p.Next != "" {
			body["cursor"] = p.Next
		}
		a, err := r.call(call{method: http.MethodPost, path: "/moves", body: body})
		if err != nil {
			return err
		}
		var report struct {
			Moved      int64  `json:"moved"`
			NextCursor string `json:"nextCursor"`
		}
		if err := json.Unmarshal(a.body, &report); err != nil {
			return err
		}
		p.Moved += report.Moved
		if p.Next = report.NextCursor; p.Next == "" {
			break
		}
	}
	p.Checked = check
	return nil
}

// statusOf returns the status of a page that shows an error about what the user has entered.
func statusOf(err error) int {
	if err == nil {
		return http.StatusOK
	}
	return rest.Info(atrium.CodeOf(err)).Status
}

func (c *Console) moveEntry(r *request) error {
	to, err := r.findAccount(r.form("account"))
	if err != nil {
		return at("account", err)
	}
	id := r.http.PathValue("entry_id")
	_, err = r.call(call{
		method: http.MethodPost, path: "/account_logs/" + url.PathEscape(id) + "/move", body: map[string]any{"accountId": to.AccountID},
	})
	if err != nil {
		return err
	}
	return r.redirect(r.path("activity", id), "moved")
}

// undoMove undoes a move from the page of one of its entries, or from the list of moves.
func (c *Console) undoMove(r *request) error {
	if _, err := r.call(call{method: http.MethodPost, path: "/moves/" + url.PathEscape(r.http.PathValue("move_id")) + "/undo"}); err != nil {
		return err
	}
	back := r.path("moves")
	if id, ok := atrium.ParseID[atrium.EntryID](r.form("entry")); ok {
		back = r.path("activity", string(id))
	}
	return r.redirect(back, "undone")
}
