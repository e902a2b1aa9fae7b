package cli

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

func accounts() group {
	columns := []column{
		{"ACCOUNT", "accountId"}, {"DOMAIN", "domain"}, {"NAME", "name"}, {"LATEST ACTIVITY", "latestActivityAt"}, {"CREATED", "createdAt"},
	}
	whole := []column{
		{"Account", "accountId"}, {"Domain", "domain"}, {"Name", "name"}, {"Latest activity", "latestActivityAt"},
		{"Prospects", "linkedProspects"}, {"Merged", "merged"}, {"Created", "createdAt"}, {"Updated", "updatedAt"},
	}
	items := map[string]inWords{"linkedProspects": linkedProspect, "merged": mergedAccount}
	const one = "/accounts/{account_id}"
	name := param{flag: "name", usage: "`name` of the account, 1 to 255 characters", nullable: true}
	span := []param{
		{flag: "since", usage: "only entries recorded at this `time`, in RFC 3339 form, or after it"},
		{flag: "until", usage: "only entries recorded before this `time`"},
		{flag: "source", usage: "only entries of this `source`"},
		{flag: "type", usage: "only entries of this `type`"},
	}
	// with returns a command that says which other account one has to do with.
	with := func(name, short, long string, other param) operation {
		other.required = true
		return operation{
			use: name + " ACCOUNT_ID", short: short, long: long, method: http.MethodPost, path: one + "/" + name,
			params: []param{other}, state: givenState, shows: upright, columns: whole, items: items,
		}
	}
	return group{name: "accounts", short: "Find, make, change, merge and erase accounts", operations: []operation{
		{
			use: "list", short: "List accounts",
			example: "  atrium accounts list --tenant tenant_… --search northwind\n  atrium accounts list --tenant tenant_… --order activity --limit 20",
			method:  http.MethodGet, path: "/accounts", shows: rows, columns: columns, params: []param{
				{flag: "domain", usage: "only the account with this `domain`"},
				{flag: "name-prefix", usage: "only accounts whose names begin with this `text`"},
				{flag: "search", name: "q", usage: "only accounts with all of these `words`, or their beginnings, in name or domain"},
				{flag: "active-since", usage: "only accounts with activity at this `time`, in RFC 3339 form, or after it"},
				{flag: "order", usage: "what they are listed `by`: newest, activity or name", values: []string{"newest", "activity", "name"}},
			},
		},
		{use: "get ACCOUNT_ID", short: "Show an account", method: http.MethodGet, path: one, shows: upright, columns: whole, items: items},
		{
			use: "create", short: "Make an account", method: http.MethodPost, path: "/accounts", once: true, shows: upright, columns: whole, items: items, params: []param{
				{flag: "domain", usage: "`domain` that no other account has", required: true}, name,
			},
		},
		{use: "update ACCOUNT_ID", short: "Change the name or the domain of an account", method: http.MethodPatch, path: one, state: seenState, shows: upright, columns: whole, items: items, params: []param{
			{flag: "domain", usage: "`domain` that no other account has"}, name,
		}},
		with("merge", "Make an account a part of another one", "Its entries and prospects are shown with the other one. It can be taken out again by split.",
			param{flag: "into", usage: "`ID` of the other account"}),
		with("split", "Take out an account that was merged", "",
			param{flag: "merged", name: "accountId", usage: "`ID` of the account that was merged into this one"}),
		{
			use: "erase ACCOUNT_ID", short: "Erase an account with all its activity, for good",
			long: `One that was merged into another account is a part of that one: what is erased is the
other account, with all that were merged into it. It is named in the question; --yes
is for the account that it names alone. To erase a part, split it off before.

Where there is much to erase, or the SQLite database is large, a running server deletes the
rest in the minutes after.`,
			method: http.MethodDelete, path: one, state: givenState, confirm: "Erase for good", means: wholeAccount, shows: upright, columns: []column{{"Entries deleted", "entriesDeleted"}},
		},
		{
			use: "activity ACCOUNT_ID", short: "List the entries of an account, newest first",
			example: "  atrium accounts activity account_… --tenant tenant_… --since 2026-03-01T00:00:00Z --source crm",
			method:  http.MethodGet, path: one + "/activity", shows: rows, columns: []column{
				{"ENTRY", "accountLogId"}, {"RECORDED", "createdAt"}, {"OCCURRED", "occurredAt"}, {"SOURCE", "source"}, {"TYPE", "type"}, {"BYTES", "payloadBytes"},
			}, params: append(span[:len(span):len(span)], param{flag: "include", usage: "`payload` to have the payloads with -o json", values: []string{"payload"}}),
		},
		{
			use: "counts ACCOUNT_ID", short: "Count the entries of an account by day, source and type",
			method: http.MethodGet, path: one + "/activity/counts", shows: rows, params: span,
			columns: []column{{"DAY", "day"}, {"SOURCE", "source"}, {"TYPE", "type"}, {"ENTRIES", "count"}},
		},
	}}
}

// linkedProspect returns a prospect of an account for people: its identifier, its name
// and its address, as far as it has them.
func linkedProspect(v jsontext.Value) (string, error) {
	var p struct {
		ProspectID  string  `json:"prospectId"`
		Name, Email *string // null for none
	}
	if err := json.Unmarshal(v, &p, json.MatchCaseInsensitiveNames(true)); err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	var words []string
	if p.Name != nil && *p.Name != "" {
		words = append(words, *p.Name)
	}
	if p.Email != nil && *p.Email != "" {
		words = append(words, "<"+*p.Email+">")
	}
	if len(words) == 0 {
		return atrium.Printable(p.ProspectID), nil
	}
	return atrium.Printable(p.ProspectID + ", " + strings.Join(words, " ")), nil
}

// mergedAccount returns an account that was merged into another one for people.
func mergedAccount(v jsontext.Value) (string, error) {
	var a struct {
		AccountID string `json:"accountId"`
		Domain    string `json:"domain"`
	}
	if err := json.Unmarshal(v, &a); err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return atrium.Printable(a.AccountID + ", " + a.Domain), nil
}
