package cli

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

func prospects() group {
	columns := []column{{"PROSPECT", "prospectId"}, {"NAME", "name"}, {"EMAIL", "email"}, {"DOMAIN", "domain"},
		{"UPDATED", "updatedAt"}}
	details := []column{
		{"Prospect", "prospectId"}, {"Name", "name"}, {"Email", "email"}, {"Domain", "domain"}, {"Slug", "slug"},
		{"Phone number", "phoneNumber"},
		{"LinkedIn", "linkedinProfileUrl"}, {"Accounts", "accountIds"}, {"Warnings", "warnings"},
		{"Created", "createdAt"}, {"Updated", "updatedAt"},
	}
	warnings := map[string]formatFunc{"warnings": formatWarning}
	fields := []param{
		{flag: "name", usage: "`name` of the person", nullable: true},
		{flag: "email", usage: "email `address` of the person", nullable: true},
		{flag: "domain", usage: "`domain` of the person's employer", nullable: true},
		{flag: "slug", usage: "short `name` for URLs", nullable: true},
		{flag: "phone-number", usage: "phone `number` of the person", nullable: true},
		{flag: "linkedin-profile-url", usage: "`URL` of the person's LinkedIn profile", nullable: true},
	}
	const prospectPath, linkPath = "/prospects/{prospect_id}", "/accounts/{account_id}/prospects/{prospect_id}"
	return group{name: "prospects", short: "Find, create, update, link and delete prospects", operations: []operation{
		{
			use: "list", short: "List prospects, newest first",
			example: "  atrium prospects list --tenant tenant_… --search dana\n" +
				"  atrium prospects list --tenant tenant_… --account account_…",
			method: http.MethodGet, path: "/prospects", layout: layoutList, columns: columns,
			csvColumns: []column{{"SLUG", "slug"}, {"PHONE NUMBER", "phoneNumber"}, {"LINKEDIN", "linkedinProfileUrl"},
				{"CREATED", "createdAt"}}, params: []param{
				{flag: "search", name: "q", usage: "only prospects with all of these `words` or word prefixes"},
				{flag: "account", name: "accountId", usage: "only prospects linked to the account with this `ID`", names: "account_id"},
			},
		},
		{
			use: "get PROSPECT_ID", short: "Show a prospect", method: http.MethodGet, path: prospectPath,
			layout: layoutDetails, columns: details, itemFormats: warnings,
		},
		{
			use: "create", short: "Create a prospect", method: http.MethodPost, path: "/prospects", params: fields,
			idempotent: true, layout: layoutDetails, columns: details, itemFormats: warnings,
		},
		{
			use: "update PROSPECT_ID", short: "Update a prospect", method: http.MethodPatch, path: prospectPath,
			params: fields, ifMatch: requiredIfMatch, layout: layoutDetails, columns: details, itemFormats: warnings,
		},
		{
			use: "delete PROSPECT_ID", short: "Permanently delete a prospect and its links",
			long: `If the SQLite database is large, a running server removes the remaining data from its
files over the next minutes.`,
			method: http.MethodDelete, path: prospectPath, ifMatch: optionalIfMatch, confirm: "Permanently delete",
			layout: layoutDetails, columns: []column{{"Purged", "purged"}}, done: "The prospect is deleted, with its links.",
		},
		{
			use: "link PROSPECT_ID [ACCOUNT_ID]", short: "Link a prospect to an account",
			example: "  atrium prospects link prospect_… account_…", method: http.MethodPut, path: linkPath,
			ifMatch: optionalIfMatch, layout: layoutDetails, columns: details, itemFormats: warnings,
		},
		{
			use: "unlink PROSPECT_ID [ACCOUNT_ID]", short: "Unlink a prospect from an account", method: http.MethodDelete,
			path: linkPath, ifMatch: optionalIfMatch, layout: layoutNone, done: "The prospect is not linked to the account now.",
		},
	}}
}

// formatWarning formats a warning about a member: "phoneNumber: is not in E.164 format".
func formatWarning(v jsontext.Value) (string, error) {
	var w struct {
		Pointer string `json:"pointer"`
		Detail  string `json:"detail"`
	}
	if err := json.Unmarshal(v, &w, lenientJSON); err != nil {
		return "", fmt.Errorf("read response: %w", err)
	}
	return atrium.Printable(strings.TrimPrefix(w.Pointer, "/") + ": " + w.Detail), nil
}
