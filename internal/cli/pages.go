package cli

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
			usage: "`duration` for which caches may keep the public page, at most 24h", maximum: 24 * 60 * 60},
	}
	created := slices.Clone(content)
	created[0].required, created[1].required = true, true
	// transition returns a command that changes the state of a page.
	transition := func(name, short string) operation {
		return operation{use: name + " PAGE_ID", short: short, method: http.MethodPost,
			path: "/pages/{page_id}/" + name, ifMatch: optionalIfMatch, columns: columns}
	}
	publish := transition("publish", "Publish a draft")
	publish.advise = visibility
	scheduled := []column{
		{"Page", "pageId"}, {"Name", "name"}, {"Status", "status"}, {"Publish at", "schedule.publishAt"},
		{"Unpublish at", "schedule.unpublishAt"},
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
			layout: layoutDetails, columns: details, itemFormats: map[string]formatFunc{"maxAgeSeconds": formatSeconds},
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
			promptDetail: namedPage, done: "The page is deleted; atrium pages undelete restores it.",
		},
		transition("undelete", "Restore a deleted page"),
		publish,
		transition("unpublish", "Return a published page to draft"),
		transition("archive", "Archive a page"),
		transition("restore", "Return an archived page to draft"),
		{
			use: "schedule PAGE_ID", short: "Set when a page is published and unpublished",
			long: "This replaces the schedule: a time that you omit is removed.",
			example: "  atrium pages schedule page_… --tenant tenant_… --publish-at 2026-03-02T09:00:00Z " +
				"--unpublish-at 2026-04-01T00:00:00Z",
			method: http.MethodPut, path: "/pages/{page_id}/schedule", ifMatch: optionalIfMatch, layout: layoutDetails,
			columns: scheduled, before: parent, advise: droppedTime, params: []param{
				{flag: "publish-at", kind: instant, usage: "`time` at which the page is published"},
				{flag: "unpublish-at", kind: instant, usage: "`time` at which the page is unpublished"},
			},
		},
		{
			use: "unschedule PAGE_ID", short: "Remove the schedule of a page", method: http.MethodDelete,
			path: "/pages/{page_id}/schedule", ifMatch: optionalIfMatch, layout: layoutNone,
			done: "The page has no schedule now.",
		},
	}}
}

// A pageState is what advice on pages depends on.
type pageState struct {
	PageID   string `json:"pageId"`
	Status   string `json:"status"`
	Public   bool   `json:"public"`
	Schedule *struct {
		PublishAt   string `json:"publishAt"`
		UnpublishAt string `json:"unpublishAt"`
	} `json:"schedule"`
}

func readPage(body jsontext.Value) (p pageState, ok bool) {
	err := json.Unmarshal(body, &p, lenientJSON)
	return p, err == nil
}

// droppedTime says which time a new schedule removed.
func droppedTime(_ context.Context, _ *client, e effect) string {
	was, ok := readPage(e.before)
	now, okNow := readPage(e.response)
	if !ok || !okNow || was.Schedule == nil || now.Schedule == nil {
		return ""
	}
	var removed []string
	if was.Schedule.PublishAt != "" && now.Schedule.PublishAt == "" {
		removed = append(removed, "The time to publish, "+was.Schedule.PublishAt+", was removed. To keep it, pass --publish-at too.")
	}
	if was.Schedule.UnpublishAt != "" && now.Schedule.UnpublishAt == "" {
		removed = append(removed, "The time to unpublish, "+was.Schedule.UnpublishAt+", was removed. To keep it, pass --unpublish-at too.")
	}
	return strings.Join(removed, " ")
}

// visibility says who can see a page that was published.
func visibility(_ context.Context, _ *client, e effect) string {
	p, ok := readPage(e.response)
	if !ok || p.Public {
		return ""
	}
	return "The page is visible with a key that has the scope content:read. To show it without a key, run atrium pages " +
		"update " + p.PageID + " --public."
}

// visibilityOfVersion says that a version was published on a page that is not.
func visibilityOfVersion(ctx context.Context, c *client, e effect) string {
	page, _, _ := strings.Cut(e.call.path, "/audiences/")
	response, err := c.fetch(ctx, call{method: http.MethodGet, path: page})
	if err != nil {
		return ""
	}
	p, ok := readPage(response.body)
	switch {
	case !ok || p.Status == "published":
		return ""
	case p.Status == "draft":
		return "The version is not visible yet: the page is a draft. Run atrium pages publish " + p.PageID + "."
	}
	return "The version is not visible: the page is " + p.Status + "."
}
