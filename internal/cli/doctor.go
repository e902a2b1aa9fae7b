package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/config"
	"atrium/internal/doctor"
	"atrium/internal/store"
)

func newDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the settings, database and machine of a server",
		Long: `Check what atrium serve would use with the same flags, environment and file: settings,
database, schema, clock, disk space, file modes, process limits, and the settings of a
database server. The command changes nothing and creates no database. You can run it
while a server is running.

Each check reports ok, warn or fail, what it found and, unless it is ok, how to fix it.
The exit code is 1 if a check fails. Warnings do not change it.`,
		Example: `  atrium doctor --config /etc/atrium.yaml
  atrium doctor --full -o json`,
		Args: cobra.NoArgs,
	}
	load, loader := settingsFlags(cmd, config.Default())
	out := outputFlag(cmd)
	full := cmd.Flags().Bool("full", false, "read the whole SQLite database to find damage (default: only root pages)")
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		settings, list, err := load()
		d := app.NewDoctor(settings, list, loadingFindings(loader))
		d.Invalid, d.Full, d.Profile = err, *full, os.Getenv(envProfile)
		d.Open = func(ctx context.Context) (*store.Store, func(), error) {
			s, err := openReadOnly(ctx, settings)
			return s, func() { _ = s.Close() }, err
		}
		found := d.Run(cmd.Context())
		if cmd.Context().Err() != nil { // findings after an interrupt are unreliable
			return errors.New("interrupted: the checks are incomplete")
		}
		checks := make([]finding, len(found))
		for i, f := range found {
			checks[i] = finding(f)
		}
		err = out.print(cmd, map[string]any{"checks": checks}, func(w io.Writer) { printFindings(w, checks) })
		if n := doctor.Failed(found); n > 0 && err == nil {
			err = fmt.Errorf("%d of %d checks failed", n, len(found))
		}
		return err
	})
	return cmd
}

// loadingFindings returns the warnings of loading the settings.
func loadingFindings(loader *config.Loader) (all []doctor.Finding) {
	for _, w := range misspelledVariables() {
		all = append(all, doctor.Warning("settings", "rename or unset it", w))
	}
	for _, w := range loader.Warnings {
		all = append(all, doctor.Warning("secrets", "keep secrets in files that only the user of the server can read", w))
	}
	return all
}

// A finding is a doctor.Finding as JSON.
type finding struct {
	Check  string        `json:"check"`
	Status doctor.Status `json:"status"`
	Found  string        `json:"found"`
	Fix    string        `json:"do,omitzero"`
}

func printFindings(w io.Writer, all []finding) {
	fmt.Fprintln(w, "CHECK\tSTATUS\tFOUND")
	for _, f := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Check, f.Status, atrium.Printable(f.Found))
		if f.Fix != "" {
			fmt.Fprintf(w, "\t\t→ %s\n", f.Fix)
		}
	}
}
