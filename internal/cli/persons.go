package cli

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
)

var personExport = operation{
	use: "export [FILE]", short: "Export what is stored about a person",
	long: `Write everything that an erasure by the same rule would delete to a new FILE, or to stdout: NDJSON,
one prospect, entry, move or audit record per line. The audit log records the export, without the values
of the rule.`,
	example: "  atrium persons export --tenant tenant_… --text jane@blueharbor.example " +
		"--prospect-email jane@blueharbor.example jane.ndjson",
	method: http.MethodPost, path: "/persons/export", layout: layoutRaw, mediaType: ndjson,
	params: []param{erasureRule, searchedAccount},
}

func persons() group {
	return group{name: "persons", short: "Export what is stored about a person", extraCommands: []func(*target) *cobra.Command{newPersonExport}}
}

func newPersonExport(t *target) *cobra.Command {
	o := personExport
	cmd := &cobra.Command{Use: o.use, Short: o.short, Long: o.short + ".\n\n" + o.long, Example: o.example, Args: cobra.MaximumNArgs(1)}
	for i := range o.params {
		o.params[i].addFlag(cmd)
	}
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return t.resolve(cmd, o.tenancy) }
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		values, err := o.parse(cmd, nil)
		if err != nil {
			return err
		}
		return t.withClient(cmd, "", func(c *client) error {
			if _, err := values.resolve(cmd.Context(), c, &o, ""); err != nil {
				return o.translate(cmd, nil, t, err)
			}
			request, err := o.build(cmd, values)
			if err != nil {
				return err
			}
			lines, err := o.writeLines(cmd, t, c, request, args)
			if err == nil && lines == 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), "nothing matches the rule")
			}
			return err
		})
	})
	return cmd
}
