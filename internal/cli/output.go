package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// Output formats.
const (
	formTable = "table"
	formJSON  = "json"
	formCSV   = "csv"
)

// An output is the format in which a command prints its data. It implements pflag.Value, so that
// invalid formats are rejected before the command runs.
type output struct {
	form  string
	forms []string // allowed formats
}

// outputFlag adds the flag for the format: table, json or one of others. The default is table.
func outputFlag(cmd *cobra.Command, others ...string) *output {
	o := &output{formTable, append([]string{formTable, formJSON}, others...)}
	cmd.Flags().VarP(o, "output", "o", "output `format`: "+o.list())
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(o.forms, cobra.ShellCompDirectiveNoFileComp))
	return o
}

// list returns the allowed formats for people: "table, json or csv".
func (o *output) list() string {
	last := len(o.forms) - 1
	return strings.Join(o.forms[:last], ", ") + " or " + o.forms[last]
}

// String returns the format.
func (o *output) String() string { return o.form }

// Type returns the name of the type in help.
func (o *output) Type() string { return "format" }

// Set sets the format.
func (o *output) Set(form string) error {
	if !slices.Contains(o.forms, form) {
		return errors.New("must be " + o.list())
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
