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
	return group{name: "entries", short: "Read, record and move activity entries", operations: []operation{
		{
			use: "get ACCOUNT_LOG_ID", short: "Show an entry", method: http.MethodGet, path: entryPath,
			layout: layoutDetails, columns: []column{
				{"Entry", "accountLogId"}, {"Account", "accountId"}, {"Acknowledged account", "acknowledgedAccountId"},
				{"Recorded", "createdAt"}, {"Occurred", "occurredAt"},
				{"Source", "source"}, {"Type", "type"}, {"Claimed account", "claimed.accountId"},
				{"Claimed domain", "claimed.domain"}, {"Claimed name", "claimed.name"},
				{"Idempotency key", "idempotencyKey"}, {"Move", "moveId"}, {"Payload", "payload"},
			},
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

var moveColumns = []column{
	{"MOVE", "moveId"}, {"FROM", "fromAccountId"}, {"TO", "toAccountId"}, {"ENTRIES", "moved"},
	{"CREATED", "createdAt"}, {"UNDONE", "undoneAt"},
}

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
	usage: "the rule as a JSON `object` with claimedName, claimedDomain or payload (pointer and equals)",
	parts: []param{
		{flag: "claimed-name", usage: "match entries whose sender gave this `name`, in any case",
			check: func(text string) string { return atrium.CheckText(text, 1, atrium.MaxName) }},
		{flag: "claimed-domain", usage: "match entries whose sender gave this `domain`, in any spelling",
			check: atrium.CheckDomain},
		{flag: "payload-pointer", name: "payload/pointer", usage: "JSON `pointer` to a payload member, such as /deal/region"},
		{flag: "payload-equals", name: "payload/equals", kind: scalar,
			usage: "match entries with this `value` at --payload-pointer: text, or a JSON number, true, false or \"text\""},
	},
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
			method: http.MethodPost, path: "/moves", idempotent: true, layout: layoutDetails, columns: moved,
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
