package cli

import "net/http"

func versions() group {
	columns := []column{
		{"VERSION", "versionNumber"}, {"ID", "id"}, {"PUBLISHED", "published"}, {"ARCHIVED", "archived"},
		{"CREATED", "createdAt"}, {"NOTE", "note"},
	}
	details := []column{
		{"Version", "versionNumber"}, {"ID", "id"}, {"Audience", "audienceId"}, {"Published", "published"},
		{"Archived", "archived"},
		{"Note", "note"}, {"Created", "createdAt"}, {"Content", "content"},
	}
	const path = "/pages/{page_id}/audiences/{audience_id}/versions"
	const versionPath = path + "/{version_number}"
	return group{name: "versions", short: "Create, compare, publish and archive audience versions",
		operations: []operation{
			{
				use: "list", short: "List the versions of an audience, highest number first", method: http.MethodGet,
				path: path, layout: layoutList, columns: columns,
			},
			{
				use: "get VERSION_NUMBER", short: "Show a version with its content", method: http.MethodGet,
				path: versionPath, layout: layoutDetails, columns: details,
			},
			{
				use: "create", short: "Create a version with the next number",
				example: "  atrium versions create --tenant tenant_… --page page_… --audience audience_… " +
					"--content-file content.json --note 'Spring'",
				method: http.MethodPost, path: path, idempotent: true, columns: columns, params: []param{
					{flag: "content", kind: document, usage: "JSON `value`; cannot be changed later", required: true},
					{flag: "note", usage: "internal `text` about the version"},
				},
			},
			{
				use: "diff VERSION_NUMBER [TO]", short: "Show the difference between two versions",
				long:    "Print a JSON Patch (RFC 6902), one operation per line.",
				example: "  atrium versions diff 1 2 --tenant tenant_… --page page_… --audience audience_…",
				method:  http.MethodGet, path: versionPath + "/diff", layout: layoutMember, rowsMember: "patch", items: "differences",
				columns: []column{{"OPERATION", "op"}, {"PATH", "path"}, {"VALUE", "value"}}, params: []param{
					{flag: "to", kind: integer, usage: "`number` of the other version; can also be the second argument",
						required: true, trailing: true, minimum: 1, names: "version_number"},
				},
			},
			{
				use: "publish VERSION_NUMBER", short: "Publish a version and unpublish the current one",
				method: http.MethodPost, path: versionPath + "/publish", ifMatch: optionalIfMatch, columns: columns,
				advise: visibilityOfVersion,
			},
			{
				use: "archive VERSION_NUMBER", short: "Archive a version", method: http.MethodPost,
				path: versionPath + "/archive", ifMatch: optionalIfMatch, columns: columns,
			},
			{
				use: "restore VERSION_NUMBER", short: "Restore an archived version", method: http.MethodPost,
				path: versionPath + "/restore", ifMatch: optionalIfMatch, columns: columns,
			},
		}}
}
