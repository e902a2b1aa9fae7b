package cli

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

func tenants() group {
	columns := []column{{"TENANT", "tenantId"}, {"NAME", "name"}, {"CREATED", "createdAt"}}
	withDeletion := append(slices.Clip(columns), column{"DELETION REQUESTED", "deletion.requestedAt"}, column{"DELETED ROWS", "deletion.rows"})
	return group{name: "tenants", short: "Create, list, rename and delete tenants", operations: []operation{
		{
			use: "list", short: "List all tenants, newest first",
			method: http.MethodGet, path: "/tenants", tenancy: noTenant, layout: layoutList, columns: withDeletion,
		},
		{
			use: "get TENANT_ID", short: "Show a tenant",
			method: http.MethodGet, path: "/tenants/{tenant_id}", tenancy: noTenant, columns: withDeletion,
		},
		{
			use: "own", short: "Show the current tenant",
			method: http.MethodGet, path: "/tenant", columns: columns,
		},
		{
			use: "overview", short: "Show what needs attention in a tenant",
			long: `It shows how many entries wait in the unattributed account, up to 1,000, which pages are
scheduled next, and which keys expire within 30 days.`,
			method: http.MethodGet, path: "/overview", layout: layoutDetails, columns: []column{
				{"Unattributed entries", "unattributed.count"}, {"More of them", "unattributed.hasMore"},
				{"Scheduled pages", "schedules"}, {"Expiring keys", "expiringKeys"},
			}, itemFormats: map[string]formatFunc{"schedules": formatDueSchedule, "expiringKeys": formatExpiringKey},
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
		{
			use: "delete TENANT_ID", short: "Delete a tenant with all its data",
			long: `Its keys stop working, and a running server deletes the data in the background: see the progress
with "atrium tenants get", which fails once nothing is left. A deletion cannot be undone.`,
			example: "  atrium tenants delete tenant_… --confirm 'Example Corp'",
			method:  http.MethodDelete, path: "/tenants/{tenant_id}", tenancy: noTenant, ifMatch: optionalIfMatch,
			confirm: "Permanently delete", affected: wholeTenant, columns: withDeletion,
			advise: needsServer("deletes the data"),
			params: []param{{flag: "confirm", name: "confirmName", usage: "`name` of the tenant, instead of the prompt",
				required: true, prompted: true, inQuery: true}},
		},
	}}
}

func checkTenantID(text string) string {
	if _, ok := atrium.ParseID[atrium.TenantID](text); !ok {
		return "must be tenant_ and 26 characters from a-z0-9"
	}
	return ""
}

// wholeTenant describes what the deletion of a tenant affects.
func wholeTenant(ctx context.Context, c *client, request *call) (description, id string, err error) {
	response, err := c.fetch(ctx, call{method: http.MethodGet, path: request.path})
	if err != nil {
		return "", "", err
	}
	var tenant struct {
		TenantID string `json:"tenantId"`
		Name     string `json:"name"`
	}
	if err := json.Unmarshal(response.body, &tenant, lenientJSON); err != nil {
		return "", "", fmt.Errorf("read tenant: %w", err)
	}
	return fmt.Sprintf("%s (%s) with all its data", atrium.Printable(tenant.TenantID), atrium.Printable(tenant.Name)), tenant.TenantID, nil
}

// formatDueSchedule formats a schedule as its time, action and page.
func formatDueSchedule(v jsontext.Value) (string, error) {
	var s struct {
		Name   string `json:"name"`
		Action string `json:"action"`
		DueAt  string `json:"dueAt"`
	}
	if err := json.Unmarshal(v, &s); err != nil {
		return "", fmt.Errorf("read response: %w", err)
	}
	return atrium.Printable(s.DueAt + ", " + s.Action + " " + s.Name), nil
}

// formatExpiringKey formats a key as its end and its name.
func formatExpiringKey(v jsontext.Value) (string, error) {
	var k struct {
		Name      string `json:"name"`
		ExpiresAt string `json:"expiresAt"`
	}
	if err := json.Unmarshal(v, &k); err != nil {
		return "", fmt.Errorf("read response: %w", err)
	}
	return atrium.Printable(k.ExpiresAt + ", " + k.Name), nil
}
