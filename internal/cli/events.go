package cli

import (
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"atrium"
)

var eventColumns = []column{{"POSITION", "position"}, {"TYPE", "type"}, {"AT", "timestamp"}, {"EVENT", "id"}, {"DATA", "data"}}

// eventTypes are the types of events as texts.
func eventTypes() (all []string) {
	for _, t := range atrium.EventTypes() {
		all = append(all, string(t))
	}
	return all
}

func events() group {
	settings := []column{{"ENABLED", "enabled"}, {"ENABLED AT", "enabledAt"}}
	return group{name: "events", short: "Read what has happened to the data of a tenant", operations: []operation{
		{
			use: "list", short: "List events in the order of their positions",
			long: `Without --after and --since, the list begins with the oldest event that is stored. The types are
` + strings.Join(eventTypes(), ",\n") + `.`,
			example: "  atrium events list --tenant tenant_… --since 2026-06-01 --types account_log.created\n" +
				"  atrium events list --tenant tenant_… --after 4711 -o json",
			method: http.MethodGet, path: "/events", layout: layoutMember, rowsMember: "items", columns: eventColumns, params: []param{
				{flag: "after", kind: integer, usage: "only events after this `position`"},
				{flag: "since", kind: instant, usage: "begin with the first event at or after this `time`, or up to two minutes earlier"},
				{flag: "types", usage: "only events of these `types`, separated by commas"},
				{flag: "wait", name: "waitSeconds", kind: seconds, usage: "how long to wait if there is no event, at most 30s", maximum: 30},
				{flag: "limit", kind: integer, usage: "maximum `number` of events, up to 100", minimum: 1},
			},
		},
		{
			use: "settings", short: "Show whether the events of a tenant are enabled", method: http.MethodGet, path: "/event_settings", columns: settings,
		},
		{
			use: "set", short: "Enable or disable the events of a tenant",
			long:    `While events are off, nothing that happens becomes an event. Those that exist stay until they expire.`,
			example: "  atrium events set --tenant tenant_… --enabled",
			method:  http.MethodPatch, path: "/event_settings", ifMatch: requiredIfMatch, columns: settings, params: []param{
				{flag: "enabled", kind: boolean, usage: "whether events are enabled", required: true},
			},
		},
	}, extraCommands: []func(*target) *cobra.Command{newEventsTail, newEventsForward}}
}
