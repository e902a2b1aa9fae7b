package cli

import "net/http"

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
API sees the page with this version, whether or not either is published.`,
			example: "  atrium previews create --tenant tenant_… --page page_… --audience audience_… --version 3 --expires-in 2h",
			method:  http.MethodPost, path: path, idempotent: true, layout: layoutDetails, columns: created,
			note: "(shown only once)", params: []param{
				{flag: "audience", name: "audienceId", usage: "`ID` of the audience", required: true},
				{flag: "version", name: "versionNumber", kind: integer, usage: "`number` of the version", required: true, minimum: 1},
				{flag: "expires-in", name: "expiresInSeconds", kind: seconds,
					usage: "`duration` after which the token expires, at most 168h", defaultValue: "24h", minimum: 1},
			},
		},
		{
			use: "revoke PREVIEW_ID", short: "Revoke the token of a preview", method: http.MethodDelete,
			path: path + "/{preview_id}", ifMatch: optionalIfMatch, confirm: "Revoke", layout: layoutNone,
		},
	}}
}
