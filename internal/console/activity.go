package console

import (
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

type activityPage struct {
	Source, Type, Key, Domain string
	Unattributed              bool
	Entries                   list[entry]
}

func (c *Console) listActivity(r *request) error {
	p := activityPage{
		Source: r.query("source"), Type: r.query("type"), Key: r.query("idempotencyKey"), Domain: r.query("claimedDomain"),
		Unattributed: r.query("unattributed") == "true",
	}
	var err error
	p.Entries, err = readList[entry](r, "/account_logs", "source", "type", "idempotencyKey", "claimedDomain", "accountId", "unattributed", "since", "until")
	if err != nil {
		return err
	}
	return r.show("activity", "activity", "Activity", p)
}

type entryPage struct {
	Entry   entry
	Account account
	Steps   []string
	Tree    node
	IsTree  bool
	Raw     string
	Cut     bool // Raw is only the beginning
	Move    *move
}

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

func (c *Console) showEntry(r *request) error {
	var p entryPage
	path := "/account_logs/" + url.PathEscape(r.http.PathValue("entry_id"))
	if _, err := r.get(&p.Entry, path, nil); err != nil {
		return err
	}
	if len(p.Entry.Payload) == 0 { // too large for the entry
		if _, err := r.get(&p.Entry.Payload, path+"/payload", nil); err != nil {
			return err
		}
	}
	var explanation struct {
		Steps []string `json:"steps"`
	}
	if _, err := r.get(&explanation, path+"/explanation", nil); err != nil {
		return err
	}
	p.Steps = explanation.Steps
	if _, err := r.get(&p.Account, "/accounts/"+string(p.Entry.AccountID), url.Values{"linkedProspects": {"false"}}); err != nil {
		return err
	}
	if p.Entry.MoveID != "" {
		p.Move = &move{}
		if _, err := r.get(p.Move, "/moves/"+string(p.Entry.MoveID), nil); err != nil {
			return err
		}
	}
	if err := r.heavily(func() (err error) {
		p.Tree, err = parseNode(p.Entry.Payload)
		p.IsTree = err == nil
		p.Raw, p.Cut = raw(p.Entry.Payload)
		return nil
	}); err != nil {
		return err
	}
	return r.show("entry", "activity", p.Entry.Source+" "+p.Entry.Type, p)
}

func (c *Console) moveEntry(r *request) error {
	to, err := r.findAccount(r.form("account"))
	if err != nil {
		return err
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

func (c *Console) undoMove(r *request) error {
	if _, err := r.call(call{method: http.MethodPost, path: "/moves/" + url.PathEscape(r.http.PathValue("move_id")) + "/undo"}); err != nil {
		return err
	}
	back := r.path("activity")
	if id, ok := atrium.ParseID[atrium.EntryID](r.form("entry")); ok {
		back = r.path("activity", string(id))
	}
	return r.redirect(back, "undone")
}
