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
		{"EXPIRES", "expiresAt"}, {"PREVIOUS SECRET ENDS", "previousEndsAt"}, {"REVOKED", "revokedAt"},
	}
	created := []column{{"Key", "key"}, {"ID", "keyId"}, {"Name", "name"}, {"Scopes", "scopes"},
		{"Origins", "origins"}, {"Expires", "expiresAt"}}
	rotated := slices.Concat(created, []column{{"Previous secret ends", "previousEndsAt"}})
	const shownOnce = "(shown only once)"
	var scopes []string
	for _, scope := range atrium.AllScopes() {
		scopes = append(scopes, string(scope))
	}
	return group{name: "keys", short: "Create, list, rotate and revoke API keys", operations: []operation{
		{
			use: "list", short: "List API keys, newest first",
			method: http.MethodGet, path: "/keys", tenancy: tenantOrLocalOperators, layout: layoutList,
			columns: columns, params: []param{
				{flag: "state", usage: "only keys in this `state`: active, expired or revoked",
					values: []string{"active", "expired", "revoked"}},
			},
		},
		{
			use: "get KEY_ID", short: "Show a key without its secret",
			method: http.MethodGet, path: "/keys/{key_id}", tenancy: tenantOfKey, columns: columns,
		},
		{
			use: "create", short: "Create an API key",
			long: `Create a key for a tenant, or with --operator an operator key: it belongs to no tenant and
can manage all tenants. Operator keys can be created only on the database. The key is
shown once. It works immediately on every running server.

The scopes of the external API are the default for a tenant's key:
` + atrium.ExternalScopes().String() + `.

A key for the pages of a site has only the scope ` + string(atrium.ScopeContentRead) + `. It reads published
content, and works in browsers on the origins that it names.

The scopes of the management API are
` + atrium.ManageScopes().String() + `.
The scope ` + string(atrium.ScopeManage) + ` allows what all of these allow together. An operator key has this scope by
default, and can have only scopes of the management API.`,
			example: "  atrium keys create --tenant tenant_… --name crm\n" +
				"  atrium keys create --tenant tenant_… --name website --scope pages:read --expires-in 720h -o json\n" +
				"  atrium keys create --tenant tenant_… --name visitors --scope content:read --origin https://www.example.com\n" +
				"  atrium keys create --operator --name platform",
			method: http.MethodPost, path: "/keys", tenancy: tenantOrLocalOperators,
			idempotent: true, layout: layoutDetails, columns: created, note: shownOnce, params: []param{
				nameParam("the key", true),
				{flag: "scope", name: "scopes", kind: list, usage: "`scope` of the key; may be repeated",
					values: scopes},
				{flag: "origin", name: "origins", kind: list,
					usage: "`origin` of a site that may use the key in browsers, such as https://www.example.com; may be repeated"},
				{flag: "expires-in", name: "expiresInSeconds", kind: seconds,
					usage: "`duration` after which the key expires, such as 720h (default never)", minimum: 1},
			},
		},
		{
			use: "rotate KEY_ID", short: "Replace the secret of a key",
			long: `The new secret is shown once. The previous secret keeps working for the grace period, so
that clients can switch without an interruption. A key has at most two secrets: rotating
again within the grace period ends the oldest one. Running servers reject an ended
secret within ` + auth.CacheTime.String() + `.`,
			example: "  atrium keys rotate key_… --grace 1h\n  atrium keys rotate key_… --grace 0s -o json",
			method:  http.MethodPost, path: "/keys/{key_id}/rotate", tenancy: tenantOfKey, ifMatch: optionalIfMatch,
			layout: layoutDetails, columns: rotated, note: shownOnce, params: []param{
				{flag: "grace", name: "graceSeconds", kind: seconds,
					usage: "`duration` for which the previous secret keeps working", defaultValue: "24h"},
			},
		},
		{
			use: "revoke KEY_ID", short: "Permanently revoke a key",
			long:   "This cannot be undone. Running servers reject the key within " + auth.CacheTime.String() + ".",
			method: http.MethodPost, path: "/keys/{key_id}/revoke", tenancy: tenantOfKey, confirm: "Permanently revoke",
			ifMatch: optionalIfMatch, columns: columns,
		},
	}}
}
