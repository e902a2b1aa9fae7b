package cli

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func previews() group {
	columns := []column{
		{"PREVIEW", "previewId"}, {"AUDIENCE", "audienceId"}, {"VERSION", "versionNumber"}, {"CREATED", "createdAt"},
		{"EXPIRES", "expiresAt"},
	}
	created := []column{
		{"Token", "token"}, {"ID", "previewId"}, {"Page", "pageId"}, {"Audience", "audienceId"}, {"Version", "versionNumber"},
		{"Expires", "expiresAt"},
	}
	const path = "/pages/{page_id}/previews"
	return group{name: "previews", short: "Show versions on a site before they are published", operations: []operation{
		{
			use: "list", short: "List the previews of a page, newest first", method: http.MethodGet, path: path,
			layout: layoutList, columns: columns,
		},
		{
			use: "get PREVIEW_ID", short: "Show a preview without its token", method: http.MethodGet,
			path: path + "/{preview_id}", columns: columns,
		},
		{
			use: "create", short: "Create a token that shows a version before it is published",
			long: `The token is shown once. A site that gets it in the query parameter preview of the content
API sees the page with this version, whether or not either is published. The site must pass
the parameter on to the content API; the command prints the address that it then reads.`,
			example: "  atrium previews create --tenant tenant_… --page page_… --audience audience_… --version 3 --expires-in 2h",
			method:  http.MethodPost, path: path, idempotent: true, layout: layoutDetails, columns: created,
			note: "(shown only once)", address: previewAddress, params: []param{
				{flag: "audience", name: "audienceId", usage: "`ID` of the audience", required: true},
				{flag: "version", name: "versionNumber", kind: integer, usage: "`number` of the version", required: true, minimum: 1},
				{flag: "expires-in", name: "expiresInSeconds", kind: seconds,
					usage: "`duration` after which the token expires, at most 168h or 7d", defaultValue: "24h", minimum: 1,
					maximum: 7 * 24 * 60 * 60},
			},
		},
		{
			use: "revoke PREVIEW_ID", short: "Revoke the token of a preview", method: http.MethodDelete,
			path: path + "/{preview_id}", ifMatch: optionalIfMatch, confirm: "Revoke", layout: layoutNone,
			done: "The preview is revoked.",
		},
	}}
}

// previewAddress returns the address of the page in the content API, with the token. It is relative
// without a server, and "" without a token, which only the first response has.
func previewAddress(base string, response jsontext.Value) (string, error) {
	var p struct {
		TenantID string `json:"tenantId"`
		PageID   string `json:"pageId"`
		Token    string `json:"token"`
	}
	if err := json.Unmarshal(response, &p, lenientJSON); err != nil {
		return "", fmt.Errorf("read response: %w", err)
	}
	if p.Token == "" {
		return "", nil
	}
	return "\nThe page as a site reads it with the token:\n" + base + "/content/v0/" + url.PathEscape(p.TenantID) + "/pages/" +
		url.PathEscape(p.PageID) + "?preview=" + url.QueryEscape(p.Token), nil
}
