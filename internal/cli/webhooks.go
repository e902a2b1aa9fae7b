package cli

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

var webhookColumns = []column{
	{"WEBHOOK", "webhookId"}, {"DESCRIPTION", "description"}, {"URL", "url"}, {"ENABLED", "enabled"}, {"REASON", "disabledReason"}, {"UPDATED", "updatedAt"},
}

// webhookDetails are all columns of a webhook.
var webhookDetails = []column{
	{"ID", "webhookId"}, {"Description", "description"}, {"URL", "url"}, {"Event types", "eventTypes"}, {"Sources", "sources"}, {"Entry types", "entryTypes"},
	{"Account", "accountId"}, {"Filter", "filter"}, {"Format", "format"}, {"Ordered", "ordered"}, {"Rate limit", "rateLimit"},
	{"Enabled", "enabled"}, {"Reason", "disabledReason"}, {"Disabled", "disabledAt"}, {"Created", "createdAt"}, {"Updated", "updatedAt"},
}

var deliveryColumns = []column{
	{"EVENT", "eventId"}, {"POSITION", "position"}, {"TYPE", "type"}, {"STATE", "state"}, {"ATTEMPTS", "attempts"}, {"STATUS", "status"}, {"ERROR", "error"},
	{"NEXT", "nextAt"}, {"FINISHED", "finishedAt"},
}

var replayColumns = []column{
	{"REPLAY", "replayId"}, {"FROM", "from"}, {"TO", "to"}, {"FAILED ONLY", "failedOnly"}, {"EXAMINED TO", "examinedTo"}, {"SCHEDULED", "scheduled"},
	{"CREATED", "createdAt"}, {"FINISHED", "finishedAt"},
}

// webhookParams are what a webhook is created and updated with, except its URL.
func webhookParams() []param {
	formats := []string{string(atrium.FormatStandard), string(atrium.FormatLegacy), string(atrium.FormatCloudEvents)}
	return []param{
		{flag: "description", usage: "what the webhook is for"},
		{flag: "event-types", kind: list, usage: "send only events of these `types`, separated by commas", values: eventTypes()},
		{flag: "sources", kind: list, usage: "send only events about entries of these `sources`, separated by commas"},
		{flag: "entry-types", kind: list, usage: "send only events about entries of these `types`, separated by commas"},
		{flag: "account", name: "accountId", usage: "send only events about the account with this `ID`", nullable: true},
		{flag: "filter", usage: "send only events for which this CEL `expression` is true, such as data.source == \"crm\"", nullable: true},
		{flag: "format", usage: "the `format` of requests: standard, legacy or cloudevents", values: formats},
		{flag: "ordered", kind: boolean, usage: "send one event of an account at a time, in order"},
		{flag: "rate-limit", kind: integer, usage: "maximum `number` of requests per second; 0 for no limit"},
		{flag: "headers", kind: document, usage: "custom headers as a JSON `object` of texts; use --headers-file to keep secrets out of ps"},
	}
}

func webhooks() group {
	const (
		path       = "/webhooks/{webhook_id}"
		deliveries = path + "/deliveries"
	)
	created := slices.Concat([]column{{"Secret", "secret"}}, webhookDetails)
	url := param{flag: "url", usage: "https `URL` that events are sent to"}
	required := url
	required.required = true
	update := slices.Concat([]param{url}, webhookParams())
	create := slices.Concat([]param{required}, webhookParams())
	for i := range create {
		create[i].nullable = false // a new webhook has no condition to remove
	}
	return group{name: "webhooks", short: "Send events to other systems", operations: slices.Concat([]operation{
		{
			use: "list", short: "List webhooks, newest first", method: http.MethodGet, path: "/webhooks", layout: layoutList,
			columns: slices.Concat(webhookColumns[:5], []column{{"BEHIND", "progress.behind"}, {"FAILING SINCE", "progress.failingSince"}, {"LOST", "progress.lost"}}),
		},
		{
			use: "show WEBHOOK_ID", short: "Show a webhook without its secret",
			long:   "To see how many events it is behind and since when it fails, run \"atrium webhooks list\".",
			method: http.MethodGet, path: path, layout: layoutDetails, columns: webhookDetails,
		},
		{
			use: "create", short: "Create a webhook",
			long: `The secret, by which endpoints verify signatures, is shown once. The command enables the events of the tenant.
The webhook gets only later events. The server needs the setting secrets-key-file.`,
			example: "  atrium webhooks create --tenant tenant_… --url https://hooks.example.com/atrium --event-types account_log.created",
			method:  http.MethodPost, path: "/webhooks", idempotent: true, layout: layoutDetails, columns: created, note: "(shown only once)", params: create,
		},
		{
			use: "update WEBHOOK_ID", short: "Change a webhook", method: http.MethodPatch, path: path, ifMatch: requiredIfMatch, layout: layoutDetails,
			columns: webhookDetails, params: update,
		},
		{
			use: "delete WEBHOOK_ID", short: "Delete a webhook with its deliveries", method: http.MethodDelete, path: path, ifMatch: optionalIfMatch,
			confirm: "Permanently delete", layout: layoutNone, done: "The webhook is deleted.",
		},
		{
			use: "rotate-secret WEBHOOK_ID", short: "Replace the secret of a webhook",
			long:   "The previous secret stays valid for the grace period. The new one is shown once.",
			method: http.MethodPost, path: path + "/rotate_secret", layout: layoutDetails, columns: created, note: "(shown only once)", params: []param{
				{flag: "grace", name: "graceSeconds", kind: seconds, usage: "`duration` for which the previous secret stays valid, at most 30d", defaultValue: "24h", maximum: 30 * 24 * 60 * 60},
			},
		},
		{
			use: "enable WEBHOOK_ID", short: "Enable a webhook", method: http.MethodPost, path: path + "/enable", columns: webhookColumns,
		},
		{
			use: "disable WEBHOOK_ID", short: "Disable a webhook: its events wait", method: http.MethodPost, path: path + "/disable", columns: webhookColumns,
		},
		{
			use: "test WEBHOOK_ID", short: "Send a test event", method: http.MethodPost, path: path + "/test", layout: layoutNone,
			long: "A running server sends it. See the result with \"atrium webhooks deliveries WEBHOOK_ID\".", done: "The test event will be sent.",
		},
		{
			use: "stats WEBHOOK_ID", short: "Show the attempts of a webhook by hour", method: http.MethodGet, path: path + "/stats", layout: layoutMember,
			rowsMember: "hours", items: "hours", columns: []column{
				{"HOUR", "startsAt"}, {"ATTEMPTS", "attempts"}, {"SUCCEEDED", "succeeded"}, {"AVERAGE (MS)", "averageLatencyMs"}, {"MAXIMUM (MS)", "maxLatencyMs"},
			}, params: []param{{flag: "hours", kind: integer, usage: "`number` of hours to go back, up to 744 (default 24)", minimum: 1}},
		},
	}, deliveryOperations(deliveries), replayOperations(path+"/replays"))}
}

func deliveryOperations(path string) []operation {
	const event = "/{event_id}"
	var states []string
	for _, s := range atrium.DeliveryStates() {
		states = append(states, string(s))
	}
	return []operation{
		{
			use: "deliveries WEBHOOK_ID", short: "List the deliveries of a webhook, newest event first", method: http.MethodGet, path: path, layout: layoutList,
			items: "deliveries", columns: deliveryColumns, params: []param{
				{flag: "state", usage: "only deliveries in this `state`", values: states},
				{flag: "event", name: "eventId", usage: "only the delivery of the event with this `ID`"},
				{flag: "entry", name: "accountLogId", usage: "only deliveries of events about the entry with this `ID`"},
				{flag: "since", kind: instant, usage: "only deliveries whose first attempt ended at or after this `time`"},
				{flag: "until", kind: instant, usage: "only deliveries whose first attempt ended before this `time`"},
			},
		},
		{
			use: "delivery WEBHOOK_ID EVENT_ID", short: "Show a delivery with its attempts", method: http.MethodGet, path: path + event, layout: layoutMember,
			rowsMember: "requests", items: "attempts", columns: []column{
				{"ATTEMPT", "number"}, {"AT", "at"}, {"MS", "durationMs"}, {"STATUS", "status"}, {"ERROR", "error"}, {"RESPONSE", "response"},
			},
		},
		{
			use: "redeliver WEBHOOK_ID EVENT_ID", short: "Deliver an event again", method: http.MethodPost, path: path + event + "/redeliver", columns: deliveryColumns,
		},
	}
}

func replayOperations(path string) []operation {
	return []operation{
		{
			use: "replay WEBHOOK_ID", short: "Deliver a range of events again",
			long: `Deliver again, in the background, the events of a range that the webhook selects. With --failed-only, deliver only
those whose last attempt has failed, for example after an outage: failed deliveries start again, and pending ones are
attempted now. --check counts the events and delivers nothing.`,
			example: "  atrium webhooks replay webhook_… --failed-only --since 2026-06-01",
			method:  http.MethodPost, path: path, idempotent: true, columns: replayColumns, checkFormat: formatReplayCheck, params: []param{
				{flag: "from", kind: integer, usage: "first `position` (default: the oldest event that is stored)", minimum: 1},
				{flag: "to", kind: integer, usage: "last `position` (default: the newest event that the webhook has reached)", minimum: 1},
				{flag: "since", kind: instant, usage: "events at or after this `time`"},
				{flag: "until", kind: instant, usage: "events before this `time`"},
				{flag: "failed-only", kind: boolean, usage: "only events whose last attempt has failed"},
				{flag: "rate", kind: integer, usage: "maximum `number` of events per second, up to 1000 (default 50)", minimum: 1},
				{flag: "check", kind: boolean, usage: "count the events, without delivering them"},
			},
		},
		{use: "replays WEBHOOK_ID", short: "List the replays of a webhook, newest first", method: http.MethodGet, path: path, layout: layoutList, items: "replays", columns: replayColumns},
		{use: "show-replay WEBHOOK_ID REPLAY_ID", short: "Show the progress of a replay", method: http.MethodGet, path: path + "/{replay_id}", columns: replayColumns},
		{use: "cancel-replay WEBHOOK_ID REPLAY_ID", short: "End a replay", method: http.MethodPost, path: path + "/{replay_id}/cancel", columns: replayColumns},
	}
}

// formatReplayCheck formats the response to a replay with --check.
func formatReplayCheck(body jsontext.Value) (string, error) {
	var found struct {
		From    int64 `json:"from"`
		To      int64 `json:"to"`
		Events  int   `json:"events"`
		HasMore bool  `json:"hasMore"`
	}
	if err := json.Unmarshal(body, &found, lenientJSON); err != nil {
		return "", fmt.Errorf("read response: %w", err)
	}
	atLeast := ""
	if found.HasMore {
		atLeast = "at least "
	}
	return fmt.Sprintf("%s%s of the positions %d to %d would be delivered", atLeast, atrium.Count(found.Events, "event", "events"), found.From, found.To), nil
}
