package cli

import (
	"context"
	"net/http"

	"atrium"
)

func summaries() group {
	columns := []column{{"SOURCE", "source"}, {"TYPE", "type"}, {"TEMPLATE", "template"}}
	source := param{
		flag: "source", usage: "`source` of the entries", required: true,
		check: func(text string) string { return atrium.CheckText(text, 1, atrium.MaxSource) },
	}
	entryType := param{
		flag: "type", usage: "`type` of the entries (default: all types of the source without a template)",
		check: func(text string) string { return atrium.CheckText(text, 1, atrium.MaxType) },
	}
	inQuery := []param{source, entryType}
	for i := range inQuery {
		inQuery[i].inQuery = true
	}
	const path = "/summary_templates"
	return group{name: "summaries", short: "Manage how the console sums up entries", operations: []operation{
		{
			use: "list", short: "List the summary templates by source and type", method: http.MethodGet, path: path,
			layout: layoutMember, rowsMember: "templates", items: "summary templates", columns: columns,
		},
		{
			use: "set", short: "Set the summary template of a source, or of a source and a type",
			long: `A template is text, in which {/name} stands for the value at the JSON Pointer /name in the
payload: at most 20 of them. A value that is missing, null, an object or an array is left out.
The template with the source and the type of an entry applies, or else the one with only its
source. The command prints all templates after the change.`,
			example: "  atrium summaries set --tenant tenant_… --source web --type form --template '{/person/name} filled {/form}'",
			method:  http.MethodPut, path: path, ifMatch: optionalIfMatch, layout: layoutMember, rowsMember: "templates",
			items: "summary templates", columns: columns,
			params: []param{source, entryType, {flag: "template", usage: "`text` with {/pointer} for values of the payload", required: true}},
		},
		{
			use: "delete", short: "Delete a summary template",
			long:   "Without --type, the command deletes the template for all types of the source that have none.",
			method: http.MethodDelete, path: path, ifMatch: optionalIfMatch, confirm: "Delete", affected: summaryTemplate,
			layout: layoutNone, done: "The summary template is deleted.", params: inQuery,
		},
	}}
}

// summaryTemplate describes the template that a call deletes.
func summaryTemplate(_ context.Context, _ *client, c *call) (description, id string, err error) {
	description = "the summary template of the source " + atrium.Printable(c.query.Get("source"))
	if entryType := c.query.Get("type"); entryType != "" {
		description += " and the type " + atrium.Printable(entryType)
	}
	return description, "", nil
}
