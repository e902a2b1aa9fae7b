package cli

import "net/http"

func audiences() group {
	columns := []column{
		{"AUDIENCE", "audienceId"}, {"NAME", "name"}, {"ARCHIVED", "archived"}, {"VERSIONS", "versionsCount"},
		{"PUBLISHED", "publishedVersion"}, {"UPDATED", "updatedAt"},
	}
	const path = "/pages/{page_id}/audiences"
	return group{
		name: "audiences", short: "Create, rename and archive the audiences of a page", operations: []operation{
			{
				use: "list", short: "List the audiences of a page, newest first",
				example: "  atrium audiences list --tenant tenant_… --page page_… --archived=false",
				method:  http.MethodGet, path: path, layout: layoutList, columns: columns, params: []param{
					{flag: "archived", kind: boolean, usage: "only archived audiences; =false for all others"},
				},
			},
			{
				use: "get AUDIENCE_ID", short: "Show an audience", method: http.MethodGet,
				path: path + "/{audience_id}", columns: columns,
			},
			{
				use: "create", short: "Create an audience",
				example: "  atrium audiences create --tenant tenant_… --page page_… --name 'New visitors'",
				method:  http.MethodPost, path: path, params: []param{nameParam("the audience", true)},
				idempotent: true, columns: columns,
			},
			{
				use: "update AUDIENCE_ID", short: "Rename an audience", method: http.MethodPatch,
				path: path + "/{audience_id}", params: []param{nameParam("the audience", false)},
				ifMatch: requiredIfMatch, columns: columns,
			},
			{
				use: "archive AUDIENCE_ID", short: "Archive an audience", method: http.MethodPost,
				path: path + "/{audience_id}/archive", ifMatch: optionalIfMatch, columns: columns,
			},
			{
				use: "restore AUDIENCE_ID", short: "Restore an archived audience", method: http.MethodPost,
				path: path + "/{audience_id}/restore", ifMatch: optionalIfMatch, columns: columns,
			},
		},
	}
}
