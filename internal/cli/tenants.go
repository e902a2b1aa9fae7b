package cli

import (
	"net/http"

	"atrium"
)

func tenants() group {
	columns := []column{{"TENANT", "tenantId"}, {"NAME", "name"}, {"CREATED", "createdAt"}}
	return group{name: "tenants", short: "Create, list and rename tenants", operations: []operation{
		{
			use: "list", short: "List all tenants, newest first",
			method: http.MethodGet, path: "/tenants", tenancy: noTenant, layout: layoutList, columns: columns,
		},
		{
			use: "get TENANT_ID", short: "Show a tenant",
			method: http.MethodGet, path: "/tenants/{tenant_id}", tenancy: noTenant, columns: columns,
		},
		{
			use: "own", short: "Show the current tenant",
			method: http.MethodGet, path: "/tenant", columns: columns,
		},
		{
			use: "create", short: "Create a tenant",
			example: "  atrium tenants create --name 'Example Corp'\n" +
				"  atrium tenants create --name 'Example Corp' --id tenant_… --database " +
				"postgres://atrium@db.internal/atrium",
			method: http.MethodPost, path: "/tenants", tenancy: noTenant, idempotent: true,
			columns: columns, params: []param{
				nameParam("the tenant", true),
				{flag: "id", name: "tenantId",
					usage: "`ID` of a tenant that moves from another database (default: generated)",
					check: checkTenantID},
			},
		},
		{
			use: "update TENANT_ID", short: "Rename a tenant",
			method: http.MethodPatch, path: "/tenants/{tenant_id}", tenancy: noTenant, ifMatch: requiredIfMatch,
			params: []param{nameParam("the tenant", false)}, columns: columns,
		},
	}}
}

func checkTenantID(text string) string {
	if _, ok := atrium.ParseID[atrium.TenantID](text); !ok {
		return "must be tenant_ and 26 characters from a-z0-9"
	}
	return ""
}
