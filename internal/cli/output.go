package cli

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// Output formats.
const (
	formTable = "table"
	formJSON  = "json"
)

// An output is the format in which a command prints its data. It implements pflag.Value, so that
// invalid formats are rejected before the command runs.
type output struct{ form string }

func outputFlag(cmd *cobra.Command) *output {
	o := &output{formTable}
	cmd.Flags().VarP(o, "output", "o", "output `format`: table or json")
	return o
}

// String returns the format.
func (o *output) String() string { return o.form }

// Type returns the name of the type in help.
func (o *output) Type() string { return "format" }

// Set sets the format.
func (o *output) Set(form string) error {
	if form != formTable && form != formJSON {
		return errors.New("must be table or json")
	}
	o.form = form
	return nil
}

// print writes data as JSON, or calls table to write a table.
func (o *output) print(cmd *cobra.Command, data any, table func(io.Writer)) error {
	if o.form == formJSON {
		b, err := json.Marshal(data, jsontext.WithIndent("  "), json.Deterministic(true))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", b)
		return err
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
	table(w)
	return w.Flush()
}
