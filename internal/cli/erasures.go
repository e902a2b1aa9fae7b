package cli

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

var erasureColumns = []column{
	{"ERASURE", "erasureId"}, {"STATUS", "status"}, {"ACCOUNT", "accountId"}, {"ENTRIES", "accountLogs"}, {"PROSPECTS", "prospects"},
	{"CREATED", "createdAt"}, {"COMPLETED", "completedAt"},
}

func erasures() group {
	return group{name: "erasures", short: "Erase the entries and prospects of a person", operations: []operation{
		{
			use: "create", short: "Erase the entries and prospects that a rule selects",
			long: `A running server performs the erasure in the background: see its progress with "atrium erasures
get". --check lists what would be erased, and erases nothing. An erasure cannot be undone.`,
			example: "  atrium erasures create --tenant tenant_… " +
				"--rule '{\"text\":\"jane@blueharbor.example\",\"prospectEmail\":\"jane@blueharbor.example\"}' --check",
			method: http.MethodPost, path: "/erasures", idempotent: true, columns: erasureColumns,
			confirm: "Permanently erase", affected: allSelected, checkFormat: formatErasureCheck, params: []param{
				{flag: "rule", kind: document, required: true,
					usage: "JSON `object` with text, prospectEmail, claimedName, claimedDomain or payload (pointer and equals)"},
				{flag: "account", name: "accountId", usage: "`ID` of the only account to search (default: all)", names: "account_id"},
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
func allSelected(context.Context, *client, *call) (description, id string, err error) {
	return "everything that the rule selects", "", nil
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
		} `json:"items"`
		NextCursor string `json:"nextCursor"`
	}
	if err := json.Unmarshal(body, &page, lenientJSON); err != nil {
		return "", fmt.Errorf("read response: %w", err)
	}
	var b strings.Builder
	entries := 0
	for _, item := range page.Items {
		words := []string{item.ProspectID}
		if item.AccountLogID != "" {
			entries++
			words = []string{item.AccountLogID, item.AccountID, item.CreatedAt, item.Source}
		}
		b.WriteString(atrium.Printable(strings.Join(words, "  ")) + "\n")
	}
	fmt.Fprintf(&b, "%s and %s would be erased", counted(entries, "entry", "entries"), counted(len(page.Items)-entries, "prospect", "prospects"))
	if page.NextCursor != "" {
		b.WriteString("; to continue, pass --cursor " + atrium.Printable(page.NextCursor))
	}
	return b.String(), nil
}

// counted returns a number with its noun.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
