package cli

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"atrium"
)

func accounts() group {
	columns := []column{
		{"ACCOUNT", "accountId"}, {"DOMAIN", "domain"}, {"NAME", "name"}, {"LATEST ACTIVITY", "latestActivityAt"},
		{"CREATED", "createdAt"},
	}
	details := []column{
		{"Account", "accountId"}, {"Domain", "domain"}, {"Name", "name"}, {"Latest activity", "latestActivityAt"},
		{"Prospects", "linkedProspects"}, {"Merged", "merged"}, {"Created", "createdAt"}, {"Updated", "updatedAt"},
	}
	items := map[string]formatFunc{"linkedProspects": formatProspect, "merged": formatMergedAccount}
	const accountPath = "/accounts/{account_id}"
	name := param{flag: "name", usage: "`name` of the account, 1 to 255 characters", nullable: true}
	timeRange := []param{
		{flag: "since", kind: instant, usage: "only entries recorded at or after this `time`"},
		{flag: "until", kind: instant, usage: "only entries recorded before this `time`"},
		{flag: "source", usage: "only entries from this `source`"},
		{flag: "type", usage: "only entries of this `type`"},
	}
	countRange := slices.Clone(timeRange)
	countRange[0].usage += " (default: the last 30 days)"
	// mergeOperation returns an operation on an account and the other account that a flag names.
	mergeOperation := func(name, short, long string, other param) operation {
		other.required = true
		return operation{
			use: name + " ACCOUNT_ID", short: short, long: long, method: http.MethodPost,
			path:   accountPath + "/" + name,
			params: []param{other}, ifMatch: optionalIfMatch, layout: layoutDetails, columns: details,
			itemFormats: items,
		}
	}
	return group{name: "accounts", short: "Find, create, update, merge and erase accounts", operations: []operation{
		{
			use: "list", short: "List accounts",
			example: "  atrium accounts list --tenant tenant_… --search northwind\n" +
				"  atrium accounts list --tenant tenant_… --order activity --limit 20",
			method: http.MethodGet, path: "/accounts", layout: layoutList, columns: columns, params: []param{
				{flag: "account", name: "accountIds", usage: "only accounts with these `identifiers`, separated by commas"},
				{flag: "domain", usage: "only the account with this `domain`"},
				{flag: "name-prefix", usage: "only accounts whose name starts with this `prefix`"},
				{flag: "search", name: "q",
					usage: "only accounts with all of these `words` or word prefixes in name or domain"},
				{flag: "active-since", kind: instant, usage: "only accounts with activity at or after this `time`"},
				{flag: "order", usage: "sort `order`: newest, activity or name",
					values: []string{"newest", "activity", "name"}},
			},
		},
		{
			use: "get ACCOUNT_ID", short: "Show an account", method: http.MethodGet, path: accountPath,
			layout: layoutDetails, columns: details, itemFormats: items, params: []param{
				{flag: "linked-prospects", name: "linkedProspects", kind: boolean, usage: "show the prospects; =false for an account with very many"},
			},
		},
		{
			use: "create", short: "Create an account", method: http.MethodPost, path: "/accounts", idempotent: true,
			layout: layoutDetails, columns: details, itemFormats: items, params: []param{
				{flag: "domain", usage: "unique `domain` of the account", required: true}, name,
			},
		},
		{
			use: "update ACCOUNT_ID", short: "Change the name or domain of an account", method: http.MethodPatch,
			path: accountPath, ifMatch: requiredIfMatch, layout: layoutDetails, columns: details, itemFormats: items,
			params: []param{
				{flag: "domain", usage: "unique `domain` of the account"}, name,
			},
		},
		mergeOperation("merge", "Merge an account into another one",
			"The other account then includes its entries and prospects. To undo this, run atrium accounts split.",
			param{flag: "into", usage: "`ID` of the account to merge into", names: "account_id"}),
		mergeOperation("split", "Split off a merged account", "",
			param{flag: "merged", name: "accountId", usage: "`ID` of the account to split off",
				names: "account_id", merged: true}),
		{
			use: "erase ACCOUNT_ID", short: "Permanently erase an account and its activity",
			long: `If the account was merged into another one, the command erases the surviving account with
everything merged into it. The prompt names the survivor; --yes is accepted only if
ACCOUNT_ID is the survivor. To erase only a part, split it off first.

If there is much to erase, or the SQLite database is large, a running server deletes the
rest over the next minutes.`,
			method: http.MethodDelete, path: accountPath, ifMatch: optionalIfMatch, confirm: "Permanently erase",
			affected: survivingAccount, layout: layoutDetails, columns: []column{{"Entries deleted", "entriesDeleted"}},
			promptDetail: countedEntries, done: "The account is erased, with all of its entries.", advise: erasedLater,
		},
		{
			use: "activity ACCOUNT_ID", short: "List the entries of an account, newest first",
			example: "  atrium accounts activity northwind.example --tenant tenant_… " +
				"--since 2026-03-01T00:00:00Z --source crm",
			method: http.MethodGet, path: accountPath + "/activity", layout: layoutList, columns: []column{
				{"ENTRY", "accountLogId"}, {"RECORDED", "createdAt"}, {"OCCURRED", "occurredAt"}, {"SOURCE", "source"},
				{"TYPE", "type"}, {"BYTES", "payloadBytes"},
			}, items: "entries", included: includedInEntries,
			params: append(timeRange[:len(timeRange):len(timeRange)], includeInEntries),
		},
		{
			use: "active", short: "List the accounts with the most entries",
			long: `Entries count at the time at which they were recorded. Those of a merged account count for its
survivor, and moved ones for the account that has them now. Entries without an account are
left out. At most 100,000 entries are read, the newest first: if there are more, a message
says since when they are counted.`,
			example: "  atrium accounts active --tenant tenant_…\n" +
				"  atrium accounts active --tenant tenant_… --source crm --limit 100 -o csv",
			method: http.MethodGet, path: "/activity/accounts", layout: layoutMember, rowsMember: "items", items: "active accounts",
			columns: []column{{"ACCOUNT", "accountId"}, {"DOMAIN", "domain"}, {"NAME", "name"}, {"ENTRIES", "entries"}},
			advise:  partlyCounted, params: []param{
				{flag: "since", kind: instant, usage: "only entries recorded at or after this `time`, at most 31 days ago (default: 7 days ago)"},
				{flag: "source", usage: "only entries from this `source`"},
				{flag: "type", usage: "only entries of this `type`"},
				{flag: "limit", kind: integer, minimum: 1, usage: "maximum `number` of accounts, at most 100 (default 20)"},
			},
		},
		{
			use: "counts ACCOUNT_ID", short: "Count the entries of an account by day, source and type",
			method: http.MethodGet, path: accountPath + "/activity/counts", layout: layoutList, params: countRange, items: "entries",
			none:    sinceOfCounts,
			columns: []column{{"DAY", "day"}, {"SOURCE", "source"}, {"TYPE", "type"}, {"ENTRIES", "count"}},
		},
	}}
}

// countedDays is how many days accounts counts covers without --since, as the API defines it.
const countedDays = 30

// sinceOfCounts returns the first day that was counted if --since was not given.
func sinceOfCounts(cmd *cobra.Command) string {
	if cmd.Flags().Changed("since") {
		return ""
	}
	last := time.Now()
	if cmd.Flags().Changed("until") {
		until := param{flag: "until", kind: instant}
		text, err := until.instant(cmd)
		if err != nil {
			return ""
		}
		at, err := atrium.ParseTime(text)
		if err != nil {
			return ""
		}
		last = at.Std().Add(-1)
	}
	return " since " + last.UTC().AddDate(0, 0, 1-countedDays).Format(time.DateOnly) + ": pass --since to count older ones"
}

// partlyCounted says since when entries are counted if there are more than the server reads.
func partlyCounted(_ context.Context, _ *client, e effect) string {
	var counted struct {
		Since        string `json:"since"`
		CountedSince string `json:"countedSince"`
	}
	if json.Unmarshal(e.response, &counted, lenientJSON) != nil || counted.CountedSince == counted.Since {
		return ""
	}
	return fmt.Sprintf("There are more than %d entries since %s. Only those since %s are counted.",
		atrium.MaxMostActiveEntries, counted.Since, counted.CountedSince)
}

// erasedLater says that the erasure of an account continues after the response.
func erasedLater(context.Context, *client, effect) string {
	return "The account is erased. A running server deletes its entries from the database and its files."
}

// formatProspect formats a linked prospect as its ID, its name and its email address, if it has
// them.
func formatProspect(v jsontext.Value) (string, error) {
	var p struct {
		ProspectID  string  `json:"prospectId"`
		Name, Email *string // nil if null
	}
	if err := json.Unmarshal(v, &p, json.MatchCaseInsensitiveNames(true)); err != nil {
		return "", fmt.Errorf("read response: %w", err)
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

// formatMergedAccount formats a merged account as its ID and its domain.
func formatMergedAccount(v jsontext.Value) (string, error) {
	var a struct {
		AccountID string `json:"accountId"`
		Domain    string `json:"domain"`
	}
	if err := json.Unmarshal(v, &a); err != nil {
		return "", fmt.Errorf("read response: %w", err)
	}
	return atrium.Printable(a.AccountID + ", " + a.Domain), nil
}
