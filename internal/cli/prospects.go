package cli

import "net/http"

func prospects() group {
	columns := []column{{"PROSPECT", "prospectId"}, {"NAME", "name"}, {"EMAIL", "email"}, {"DOMAIN", "domain"}, {"UPDATED", "updatedAt"}}
	whole := []column{
		{"Prospect", "prospectId"}, {"Name", "name"}, {"Email", "email"}, {"Domain", "domain"}, {"Slug", "slug"}, {"Phone number", "phoneNumber"},
		{"LinkedIn", "linkedinProfileUrl"}, {"Accounts", "accountIds"}, {"Warnings", "warnings"}, {"Created", "createdAt"}, {"Updated", "updatedAt"},
	}
	texts := []param{
		{flag: "name", usage: "`name` of the person", nullable: true},
		{flag: "email", usage: "email `address` of the person", nullable: true},
		{flag: "domain", usage: "`domain` of the person's employer", nullable: true},
		{flag: "slug", usage: "short `name` for URLs", nullable: true},
		{flag: "phone-number", usage: "phone `number` of the person", nullable: true},
		{flag: "linkedin-profile-url", usage: "`URL` of the person's LinkedIn profile", nullable: true},
	}
	const one, link = "/prospects/{prospect_id}", "/accounts/{account_id}/prospects/{prospect_id}"
	return group{name: "prospects", short: "Find, create, update, link and delete prospects", operations: []operation{
		{
			use: "list", short: "List prospects, newest first",
			example: "  atrium prospects list --tenant tenant_… --search dana\n  atrium prospects list --tenant tenant_… --account account_…",
			method:  http.MethodGet, path: "/prospects", shows: rows, columns: columns, params: []param{
				{flag: "search", name: "q", usage: "only prospects with all of these `words` or word prefixes"},
				{flag: "account", name: "accountId", usage: "only prospects linked to the account with this `ID`"},
			},
		},
		{use: "get PROSPECT_ID", short: "Show a prospect", method: http.MethodGet, path: one, shows: upright, columns: whole},
		{use: "create", short: "Create a prospect", method: http.MethodPost, path: "/prospects", params: texts, once: true, shows: upright, columns: whole},
		{use: "update PROSPECT_ID", short: "Update a prospect", method: http.MethodPatch, path: one, params: texts, state: seenState, shows: upright, columns: whole},
		{
			use: "delete PROSPECT_ID", short: "Permanently delete a prospect and its links",
			long: `If the SQLite database is large, a running server removes the remaining data from its
files over the next minutes.`,
			method: http.MethodDelete, path: one, state: givenState, confirm: "Permanently delete", shows: upright, columns: []column{{"Purged", "purged"}},
		},
		{use: "link PROSPECT_ID", short: "Link a prospect to an account", method: http.MethodPut, path: link, state: givenState, shows: upright, columns: whole},
		{use: "unlink PROSPECT_ID", short: "Unlink a prospect from an account", method: http.MethodDelete, path: link, state: givenState, shows: nothing},
	}}
}
