package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"atrium"
	"atrium/internal/csvrows"
)

// A csvSource says how an import reads CSV.
type csvSource struct {
	kind string // of the records; "" for NDJSON
	maps map[string]string
}

// csvFlags adds the flags for CSV.
func csvFlags(cmd *cobra.Command) *csvSource {
	from := &csvSource{}
	var kinds []string
	for _, k := range csvrows.Kinds {
		kinds = append(kinds, k.Name)
	}
	cmd.Flags().StringVar(&from.kind, "csv", "", "FILE is CSV with a row for each of these `records`: "+strings.Join(kinds, " or "))
	cmd.Flags().StringToStringVar(&from.maps, "map", nil, "with --csv, the columns of `members`, such as domain=Website,name=Company")
	_ = cmd.RegisterFlagCompletionFunc("csv", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	return from
}

// maxRowFaults is the number of faults of rows after which a check ends, as in the API.
const maxRowFaults = 1000

// lines returns what to upload: in, or its rows as lines. A check for all faults leaves wrong rows out and
// collects their faults.
func (c *csvSource) lines(cmd *cobra.Command, in io.Reader) (io.Reader, *[]lineFault, error) {
	faults := new([]lineFault)
	kind, ok := csvrows.KindOf(c.kind)
	switch {
	case c.kind == "" && c.maps != nil:
		return nil, nil, usageError{errors.New("--map requires --csv")}
	case c.kind == "":
		return in, faults, nil
	case !ok:
		return nil, nil, usageError{fmt.Errorf("--csv: must be %s or %s", csvrows.Kinds[0].Name, csvrows.Kinds[1].Name)}
	}
	file, err := csvrows.NewFile(in, nil)
	if err != nil {
		return nil, nil, err
	}
	columns := kind.Guess(file.Header)
	if c.maps != nil {
		if columns, err = kind.Find(file.Header, c.maps); err != nil {
			return nil, nil, err
		}
	}
	lines, err := csvrows.NewLines(file, kind, columns)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: pass --map MEMBER=COLUMN: the columns are %s", err, atrium.Printable(file.Columns()))
	}
	if all, _ := cmd.Flags().GetBool("all-faults"); all {
		lines.Refuse = func(f csvrows.Fault) error {
			if len(*faults) == maxRowFaults {
				return &f
			}
			pointer := f.Member
			if pointer != "" {
				pointer = "/" + pointer
			}
			*faults = append(*faults, lineFault{int64(f.Line), pointer, f.Detail})
			return nil
		}
	}
	return lines, faults, nil
}
