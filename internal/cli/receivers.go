package cli

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"

	"atrium"
)

var receiverColumns = []column{
	{"RECEIVER", "receiverId"}, {"NAME", "name"}, {"PROVIDER", "provider"}, {"SOURCE", "source"}, {"ENABLED", "enabled"}, {"UPDATED", "updatedAt"},
}

// receiverDetails are all columns of a receiver.
var receiverDetails = []column{
	{"ID", "receiverId"}, {"Name", "name"}, {"Provider", "provider"}, {"Path", "path"}, {"URL", "url"}, {"Source", "source"},
	{"Verification", "verification"}, {"Mapping", "mapping"}, {"Enabled", "enabled"}, {"Created", "createdAt"}, {"Updated", "updatedAt"},
}

var quarantinedColumns = []column{
	{"DELIVERY", "quarantinedId"}, {"RECEIVED", "receivedAt"}, {"BYTES", "bodyBytes"}, {"FAULT", "fault"}, {"REQUEST", "requestId"},
}

var mappedColumns = []column{
	{"MAPPED", "mapped"}, {"ENTRIES", "accountLogs"}, {"REPLAYED", "replayed"}, {"FILTERED", "filtered"}, {"FAILED", "failed"}, {"LEFT", "left"}, {"CURSOR", "nextCursor"},
}

// receiverSecret is the secret of a receiver that the other system has made.
var receiverSecret = param{flag: "secret", kind: private, usage: "`file` that contains the secret from the other system; - for stdin"}

// receiverParams are what a receiver is created and updated with, except its name and provider.
func receiverParams() []param {
	return []param{
		{flag: "source", usage: "the `source` of the entries (default: the provider)"},
		{flag: "verification", kind: document, usage: "how requests are verified, for the providers hmac, token and basic, as a JSON `object`", parts: []param{
			{flag: "header", usage: "`name` of the header with the signature or the token"},
			{flag: "algorithm", usage: "`hash` of the signature: sha1, sha256 or sha512", values: []string{"sha1", "sha256", "sha512"}},
			{flag: "encoding", usage: "`encoding` of the signature: hex or base64", values: []string{"hex", "base64"}},
			{flag: "prefix", usage: "`text` that the header begins with, such as sha256="},
			{flag: "content", usage: "what is signed: a `text` with {body}, {timestamp} and {id}"},
			{flag: "timestamp-header", usage: "`name` of the header with {timestamp}"},
			{flag: "id-header", usage: "`name` of the header with {id}"},
			{flag: "tolerance", kind: seconds, usage: "maximum `duration` between the timestamp and the clock of the server", minimum: 1, maximum: atrium.MaxReceiverTolerance},
			{flag: "username", usage: "user `name` for basic"},
		}},
		{flag: "mapping", kind: document, usage: "how deliveries become entries: CEL expressions as a JSON `object`", parts: []param{
			{flag: "filter", usage: "CEL `expression` that is false for deliveries to acknowledge without an entry"},
			{flag: "type", usage: "CEL `expression` for the type of the entry"},
			{flag: "account", name: "accountId", usage: "CEL `expression` for the ID of the account"},
			{flag: "domain", usage: "CEL `expression` for the domain of the account"},
			{flag: "email", usage: "CEL `expression` for an email address whose domain is that of the account"},
			{flag: "account-name", name: "name", usage: "CEL `expression` for the name of the account"},
			{flag: "occurred-at", usage: "CEL `expression` for when it occurred"},
			{flag: "event-id", usage: "CEL `expression` for the identifier of the event"},
		}},
	}
}

func receivers() group {
	const (
		path       = "/receivers/{receiver_id}"
		quarantine = path + "/quarantine"
	)
	var providers []string
	for _, p := range atrium.ReceiverProviders() {
		providers = append(providers, string(p))
	}
	name := param{flag: "name", usage: "`name` of the receiver, 1 to 200 characters"}
	required := name
	required.required = true
	created := slices.Concat([]column{{"Secret", "secret"}, {"Verify token", "verifyToken"}}, receiverDetails)
	inRange := []param{
		{flag: "since", kind: instant, usage: "only deliveries that were received at or after this `time`"},
		{flag: "until", kind: instant, usage: "only deliveries that were received before this `time`"},
	}
	return group{name: "receivers", short: "Receive the webhooks of other systems", operations: []operation{
		{
			use: "list", short: "List receivers, newest first", method: http.MethodGet, path: "/receivers", layout: layoutList,
			columns: slices.Concat(receiverColumns[:5], []column{{"IN QUARANTINE", "quarantined"}}),
		},
		{
			use: "show RECEIVER_ID", short: "Show a receiver without its secret", method: http.MethodGet, path: path, layout: layoutDetails, columns: receiverDetails,
		},
		{
			use: "create", short: "Create a receiver",
			long: `Set the address of the receiver in the other system. If that system generates the secret, pass it with
--secret-file. Otherwise the server generates one: it is shown once, and you set it in the other system.
The server needs the setting secrets-key-file.`,
			example: "  atrium receivers create --tenant tenant_… --name Pushes --provider github --domain '\"example.com\"'",
			method:  http.MethodPost, path: "/receivers", idempotent: true, layout: layoutDetails, columns: created, note: "(shown only once)", params: slices.Concat([]param{
				required, {flag: "provider", usage: "the `system` that sends the webhooks, or how they are verified", values: providers, required: true}, receiverSecret,
			}, receiverParams()),
		},
		{
			use: "update RECEIVER_ID", short: "Change a receiver", method: http.MethodPatch, path: path, ifMatch: requiredIfMatch, resource: path, layout: layoutDetails,
			long: `Only what the flags set changes: --type '"deal"' keeps the other expressions of the mapping, and --type ''
restores the default. --mapping and --verification replace everything.`,
			example: "  atrium receivers update receiver_… --type '\"deal\"'",
			columns: receiverDetails, params: slices.Concat([]param{name}, receiverParams()),
		},
		{
			use: "delete RECEIVER_ID", short: "Delete a receiver", method: http.MethodDelete, path: path, ifMatch: optionalIfMatch,
			confirm: "Permanently delete", layout: layoutNone, done: "The receiver is deleted.",
		},
		{
			use: "rotate-secret RECEIVER_ID", short: "Replace the secret of a receiver",
			long:   "The previous secret stays valid for the grace period. A generated one is shown once.",
			method: http.MethodPost, path: path + "/rotate_secret", layout: layoutDetails, columns: created, note: "(shown only once)", params: []param{
				receiverSecret,
				{flag: "grace", name: "graceSeconds", kind: seconds, usage: "`duration` for which the previous secret stays valid, at most 30d", defaultValue: "24h", maximum: 30 * 24 * 60 * 60},
			},
		},
		{use: "enable RECEIVER_ID", short: "Enable a receiver", method: http.MethodPost, path: path + "/enable", columns: receiverColumns},
		{use: "disable RECEIVER_ID", short: "Disable a receiver: it refuses requests", method: http.MethodPost, path: path + "/disable", columns: receiverColumns},
		{
			use: "quarantine RECEIVER_ID", short: "List deliveries that could not be mapped, newest first", method: http.MethodGet, path: quarantine, layout: layoutList,
			items: "deliveries in quarantine", columns: quarantinedColumns, params: inRange,
		},
		{
			use: "delivery RECEIVER_ID QUARANTINED_ID", short: "Show a delivery in quarantine", method: http.MethodGet, path: quarantine + "/{quarantined_id}", layout: layoutDetails,
			columns: []column{
				{"ID", "quarantinedId"}, {"Received", "receivedAt"}, {"Fault", "fault"}, {"Request", "requestId"}, {"Headers", "headers"}, {"Query", "query"},
				{"Body", "body"}, {"Body (Base64)", "bodyBase64"},
			},
		},
		{
			use: "map-again RECEIVER_ID", short: "Map deliveries in quarantine again, oldest first", method: http.MethodPost, path: path + "/map_again",
			long: `Deliveries that can be mapped become entries; the others stay. One call maps a limited number: repeat it
with --cursor, which skips those that have failed.`,
			columns: mappedColumns, advise: restToMap, params: []param{
				{flag: "limit", kind: integer, usage: "maximum `number` of deliveries, up to 200 (default 100)", minimum: 1},
				{flag: "cursor", usage: "`cursor` printed by the previous call"},
			},
		},
		{
			use: "map-delivery-again RECEIVER_ID QUARANTINED_ID", short: "Map a delivery in quarantine again", method: http.MethodPost, path: quarantine + "/{quarantined_id}/map_again",
			columns: mappedColumns,
		},
		{
			use: "try RECEIVER_ID", short: "Show what would become of a request", method: http.MethodPost, path: path + "/try", resource: path, layout: layoutDetails,
			long: `Nothing is stored. --mapping, --verification and --secret-file are tried instead of those of the receiver.
A flag such as --type replaces only that expression of the mapping.`,
			example: `  atrium receivers try receiver_… --sample --domain '"acme.example"'
  atrium receivers try receiver_… --request-file sample.json --domain 'body.company.domain'
  atrium receivers try receiver_… --delivery quarantined_… --type '"deal"'`,
			columns: []column{
				{"Verified", "verified"}, {"Reason", "reason"}, {"Fault", "fault"}, {"Elements", "elements"}, {"Results", "results"},
			}, params: slices.Concat([]param{
				{flag: "request", kind: document, usage: "the request as a JSON `object` with headers, query, and body or bodyBase64"},
				{flag: "sample", kind: boolean, usage: "try a sample of what the provider sends, instead of a request"},
				{flag: "delivery", name: "quarantinedId", usage: "`ID` of a delivery in quarantine, instead of a request"},
				receiverSecret,
			}, receiverParams()[1:]),
		},
		{
			use: "discard RECEIVER_ID QUARANTINED_ID", short: "Delete a delivery in quarantine", method: http.MethodDelete, path: quarantine + "/{quarantined_id}",
			ifMatch: optionalIfMatch, confirm: "Permanently delete the delivery in quarantine of", layout: layoutNone, done: "The delivery is deleted.",
		},
		{
			use: "discard-quarantine RECEIVER_ID", short: "Delete all deliveries in quarantine", method: http.MethodPost, path: path + "/discard_quarantine",
			long:    "One call deletes at most 2,000: repeat it while there are more.",
			confirm: "Permanently delete deliveries in quarantine of", columns: []column{{"DISCARDED", "discarded"}, {"MORE", "hasMore"}}, params: inRange, advise: restToDiscard,
		},
	}}
}

// restToMap says how to map the deliveries that a call has left.
func restToMap(_ context.Context, _ *client, e effect) string {
	var mapped struct {
		Left       int64  `json:"left"`
		NextCursor string `json:"nextCursor"`
	}
	if json.Unmarshal(e.response, &mapped, lenientJSON) != nil || mapped.NextCursor == "" {
		return ""
	}
	return fmt.Sprintf("%s in quarantine: to continue, pass --cursor %s", atrium.Count(mapped.Left, "delivery is", "deliveries are"), atrium.Printable(mapped.NextCursor))
}

// restToDiscard says how to discard the deliveries that a call has left.
func restToDiscard(_ context.Context, _ *client, e effect) string {
	var discarded struct {
		HasMore bool `json:"hasMore"`
	}
	if json.Unmarshal(e.response, &discarded, lenientJSON) != nil || !discarded.HasMore {
		return ""
	}
	return "There are more: to continue, repeat the command."
}
