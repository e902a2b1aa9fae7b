package console

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"atrium"
)

type activityPage struct {
	Filters fields
	Account string // which Filters name
	Entries list[entry]
	Names   names // of the accounts of Entries
}

// activityFilters are the parameters of the list of entries. People name an account in the parameter account.
var activityFilters = []string{"source", "type", "idempotencyKey", "claimedDomain", "accountId", "unattributed", "since", "until"}

// Filtered reports whether the page shows some entries only.
func (p activityPage) Filtered() bool {
	for _, value := range p.Filters {
		if value != "" {
			return true
		}
	}
	return false
}

// More reports whether a filter is set that is not always shown.
func (p activityPage) More() bool {
	return p.Filters["since"] != "" || p.Filters["until"] != "" || p.Filters["claimedDomain"] != "" || p.Filters["idempotencyKey"] != ""
}

// activityQuery returns the parameters of the API for the filters of the list of entries, and those that addresses have.
// a is the account that they name; zero for none.
func (r *request) activityQuery() (query, shown url.Values, a account, err error) {
	query, shown = r.listParameters(activityFilters...)
	if name := r.query("account"); name != "" {
		shown.Set("account", name)
		shown.Del("accountId")
		if a, err = r.findAccount(name); err == nil {
			query.Set("accountId", string(a.AccountID))
		}
	} else if id, ok := atrium.ParseID[atrium.AccountID](r.query("accountId")); ok {
		var found map[atrium.AccountID]account
		found, err = r.accountsByID(id)
		a = found[id]
	}
	return query, shown, a, err
}

func (c *Console) activityCSV(r *request) error {
	query, _, _, err := r.activityQuery()
	if err != nil {
		return err
	}
	query.Set("include", "summary")
	return r.sendCSV("/account_logs", "activity.csv", "atrium entries list -o csv", query)
}

func (c *Console) listActivity(r *request) error {
	p := activityPage{Filters: readFields(r.query, slices.Concat(activityFilters, []string{"account"})...)}
	query, shown, a, err := r.activityQuery()
	p.Account = cmp.Or(p.Filters["account"], a.Domain, p.Filters["accountId"])
	query.Set("include", "summary")
	if err = at("account", err); err == nil {
		p.Entries, err = readPages[entry](r, "/account_logs", query, shown)
	}
	if err := r.refuse(err); err != nil {
		return err
	}
	var ids []atrium.AccountID
	for _, e := range p.Entries.Items {
		ids = append(ids, e.AccountID)
	}
	if p.Names, err = r.accountNames(ids...); err != nil {
		return err
	}
	return r.show("activity", "activity", "Activity", p)
}

type entryPage struct {
	Entry   entry
	Account account
	Steps   [][]phrase
	Tree    node
	IsTree  bool
	Raw     string
	Cut     bool // Raw is only the beginning
	Move    *move
	Names   names // of the accounts of Steps and Move
	Sender  sender
}

// A phrase is a part of a sentence: text, or an account or a receiver, which is shown by its name.
type phrase struct {
	Text     string
	Account  atrium.AccountID  // "" if none
	Receiver atrium.ReceiverID // "" if none
}

var mentionedID = regexp.MustCompile(`\b(account|receiver)_[0-9a-z]{26}\b`)

// phrases returns the parts of a sentence.
func phrases(sentence string) (all []phrase) {
	end := 0
	for _, at := range mentionedID.FindAllStringIndex(sentence, -1) {
		var of phrase
		if id := sentence[at[0]:at[1]]; strings.HasPrefix(id, "receiver_") {
			of.Receiver = atrium.ReceiverID(id)
		} else {
			of.Account = atrium.AccountID(id)
		}
		all = append(all, phrase{Text: sentence[end:at[0]]}, of)
		end = at[1]
	}
	return append(all, phrase{Text: sentence[end:]})
}

// A sender is who has sent an entry.
type sender struct {
	Name string
	Path string // of a page about it; "" for none
}

// findSender finds the key, the user or the receiver that has sent an entry.
func (r *request) findSender(by string) (s sender, err error) {
	s.Name = by
	var found struct {
		Name string `json:"name"`
	}
	switch {
	case strings.HasPrefix(by, "key_"):
		s.Path = r.path("keys")
		_, err = r.get(&found, "/keys/"+url.PathEscape(by), nil)
	case strings.HasPrefix(by, "user_"):
		s.Path = r.path("people", by)
		_, err = r.get(&found, "/users/"+url.PathEscape(by), nil)
	case strings.HasPrefix(by, "receiver_"):
		if r.may(atrium.ScopeManageReceivers) {
			s.Path = r.path("receivers", by)
		}
		_, err = r.get(&found, "/receivers/"+url.PathEscape(by), nil)
	}
	switch {
	case atrium.CodeOf(err) == atrium.CodeNotFound: // an operator's, or removed
		return sender{Name: by}, nil
	case found.Name != "":
		s.Name = found.Name
	}
	return s, err
}

func (c *Console) showEntry(r *request) error {
	var p entryPage
	path := "/account_logs/" + url.PathEscape(r.http.PathValue("entry_id"))
	var explanation struct {
		Deleted bool     `json:"deleted"`
		Steps   []string `json:"steps"`
	}
	if _, err := r.get(&explanation, path+"/explanation", nil); err != nil {
		return err
	}
	if explanation.Deleted {
		return atrium.Errorf(atrium.CodeNotFound, "%s", strings.Join(explanation.Steps, " "))
	}
	if _, err := r.get(&p.Entry, path, nil); err != nil {
		return err
	}
	if len(p.Entry.Payload) == 0 { // too large for the entry
		if _, err := r.get(&p.Entry.Payload, path+"/payload", nil); err != nil {
			return err
		}
	}
	var mentioned []atrium.AccountID
	for _, sentence := range explanation.Steps {
		step := phrases(strings.ReplaceAll(sentence, "the unattributed account", `"Entries without an account"`))
		p.Steps = append(p.Steps, step)
		for _, of := range step {
			if of.Account != "" {
				mentioned = append(mentioned, of.Account)
			}
		}
	}
	if _, err := r.get(&p.Account, "/accounts/"+string(p.Entry.AccountID), url.Values{"linkedProspects": {"false"}}); err != nil {
		return err
	}
	if p.Entry.MoveID != "" {
		p.Move = &move{}
		if _, err := r.get(p.Move, "/moves/"+string(p.Entry.MoveID), nil); err != nil {
			return err
		}
		mentioned = append(mentioned, p.Move.FromAccountID, p.Move.ToAccountID)
	}
	var err error
	if p.Names, err = r.accountNames(mentioned...); err != nil {
		return err
	}
	if p.Sender, err = r.findSender(p.Entry.SubmittedBy); err != nil {
		return err
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
