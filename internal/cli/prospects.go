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
		{flag: "email", usage: "`address` of the person", nullable: true},
		{flag: "domain", usage: "`domain` of where the person works", nullable: true},
		{flag: "slug", usage: "short `name` in URLs", nullable: true},
		{flag: "phone-number", usage: "`number` of the person", nullable: true},
		{flag: "linkedin-profile-url", usage: "`URL` of the person's profile", nullable: true},
	}
	const one, link = "/prospects/{prospect_id}", "/accounts/{account_id}/prospects/{prospect_id}"
	return group{name: "prospects", short: "Find, make, change, link and delete prospects", operations: []operation{
		{
			use: "list", short: "List prospects, newest first",
			example: "  atrium prospects list --tenant tenant_… --search dana\n  atrium prospects list --tenant tenant_… --account account_…",
			method:  http.MethodGet, path: "/prospects", shows: rows, columns: columns, params: []param{
				{flag: "search", name: "q", usage: "only prospects with all of these `words`, or their beginnings"},
				{flag: "account", name: "accountId", usage: "only prospects of the account with this `ID`"},
			},
		},
		{use: "get PROSPECT_ID", short: "Show a prospect", method: http.MethodGet, path: one, shows: upright, columns: whole},
		{use: "create", short: "Make a prospect", method: http.MethodPost, path: "/prospects", params: texts, once: true, shows: upright, columns: whole},
		{use: "update PROSPECT_ID", short: "Change a prospect", method: http.MethodPatch, path: one, params: texts, state: seenState, shows: upright, columns: whole},
		{
			use: "delete PROSPECT_ID", short: "Delete a prospect with all its links, for good",
			long: `With a large SQLite database, a running server removes what is left in its files in the
minutes after.`,
			method: http.MethodDelete, path: one, state: givenState, confirm: "Delete for good", shows: upright, columns: []column{{"Purged", "purged"}},
		},
		{use: "link PROSPECT_ID", short: "Link a prospect to an account", method: http.MethodPut, path: link, state: givenState, shows: upright, columns: whole},
		{use: "unlink PROSPECT_ID", short: "Take a prospect's link to an account away", method: http.MethodDelete, path: link, state: givenState, shows: nothing},
	}}
}
