package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

var erasureColumns = []column{
	{"ERASURE", "erasureId"}, {"STATUS", "status"}, {"ACCOUNT", "accountId"}, {"ENTRIES", "accountLogs"}, {"PROSPECTS", "prospects"},
	{"IN QUARANTINE", "quarantined"}, {"CREATED", "createdAt"}, {"COMPLETED", "completedAt"},
}

// matchColumns are the columns of what --check lists: entries, prospects and deliveries in quarantine.
var matchColumns = []column{
	{"ENTRY", "accountLogId"}, {"ACCOUNT", "accountId"}, {"RECORDED", "createdAt"}, {"SOURCE", "source"}, {"TYPE", "type"},
	{"PROSPECT", "prospectId"}, {"DELIVERY", "quarantinedId"}, {"RECEIVER", "receiverId"}, {"NAME", "name"}, {"EMAIL", "email"},
}

// erasureRule is the rule of an erasure. An entry must match all parts about entries.
var erasureRule = param{
	flag: "rule", kind: document, required: true,
	usage: "the rule as a JSON `object` with text, textContains, accountLogIds, prospectEmail, claimedName, claimedDomain or payload (pointer and equals)",
	parts: slices.Concat([]param{
		{flag: "text", usage: "match entries whose payload has this `string` at any depth, ignoring case", check: checkPersonal},
		{flag: "text-contains", usage: "match entries whose payload has this `string` at any depth, also within a longer one, ignoring case",
			check: func(text string) string {
				return atrium.CheckText(text, atrium.MinTextContains, atrium.MaxProspectText)
			}},
		{flag: "entry", name: "accountLogIds", kind: list, usage: "match entries with one of these `IDs`, up to 100, separated by commas"},
		{flag: "prospect-email", usage: "match prospects with this email `address`, ignoring case", check: checkPersonal},
	}, entryRuleParts),
}

// searchedAccount limits what the rule selects.
var searchedAccount = param{flag: "account", name: "accountId", usage: "`ID` of the only account to search (default: all)", names: "account_id"}

// checkPersonal returns the fault of a text by which a person is found, or "".
func checkPersonal(text string) string { return atrium.CheckText(text, 1, atrium.MaxProspectText) }

func erasures() group {
	return group{name: "erasures", short: "Erase the entries and prospects of a person", operations: []operation{
		{
			use: "create", short: "Erase the entries and prospects that a rule selects",
			long: `A running server performs the erasure in the background: see its progress with "atrium erasures
get". --check lists what would be erased, and erases nothing. An erasure cannot be undone.`,
			example: "  atrium erasures create --tenant tenant_… --text jane@blueharbor.example " +
				"--prospect-email jane@blueharbor.example --check",
			method: http.MethodPost, path: "/erasures", idempotent: true, columns: erasureColumns,
			confirm: "Permanently erase", affected: allSelected, advise: needsServer("performs the erasure"), checkFormat: formatErasureCheck, checkRows: matchColumns,
			params: []param{
				erasureRule,
				searchedAccount,
				{flag: "check", kind: boolean, usage: "list what would be erased, without erasing it"},
				{flag: "limit", kind: integer, usage: "maximum `number` of items that --check lists, up to 100", minimum: 1},
				{flag: "cursor", usage: "`cursor` printed by the previous --check"},
			},
		},
		{
			use: "list", short: "List erasures, newest first", method: http.MethodGet, path: "/erasures", layout: layoutList,
			columns: erasureColumns,
		},
		{
			use: "get ERASURE_ID", short: "Show the progress of an erasure", method: http.MethodGet, path: "/erasures/{erasure_id}",
			columns: erasureColumns,
		},
	}}
}

// allSelected describes what an erasure affects.
func allSelected(ctx context.Context, c *client, _ *call) (description, id string, err error) {
	tenant, err := tenantDescription(ctx, c)
	return "everything in " + tenant + " that the rule selects", "", err
}

// tenantDescription describes the tenant of a call, for a prompt. It may be that of the key, and the key
// may lack the scope to read it.
func tenantDescription(ctx context.Context, c *client) (string, error) {
	response, err := c.fetch(ctx, call{method: http.MethodGet, path: "/tenant"})
	switch {
	case err == nil:
		var own struct {
			TenantID string `json:"tenantId"`
			Name     string `json:"name"`
		}
		if err := json.Unmarshal(response.body, &own, lenientJSON); err != nil {
			return "", fmt.Errorf("read tenant: %w", err)
		}
		return atrium.Printable(own.TenantID) + " (" + atrium.Printable(own.Name) + ")", nil
	case atrium.CodeOf(err) != atrium.CodeForbidden:
		return "", err
	}
	return cmp.Or(c.tenant, "the tenant of the key"), nil
}

// formatErasureCheck formats the response to an erasure with --check.
func formatErasureCheck(body jsontext.Value) (string, error) {
	var page struct {
		Items []struct {
			AccountLogID string `json:"accountLogId"`
			AccountID    string `json:"accountId"`
			Source       string `json:"source"`
			CreatedAt    string `json:"createdAt"`
			ProspectID   string `json:"prospectId"`
			Quarantined  string `json:"quarantinedId"`
			ReceiverID   string `json:"receiverId"`
		} `json:"items"`
		NextCursor string `json:"nextCursor"`
	}
	if err := json.Unmarshal(body, &page, lenientJSON); err != nil {
		return "", fmt.Errorf("read response: %w", err)
	}
	var b strings.Builder
	entries, deliveries := 0, 0
	for _, item := range page.Items {
		words := []string{item.ProspectID}
		switch {
		case item.AccountLogID != "":
			entries++
			words = []string{item.AccountLogID, item.AccountID, item.CreatedAt, item.Source}
		case item.Quarantined != "":
			deliveries++
			words = []string{item.Quarantined, item.ReceiverID, item.CreatedAt}
		}
		b.WriteString(atrium.Printable(strings.Join(words, "  ")) + "\n")
	}
	found, prospects := atrium.Count(entries, "entry", "entries"), atrium.Count(len(page.Items)-entries-deliveries, "prospect", "prospects")
	if deliveries > 0 {
		fmt.Fprintf(&b, "%s, %s and %s in quarantine would be erased", found, prospects, atrium.Count(deliveries, "delivery", "deliveries"))
	} else {
		fmt.Fprintf(&b, "%s and %s would be erased", found, prospects)
	}
	if page.NextCursor != "" {
		b.WriteString(", and maybe more: to continue, pass --cursor " + atrium.Printable(page.NextCursor))
	}
	return b.String(), nil
}
