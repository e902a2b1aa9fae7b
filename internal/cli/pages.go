package cli

import (
	"net/http"
	"slices"
)

func pages() group {
	columns := []column{
		{"PAGE", "pageId"}, {"NAME", "name"}, {"TITLE", "title"}, {"STATUS", "status"}, {"BRAND", "brandId"},
		{"AUDIENCES", "audiencesCount"}, {"UPDATED", "updatedAt"}, {"DELETED", "deletedAt"},
	}
	details := []column{
		{"Page", "pageId"}, {"Brand", "brandId"}, {"Name", "name"}, {"Title", "title"}, {"Context", "pageContext"},
		{"Status", "status"},
		{"Publish at", "schedule.publishAt"}, {"Unpublish at", "schedule.unpublishAt"}, {"Audiences", "audiencesCount"},
		{"Actions", "actions"}, {"Scripts", "scripts"}, {"Footer links", "footerLinks"},
		{"Header action", "headerActionId"}, {"Metadata", "metadata"}, {"Public", "public"}, {"Max age", "maxAgeSeconds"},
		{"Created", "createdAt"}, {"Updated", "updatedAt"}, {"Deleted", "deletedAt"},
	}
	content := []param{
		{flag: "brand", name: "brandId", usage: "`ID` of the brand"},
		nameParam("the page", false),
		{flag: "title", usage: "`title` of the page"},
		{flag: "context", name: "pageContext", usage: "`text` that describes the purpose of the page"},
		{flag: "actions", kind: document, usage: "JSON `array` of actions"},
		{flag: "scripts", kind: document, usage: "JSON `array` of scripts"},
		{flag: "footer-links", kind: document, usage: "JSON `array` of links"},
		{flag: "header-action", name: "headerActionId", usage: "`ID` of the action in the page header", nullable: true},
		{flag: "metadata", kind: document, usage: "custom JSON `value`; null removes it"},
		{flag: "public", kind: boolean, usage: "whether sites can show the published page without a key"},
		{flag: "max-age", name: "maxAgeSeconds", kind: seconds,
			usage: "`duration` for which caches may keep the public page, at most 24h"},
	}
	created := slices.Clone(content)
	created[0].required, created[1].required = true, true
	// transition returns a command that changes the state of a page.
	transition := func(name, short string) operation {
		return operation{use: name + " PAGE_ID", short: short, method: http.MethodPost,
			path: "/pages/{page_id}/" + name, ifMatch: optionalIfMatch, columns: columns}
	}
	return group{name: "pages", short: "Create, update, publish and archive pages", operations: []operation{
		{
			use: "list", short: "List pages, newest first",
			example: "  atrium pages list --tenant tenant_… --status published\n" +
				"  atrium pages list --tenant tenant_… --deleted",
			method: http.MethodGet, path: "/pages", layout: layoutList, columns: columns, params: []param{
				{flag: "status", usage: "only pages with this `status`: archived, draft or published",
					values: []string{"archived", "draft", "published"}},
				{flag: "brand", name: "brandId", usage: "only pages of the brand with this `ID`"},
				{flag: "deleted", kind: boolean, usage: "list deleted pages instead"},
			},
		},
		{
			use: "get PAGE_ID", short: "Show a page", method: http.MethodGet, path: "/pages/{page_id}",
			layout: layoutDetails, columns: details,
		},
		{
			use: "create", short: "Create a page as a draft",
			example: "  atrium pages create --tenant tenant_… --brand brand_… --name welcome --title Welcome " +
				"--actions-file actions.json",
			method: http.MethodPost, path: "/pages", params: created, idempotent: true, columns: columns,
		},
		{
			use: "update PAGE_ID", short: "Update a page",
			example: "  atrium pages update page_… --tenant tenant_… --public --max-age 5m",
			method:  http.MethodPatch, path: "/pages/{page_id}",
			params: content, ifMatch: requiredIfMatch, columns: columns,
		},
		{
			use: "delete PAGE_ID", short: "Delete a page; undelete restores it", method: http.MethodDelete,
			path: "/pages/{page_id}", ifMatch: optionalIfMatch, confirm: "Delete", layout: layoutNone,
		},
		transition("undelete", "Restore a deleted page"),
		transition("publish", "Publish a draft"),
		transition("unpublish", "Return a published page to draft"),
		transition("archive", "Archive a page"),
		transition("restore", "Return an archived page to draft"),
		{
			use: "schedule PAGE_ID", short: "Set when a page is published and unpublished",
			long: "This replaces the schedule: a time that you omit is removed.",
			example: "  atrium pages schedule page_… --tenant tenant_… --publish-at 2026-03-02T09:00:00Z " +
				"--unpublish-at 2026-04-01T00:00:00Z",
			method: http.MethodPut, path: "/pages/{page_id}/schedule", ifMatch: optionalIfMatch, layout: layoutDetails,
			columns: details, params: []param{
				{flag: "publish-at", kind: instant, usage: "`time` at which the page is published"},
				{flag: "unpublish-at", kind: instant, usage: "`time` at which the page is unpublished"},
			},
		},
		{
			use: "unschedule PAGE_ID", short: "Remove the schedule of a page", method: http.MethodDelete,
			path: "/pages/{page_id}/schedule", ifMatch: optionalIfMatch, layout: layoutNone,
		},
	}}
}
