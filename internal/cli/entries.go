package cli

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"atrium"
)

func entries() group {
	const entryPath = "/account_logs/{account_log_id}"
	return group{name: "entries", short: "Find, read, record and move activity entries", operations: []operation{
		{
			use: "list", short: "Find entries of all accounts",
			long: `Without --account or --unattributed, entries are sorted by ID, which for entries that Atrium
recorded is newest first. --idempotency-key, --account and --unattributed are fast. With the
other filters alone, the command reads entries from the newest on: pass --limit to stop at
the first ones that match.`,
			example: "  atrium entries list --tenant tenant_… --idempotency-key deal-2291-won\n" +
				"  atrium entries list --tenant tenant_… --unattributed --claimed-name 'Example Manufacturing'\n" +
				"  atrium entries list --tenant tenant_… --account northwind.example --since 2026-03-01",
			method: http.MethodGet, path: "/account_logs", layout: layoutList, columns: []column{
				{"ENTRY", "accountLogId"}, {"ACCOUNT", "accountId"}, {"RECORDED", "createdAt"}, {"SOURCE", "source"},
				{"TYPE", "type"}, {"CLAIMED DOMAIN", "claimed.domain"}, {"CLAIMED NAME", "claimed.name"}, {"RULE", "rule"},
				{"KEY", "idempotencyKey"},
			}, included: includedInEntries, params: []param{
				{flag: "idempotency-key", usage: "only the entry with this `key`"},
				{flag: "account", name: "accountId", usage: "only entries of the account with this `ID`", names: "account_id"},
				{flag: "unattributed", kind: boolean, usage: "only entries of the unattributed account"},
				{flag: "claimed-domain", usage: "only entries sent with this `domain`, in any spelling"},
				{flag: "claimed-name", usage: "only entries sent with this `name`, ignoring case"},
				{flag: "since", kind: instant, usage: "only entries recorded at or after this `time`"},
				{flag: "until", kind: instant, usage: "only entries recorded before this `time`"},
				{flag: "source", usage: "only entries from this `source`"},
				{flag: "type", usage: "only entries of this `type`"},
				includeInEntries,
			},
		},
		{
			use: "get ACCOUNT_LOG_ID", short: "Show an entry", method: http.MethodGet, path: entryPath,
			layout: layoutDetails, columns: []column{
				{"Entry", "accountLogId"}, {"Account", "accountId"}, {"Acknowledged account", "acknowledgedAccountId"},
				{"Recorded", "createdAt"}, {"Occurred", "occurredAt"},
				{"Source", "source"}, {"Type", "type"}, {"Claimed account", "claimed.accountId"},
				{"Claimed domain", "claimed.domain"}, {"Claimed name", "claimed.name"},
				{"Idempotency key", "idempotencyKey"}, {"Move", "moveId"}, {"Rule", "rule"},
				{"Submitted by", "submittedBy"}, {"Request", "requestId"}, {"Payload", "payload"},
			},
		},
		{
			use: "counts", short: "Count the entries of all accounts by hour or day",
			long: `Entries count at the time at which they were recorded, in UTC. A dash is for all sources and types
but those with the most entries, of which --series says how many. Numbers are some minutes late:
with -o json, completeUntil is the time before which all entries are counted. It is missing
while entries are counted for the first time, as after an upgrade.`,
			example: "  atrium entries counts --tenant tenant_… --interval day --since 2026-03-01\n" +
				"  atrium entries counts --tenant tenant_… --source crm -o csv",
			method: http.MethodGet, path: "/activity/counts", layout: layoutMember, rowsMember: "items", items: "counts",
			columns: []column{{"START", "start"}, {"SOURCE", "source"}, {"TYPE", "type"}, {"ENTRIES", "count"}}, params: []param{
				{flag: "interval", usage: "length of the periods, `hour` or day", values: []string{"hour", "day"}},
				{flag: "since", kind: instant, usage: "only entries recorded at or after this `time` (default: 24 hours or 30 days)"},
				{flag: "until", kind: instant, usage: "only entries recorded before this `time`"},
				{flag: "source", usage: "only entries from this `source`"},
				{flag: "type", usage: "only entries of this `type`"},
				{flag: "series", kind: integer, minimum: 1, usage: "`number` of sources and types to count separately, at most 20 (default 10)"},
			},
		},
		{
			use: "explain ACCOUNT_LOG_ID", short: "Explain why an entry is in its account",
			long: `The command says what the rule that chose the account saw and chose, and what has happened to
the entry since. Of an entry that was erased, or deleted by a retention rule, it says what is left.`,
			method: http.MethodGet, path: entryPath + "/explanation", layout: layoutDetails, columns: []column{
				{"Entry", "accountLogId"}, {"Account", "accountId"}, {"Deleted", "deleted"}, {"Rule", "rule"}, {"Submitted by", "submittedBy"},
				{"Request", "requestId"}, {"Explanation", "steps"},
			}, itemFormats: map[string]formatFunc{"steps": formatStep},
		},
		{
			use: "payload ACCOUNT_LOG_ID", short: "Print the payload of an entry as it was sent",
			method: http.MethodGet, path: entryPath + "/payload", layout: layoutRaw, mediaType: "application/json",
		},
		{
			use: "move ACCOUNT_LOG_ID", short: "Move an entry to another account",
			method: http.MethodPost, path: entryPath + "/move", idempotent: true, ifMatch: optionalIfMatch,
			columns: moveColumns, params: []param{
				{flag: "to", name: "accountId", usage: "`ID` of the target account", required: true,
					names: "account_id"},
			},
		},
	}, extraCommands: []func(*target) *cobra.Command{newEntriesBatch}}
}

// includedInEntries are the columns that includeInEntries adds to a list of entries.
var includedInEntries = []column{{"PAYLOAD", "payload"}, {"SUMMARY", "summary"}}

var includeInEntries = param{flag: "include", usage: "`field` to add: payload or summary", values: []string{"payload", "summary"}}

var moveColumns = []column{
	{"MOVE", "moveId"}, {"FROM", "fromAccountId"}, {"TO", "toAccountId"}, {"ENTRIES", "moved"},
	{"CREATED", "createdAt"}, {"UNDONE", "undoneAt"}, {"RULE", "rule"},
}

// formatStep formats a sentence of an explanation.
func formatStep(v jsontext.Value) (string, error) { return formatValue(v), nil }

// formatMoveCheck formats the response to a move with --check.
func formatMoveCheck(body jsontext.Value) (string, error) {
	var report struct {
		Moved      int64  `json:"moved"`
		NextCursor string `json:"nextCursor"`
	}
	if err := json.Unmarshal(body, &report); err != nil {
		return "", fmt.Errorf("read response: %w", err)
	}
	text := atrium.Count(report.Moved, "entry", "entries") + " would be moved"
	if report.NextCursor != "" {
		text += "; to continue, pass --cursor " + atrium.Printable(report.NextCursor)
	}
	return text, nil
}

// moveRule is the rule of a move. An entry must match all parts.
var moveRule = param{
	flag: "rule", kind: document, required: true,
	usage: "the rule as a JSON `object` with source, type, claimedName, claimedDomain or payload (pointer and equals)",
	parts: slices.Concat([]param{
		{flag: "source", usage: "match entries from this `source`", check: func(text string) string { return atrium.CheckText(text, 1, atrium.MaxSource) }},
		{flag: "type", usage: "match entries of this `type`", check: func(text string) string { return atrium.CheckText(text, 1, atrium.MaxType) }},
	}, entryRuleParts),
}

// entryRuleParts are the flags of a rule that selects entries.
var entryRuleParts = []param{
	{flag: "claimed-name", usage: "match entries whose sender gave this `name`, in any case",
		check: func(text string) string { return atrium.CheckText(text, 1, atrium.MaxName) }},
	{flag: "claimed-domain", usage: "match entries whose sender gave this `domain`, in any spelling",
		check: atrium.CheckDomain},
	{flag: "payload-pointer", name: "payload/pointer", usage: "JSON `pointer` to a payload field, such as /deal/region"},
	{flag: "payload-equals", name: "payload/equals", kind: scalar,
		usage: "match entries with this `value` at --payload-pointer: text, or a JSON number, true, false or \"text\""},
}

func moves() group {
	report := []column{{"Move", "move.moveId"}, {"From", "move.fromAccountId"}, {"To", "move.toAccountId"}}
	moved := slices.Concat(report, []column{{"Moved", "moved"}, {"Next cursor", "nextCursor"}})
	restored := slices.Concat(report, []column{{"Restored", "restored"}, {"Skipped", "skipped"}})
	return group{name: "moves", short: "Move entries between accounts by rule, and undo moves", operations: []operation{
		{
			use: "list", short: "List moves, newest first", method: http.MethodGet, path: "/moves", layout: layoutList,
			columns: moveColumns,
		},
		{
			use: "get MOVE_ID", short: "Show a move", method: http.MethodGet, path: "/moves/{move_id}",
			columns: moveColumns,
		},
		{
			use: "create", short: "Move the entries that match a rule",
			long: `One move contains at most 1000 entries. If more entries can match, the output includes a
cursor: repeat the command with --cursor to continue.`,
			example: "  atrium moves create --tenant tenant_… --to account_… " +
				"--claimed-name 'Example Manufacturing' --check\n" +
				"  atrium moves create --from account_… --to account_… --payload-pointer /deal/region --payload-equals emea",
			method: http.MethodPost, path: "/moves", idempotent: true, layout: layoutDetails, columns: moved, optional: "nextCursor",
			checkFormat: formatMoveCheck, params: []param{
				{flag: "from", usage: "`ID` of the source account (default: the unattributed account)", names: "account_id"},
				{flag: "to", usage: "`ID` of the target account", required: true, names: "account_id"},
				moveRule,
				{flag: "limit", kind: integer, usage: "maximum `number` of entries, up to 1000", minimum: 1},
				{flag: "check", kind: boolean, usage: "count the entries without moving them"},
				{flag: "cursor", usage: "`cursor` printed by the previous move"},
			},
		},
		{
			use: "undo MOVE_ID", short: "Undo a move",
			method: http.MethodPost, path: "/moves/{move_id}/undo", ifMatch: optionalIfMatch, layout: layoutDetails,
			columns: restored,
		},
	}}
}
