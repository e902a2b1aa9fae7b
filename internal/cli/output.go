package cli

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"atrium"
)

// An output is the form in which a command prints its data.
type output struct{ form string }

func outputFlag(cmd *cobra.Command) *output {
	o := &output{}
	cmd.Flags().StringVarP(&o.form, "output", "o", "table", "`form` of the data on stdout: table or json")
	return o
}

// print writes data as JSON, or calls table to write it for people.
func (o *output) print(cmd *cobra.Command, data any, table func(io.Writer)) error {
	switch o.form {
	case "json":
		b, err := json.Marshal(data, jsontext.WithIndent("  "), json.Deterministic(true))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", b)
		return err
	case "table":
		w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
		table(w)
		return w.Flush()
	default:
		return usageError{fmt.Errorf("--output is table or json, not %q", o.form)}
	}
}

// orDash returns an instant for a table.
func orDash(t *atrium.Time) string {
	if t == nil {
		return "-"
	}
	return t.String()
}
