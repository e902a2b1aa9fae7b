package cli

import "net/http"

func brands() group {
	columns := []column{{"BRAND", "brandId"}, {"NAME", "name"}, {"CREATED", "createdAt"}, {"UPDATED", "updatedAt"}}
	return group{name: "brands", short: "Create, list, rename and delete brands", operations: []operation{
		{
			use: "list", short: "List the brands of a tenant, newest first",
			example: "  atrium brands list --tenant tenant_…\n  ATRIUM_KEY=atr_… atrium brands list --server https://atrium.example -o json",
			method:  http.MethodGet, path: "/brands", shows: rows, columns: columns,
		},
		{
			use: "get BRAND_ID", short: "Show a brand",
			method: http.MethodGet, path: "/brands/{brand_id}", columns: columns,
		},
		{
			use: "create", short: "Create a brand",
			example: "  atrium brands create --tenant tenant_… --name 'Example Manufacturing'",
			method:  http.MethodPost, path: "/brands", params: []param{named("the brand", true)}, once: true, columns: columns,
		},
		{
			use: "update BRAND_ID", short: "Rename a brand",
			method: http.MethodPatch, path: "/brands/{brand_id}", params: []param{named("the brand", false)}, state: seenState, columns: columns,
		},
		{
			use: "delete BRAND_ID", short: "Permanently delete an unused brand",
			method: http.MethodDelete, path: "/brands/{brand_id}", state: givenState, confirm: "Permanently delete", shows: nothing,
		},
	}}
}
