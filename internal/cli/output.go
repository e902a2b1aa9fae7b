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

// The forms of output.
const (
	formTable = "table"
	formJSON  = "json"
)

// An output is the form in which a command prints its data. It is the value of
// a flag, so that an unknown form is refused before the command does anything.
type output struct{ form string }

func outputFlag(cmd *cobra.Command) *output {
	o := &output{formTable}
	cmd.Flags().VarP(o, "output", "o", "output `format`: table or json")
	return o
}

// String returns the form.
func (o *output) String() string { return o.form }

// Type returns what a form is called in help.
func (o *output) Type() string { return "format" }

// Set takes a form from the command line.
func (o *output) Set(form string) error {
	if form != formTable && form != formJSON {
		return errors.New("must be table or json")
	}
	o.form = form
	return nil
}

// print writes data as JSON, or calls table to write it for people.
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
