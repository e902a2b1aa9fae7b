package console

import "net/url"

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
