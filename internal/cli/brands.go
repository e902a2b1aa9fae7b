package cli

import "net/http"

func brands() group {
	columns := []column{{"BRAND", "brandId"}, {"NAME", "name"}, {"CREATED", "createdAt"}, {"UPDATED", "updatedAt"}}
	return group{name: "brands", short: "Make, list, rename and delete brands", operations: []operation{
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
			use: "create", short: "Make a brand",
			example: "  atrium brands create --tenant tenant_… --name 'Example Manufacturing'",
			method:  http.MethodPost, path: "/brands", params: []param{named("the brand", true)}, once: true, columns: columns,
		},
		{
			use: "update BRAND_ID", short: "Rename a brand",
			method: http.MethodPatch, path: "/brands/{brand_id}", params: []param{named("the brand", false)}, state: seenState, columns: columns,
		},
		{
			use: "delete BRAND_ID", short: "Delete a brand that no page has, for good",
			method: http.MethodDelete, path: "/brands/{brand_id}", state: givenState, confirm: "Delete", shows: nothing,
		},
	}}
}
