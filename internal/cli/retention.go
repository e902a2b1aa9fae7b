package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

var retentionColumns = []column{{"SOURCE", "source"}, {"TYPE", "type"}, {"DAYS", "days"}}

// retentionRules is the list of rules of a command.
var retentionRules = param{
	flag: "rules", kind: document,
	usage: "the rules as a JSON `array` of objects with days and, if the rule is not for all entries, source and type",
}

func retention() group {
	set := retentionRules
	set.required = true
	return group{name: "retention", short: "Delete old entries by rules", operations: []operation{
		{
			use: "get", short: "Show the retention rules", method: http.MethodGet, path: "/retention", layout: layoutMember,
			rowsMember: "rules", items: "rules", columns: retentionColumns,
		},
		{
			use: "set", short: "Replace the retention rules",
			long: `One rule applies to an entry, the most specific one: with its source and type, then with its
source, then with its type, then with neither. Running servers delete the entries in the
background, as they get old. To see what rules would delete, run "atrium retention check".
An empty array disables retention.`,
			example: `  atrium retention set --tenant tenant_… --rules '[{"days":730},{"source":"web","days":90}]'`,
			method:  http.MethodPut, path: "/retention", ifMatch: requiredIfMatch, layout: layoutMember, rowsMember: "rules", items: "rules",
			columns: retentionColumns, confirm: "Permanently delete", affected: allExpired, harmless: withoutRules, params: []param{set},
		},
	}, extraCommands: []func(*target) *cobra.Command{newRetentionCheck}}
}

// allExpired describes what retention rules affect.
func allExpired(ctx context.Context, c *client, _ *call) (description, id string, err error) {
	tenant, err := tenantDescription(ctx, c)
	return "entries of " + tenant + " by the new rules, now and as they get old", "", err
}

// withoutRules reports whether the list of rules, the only param, is empty.
func withoutRules(values *arguments) bool {
	var rules []jsontext.Value
	return json.Unmarshal(values.params[0], &rules) == nil && len(rules) == 0
}

// retentionCheckOperation is the operation that a check calls until it has examined all entries.
var retentionCheckOperation = operation{use: "check", method: http.MethodPost, path: "/retention/check", params: []param{retentionRules}}

func newRetentionCheck(t *target) *cobra.Command {
	cmd := &cobra.Command{
		Use: "check", Short: "Count the entries that retention rules would delete now", Args: cobra.NoArgs,
		Long: `Count the entries that each rule would delete now, and delete nothing. The command reads all
entries of the tenant, 10,000 per request. Without --rules, it checks the current rules.`,
		Example: `  atrium retention check --tenant tenant_… --rules '[{"source":"web","days":90}]'`,
	}
	o := &retentionCheckOperation
	o.params[0].addFlag(cmd)
	out := outputFlag(cmd, formCSV)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return t.resolve(cmd, oneTenant) }
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		rules, err := o.params[0].value(cmd)
		if err != nil {
			return err
		}
		return t.withClient(cmd, "", func(c *client) error {
			total, err := countExpired(cmd.Context(), c, o, rules)
			if err != nil {
				return o.translate(cmd, args, t, err)
			}
			if out.form == formJSON {
				return out.print(cmd, total, nil)
			}
			l := newListing(cmd.OutOrStdout(), out.form, append(slices.Clip(retentionColumns), column{"ENTRIES", "accountLogs"}))
			rows := make([]jsontext.Value, len(total.Rules))
			for i, rule := range total.Rules {
				if rows[i], err = json.Marshal(rule); err != nil {
					return err
				}
			}
			if err := l.add(rows); err != nil {
				return err
			}
			return l.end(cmd.ErrOrStderr(), "rules")
		})
	})
	return cmd
}

// An expiredCount has the number of entries that rules would delete.
type expiredCount struct {
	Rules []struct {
		Source      string `json:"source,omitzero"`
		Type        string `json:"type,omitzero"`
		Days        int64  `json:"days"`
		AccountLogs int64  `json:"accountLogs"`
	} `json:"rules"`
	Examined int64 `json:"examined"`
}

// countExpired adds the counts of all pages of a check. rules may be nil.
func countExpired(ctx context.Context, c *client, o *operation, rules jsontext.Value) (total expiredCount, err error) {
	var cursors cursorCheck
	for cursor := ""; ; {
		var body object
		if rules != nil {
			body.add("rules", rules)
		}
		if cursor != "" {
			text, err := json.Marshal(cursor)
			if err != nil {
				return total, err
			}
			body.add("cursor", text)
		}
		request := call{method: o.method, path: o.path}
		if b := body.bytes(); b != nil {
			request.body = bytes.NewReader(b)
		}
		response, err := c.fetch(ctx, request)
		if err != nil {
			return total, err
		}
		var page struct {
			expiredCount
			HasMore    bool   `json:"hasMore"`
			NextCursor string `json:"nextCursor"`
		}
		if err := json.Unmarshal(response.body, &page, lenientJSON); err != nil {
			return total, fmt.Errorf("read response: %w", err)
		}
		for i := range page.Rules {
			if i < len(total.Rules) {
				page.Rules[i].AccountLogs += total.Rules[i].AccountLogs
			}
		}
		total.Rules, total.Examined = page.Rules, total.Examined+page.Examined
		if !page.HasMore {
			return total, nil
		}
		if err := cursors.next(page.NextCursor); err != nil {
			return total, err
		}
		cursor = page.NextCursor
	}
}
