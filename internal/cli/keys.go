package cli

import (
	"net/http"
	"slices"

	"atrium"
	"atrium/internal/auth"
)

func keys() group {
	columns := []column{
		{"KEY", "keyId"}, {"NAME", "name"}, {"SCOPES", "scopes"}, {"CREATED", "createdAt"}, {"LAST USED", "lastUsedAt"},
		{"EXPIRES", "expiresAt"}, {"FORMER SECRET ENDS", "previousEndsAt"}, {"REVOKED", "revokedAt"},
	}
	made := []column{{"Key", "key"}, {"ID", "keyId"}, {"Name", "name"}, {"Scopes", "scopes"}, {"Expires", "expiresAt"}}
	rotated := slices.Concat(made, []column{{"Former secret ends", "previousEndsAt"}})
	const onlyNow = "(shown only now)"
	var scopes []string
	for _, scope := range atrium.AllScopes() {
		scopes = append(scopes, string(scope))
	}
	return group{name: "keys", short: "Make, list, rotate and revoke API keys", operations: []operation{
		{
			use: "list", short: "List the keys of a tenant or the operators, newest first",
			method: http.MethodGet, path: "/keys", owner: operatorsHere, shows: rows, columns: columns, params: []param{
				{flag: "state", usage: "only those in the `state`: active, expired or revoked", values: []string{"active", "expired", "revoked"}},
			},
		},
		{
			use: "get KEY_ID", short: "Show a key, without its secret",
			method: http.MethodGet, path: "/keys/{key_id}", owner: ofTheKey, columns: columns,
		},
		{
			use: "create", short: "Make an API key",
			long: `It is for a tenant, or for an operator: that one is of no tenant, works on all of
them and on the list of tenants itself, and is made on the database alone. The key is
shown once and cannot be shown again. It works at once, on every running server.

The scopes of the external API, which a tenant's key has without --scope, are
` + atrium.ExternalScopes().String() + `.
Those of the management API are
` + atrium.ManageScopes().String() + `;
` + string(atrium.ScopeManage) + ` includes the others, and is what an operator's key has without --scope. An operator's
key can have these alone.`,
			example: "  atrium keys create --tenant tenant_… --name crm\n  atrium keys create --tenant tenant_… --name website --scope pages:read --expires-in 720h -o json\n  atrium keys create --operator --name platform",
			method:  http.MethodPost, path: "/keys", owner: operatorsHere, first: true, once: true, shows: upright, columns: made, remark: onlyNow, params: []param{
				named("the key", true),
				{flag: "scope", name: "scopes", kind: list, usage: "`scope` of the key; may be repeated", values: scopes},
				{flag: "expires-in", name: "expiresInSeconds", kind: seconds, usage: "`duration` after which it stops working, such as 720h (default never)", least: 1},
			},
		},
		{
			use: "rotate KEY_ID", short: "Give a key a new secret",
			long: `The secret is shown once. The one that the key had goes on working for the grace, so
that whoever holds it can change over without a gap. A key has two secrets at most:
rotating again within the grace ends the oldest. Running servers refuse a secret that
has ended within ` + auth.CacheTime.String() + `.`,
			example: "  atrium keys rotate key_… --grace 1h\n  atrium keys rotate key_… --grace 0s -o json",
			method:  http.MethodPost, path: "/keys/{key_id}/rotate", owner: ofTheKey, state: givenState, shows: upright, columns: rotated, remark: onlyNow, params: []param{
				{flag: "grace", name: "graceSeconds", kind: seconds, usage: "`duration` for which the former secret still works", initial: "24h"},
			},
		},
		{
			use: "revoke KEY_ID", short: "End a key for good", long: "That cannot be undone. Running servers refuse it within " + auth.CacheTime.String() + ".",
			method: http.MethodPost, path: "/keys/{key_id}/revoke", owner: ofTheKey, confirm: "Revoke for good", state: givenState, columns: columns,
		},
	}}
}
