package cli

import "net/http"

func groupMappings() group {
	columns := []column{{"MAPPING", "mappingId"}, {"GROUP", "group"}, {"ROLE", "role"}, {"ISSUER", "issuer"}, {"CREATED", "createdAt"}}
	const mapping = "/group_mappings/{mapping_id}"
	return group{name: "group-mappings", short: "Manage which groups of an identity provider may use the console", operations: []operation{
		{
			use: "list", short: "List group mappings, newest first", method: http.MethodGet, path: "/group_mappings",
			tenancy: tenantOrLocalOperators, layout: layoutList, columns: columns,
		},
		{
			use: "get MAPPING_ID", short: "Show a group mapping", method: http.MethodGet, path: mapping,
			tenancy: tenantOrLocalOperators, columns: columns,
		},
		{
			use: "create", short: "Map a group to a role",
			long: `Let the members of a group of the identity provider sign in to the console with a role in a
tenant, or with --operator as operators, who manage all tenants. Groups of operators can be
mapped only on the database.

The group takes effect when a member signs in. The highest role of all groups of a person
counts: admin, editor, support, viewer.`,
			example: "  atrium group-mappings create --tenant tenant_… --issuer https://login.example.com --group marketing --role editor\n" +
				"  atrium group-mappings create --operator --issuer https://login.example.com --group platform --role operator",
			method: http.MethodPost, path: "/group_mappings", tenancy: tenantOrLocalOperators, idempotent: true, layout: layoutDetails,
			columns: []column{{"ID", "mappingId"}, {"Group", "group"}, {"Role", "role"}, {"Issuer", "issuer"}},
			params: []param{
				{flag: "issuer", name: "issuer", usage: "`URL` of the identity provider: the setting oidc-issuer", required: true},
				{flag: "group", name: "group", usage: "`group`, exactly as the identity provider sends it", required: true},
				roleFlag("of the members", true),
			},
		},
		{
			use: "delete MAPPING_ID", short: "Delete a group mapping",
			long:   "Members who are signed in stay so until they sign in again: atrium users sign-out ends the\nsessions of one at once.",
			method: http.MethodDelete, path: mapping, tenancy: tenantOrLocalOperators, ifMatch: optionalIfMatch, confirm: "Delete",
			layout: layoutNone, done: "The group mapping is deleted.",
		},
	}}
}
