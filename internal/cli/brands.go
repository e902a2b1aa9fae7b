package cli

import "net/http"

func brands() group {
	columns := []column{{"BRAND", "brandId"}, {"NAME", "name"}, {"CREATED", "createdAt"}, {"UPDATED", "updatedAt"}}
	return group{name: "brands", short: "Create, list, rename and delete brands", operations: []operation{
		{
			use: "list", short: "List the brands of a tenant, newest first",
			example: "  atrium brands list --tenant tenant_…\n" +
				"  ATRIUM_KEY=atr_… atrium brands list --server https://atrium.example -o json",
			method: http.MethodGet, path: "/brands", layout: layoutList, columns: columns,
		},
		{
			use: "get BRAND_ID", short: "Show a brand",
			method: http.MethodGet, path: "/brands/{brand_id}", columns: columns,
		},
		{
			use: "create", short: "Create a brand",
			example: "  atrium brands create --tenant tenant_… --name 'Example Manufacturing'",
			method:  http.MethodPost, path: "/brands", params: []param{nameParam("the brand", true)}, idempotent: true,
			columns: columns,
		},
		{
			use: "update BRAND_ID", short: "Rename a brand",
			method: http.MethodPatch, path: "/brands/{brand_id}", params: []param{nameParam("the brand", false)},
			ifMatch: requiredIfMatch, columns: columns,
		},
		{
			use: "delete BRAND_ID", short: "Permanently delete an unused brand",
			method: http.MethodDelete, path: "/brands/{brand_id}", ifMatch: optionalIfMatch,
			confirm: "Permanently delete", layout: layoutNone, done: "The brand is deleted.",
		},
	}}
}
