package cli

import (
	"net/http"
	"slices"
)

func pages() group {
	columns := []column{
		{"PAGE", "pageId"}, {"NAME", "name"}, {"STATUS", "status"}, {"BRAND", "brandId"}, {"AUDIENCES", "audiencesCount"}, {"UPDATED", "updatedAt"}, {"DELETED", "deletedAt"},
	}
	whole := []column{
		{"Page", "pageId"}, {"Brand", "brandId"}, {"Name", "name"}, {"Title", "title"}, {"Context", "pageContext"}, {"Status", "status"},
		{"Publish at", "schedule.publishAt"}, {"Unpublish at", "schedule.unpublishAt"}, {"Audiences", "audiencesCount"},
		{"Actions", "actions"}, {"Scripts", "scripts"}, {"Footer links", "footerLinks"}, {"Header action", "headerActionId"}, {"Metadata", "metadata"},
		{"Created", "createdAt"}, {"Updated", "updatedAt"}, {"Deleted", "deletedAt"},
	}
	content := []param{
		{flag: "brand", name: "brandId", usage: "`ID` of the brand"},
		named("the page", false),
		{flag: "title", usage: "`title` of the page"},
		{flag: "context", name: "pageContext", usage: "`text` that says what the page is for"},
		{flag: "actions", kind: document, usage: "JSON `array` of actions"},
		{flag: "scripts", kind: document, usage: "JSON `array` of scripts"},
		{flag: "footer-links", kind: document, usage: "JSON `array` of links"},
		{flag: "header-action", name: "headerActionId", usage: "`ID` of the action in the head", nullable: true},
		{flag: "metadata", kind: document, usage: "JSON `value` of your own; null takes it away"},
	}
	made := slices.Clone(content)
	made[0].required, made[1].required = true, true
	// step returns a command without flags of its own that takes a page from one state to another.
	step := func(name, short string) operation {
		return operation{use: name + " PAGE_ID", short: short, method: http.MethodPost, path: "/pages/{page_id}/" + name, state: givenState, columns: columns}
	}
	return group{name: "pages", short: "Make, change, publish and archive pages", operations: []operation{
		{
			use: "list", short: "List pages, newest first",
			example: "  atrium pages list --tenant tenant_… --status published\n  atrium pages list --tenant tenant_… --deleted",
			method:  http.MethodGet, path: "/pages", shows: rows, columns: columns, params: []param{
				{flag: "status", usage: "only those in the `state`: archived, draft or published", values: []string{"archived", "draft", "published"}},
				{flag: "brand", name: "brandId", usage: "only those of the brand with the `ID`"},
				{flag: "deleted", kind: boolean, usage: "those that are deleted instead"},
			},
		},
		{use: "get PAGE_ID", short: "Show a page with all that it has", method: http.MethodGet, path: "/pages/{page_id}", shows: upright, columns: whole},
		{
			use: "create", short: "Make a page, as a draft",
			example: "  atrium pages create --tenant tenant_… --brand brand_… --name welcome --title Welcome --actions-file actions.json",
			method:  http.MethodPost, path: "/pages", params: made, once: true, columns: columns,
		},
		{use: "update PAGE_ID", short: "Change what a page has", method: http.MethodPatch, path: "/pages/{page_id}", params: content, state: seenState, columns: columns},
		{use: "delete PAGE_ID", short: "Delete a page; it can be undeleted", method: http.MethodDelete, path: "/pages/{page_id}", state: givenState, confirm: "Delete", shows: nothing},
		step("undelete", "Bring a deleted page back"),
		step("publish", "Publish a draft"),
		step("unpublish", "Make a published page a draft"),
		step("archive", "Archive a page"),
		step("restore", "Make an archived page a draft"),
		{
			use: "schedule PAGE_ID", short: "Say when a page is to be published and unpublished",
			long:    "What is not given is taken off the schedule.",
			example: "  atrium pages schedule page_… --tenant tenant_… --publish-at 2026-03-02T09:00:00Z --unpublish-at 2026-04-01T00:00:00Z",
			method:  http.MethodPut, path: "/pages/{page_id}/schedule", state: givenState, shows: upright, columns: whole, params: []param{
				{flag: "publish-at", usage: "`time` in RFC 3339 form"},
				{flag: "unpublish-at", usage: "`time` in RFC 3339 form"},
			},
		},
		{use: "unschedule PAGE_ID", short: "Take a page's schedule away", method: http.MethodDelete, path: "/pages/{page_id}/schedule", state: givenState, shows: nothing},
	}}
}
