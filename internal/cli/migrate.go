package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func newMigrate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Apply pending schema migrations",
		Long: `Apply pending migrations to the database, and create it if it does not exist. The server
and the management commands do this automatically.

With --distribute=citus, then distribute the tables and their rows by tenant over a Citus
cluster. --database names the coordinator. Tables that are already distributed stay as
they are: if a run is interrupted, run the command again. Stop all Atrium nodes before,
and start them again after.

With --finish, then end the upgrade to this release: nodes of the previous release stop,
and no longer start. Run it when all nodes run this release. The server does it itself
on SQLite.`,
		Example: "  atrium migrate\n" +
			"  atrium migrate --database postgres://atrium@db.internal/atrium --finish\n" +
			"  atrium migrate --database postgres://atrium@db.internal/atrium --distribute=citus",
		Args: cobra.NoArgs,
	}
	database, out := databaseFlag(cmd), outputFlag(cmd)
	distribute := cmd.Flags().String("distribute", "", "`cluster` to distribute the tables over: citus")
	finish := cmd.Flags().Bool("finish", false, "stop nodes of the previous release, for good")
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		if *distribute != "" && *distribute != "citus" {
			return usageError{fmt.Errorf("--distribute must be citus, not %q", *distribute)}
		}
		if err := requireLocal(cmd); err != nil {
			return err
		}
		settings, err := database(cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		s, err := openStore(cmd.Context(), settings)
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		done := migrated{Applied: []string{}}
		ran, err := s.Migrate(cmd.Context())
		done.Applied = append(done.Applied, ran...)
		if err == nil && *distribute != "" {
			done.Distributed, err = s.Distribute(cmd.Context())
		}
		if err == nil && *finish {
			err = s.FinishUpgrade(cmd.Context())
			done.Finished = err == nil
		}
		if err != nil && len(done.Applied)+len(done.Distributed) == 0 {
			return err
		}
		return errors.Join(out.print(cmd, done, done.print), err)
	})
	return cmd
}

// migrated is the output of atrium migrate.
type migrated struct {
	Applied     []string `json:"applied"`
	Distributed []string `json:"distributed,omitempty"`
	Finished    bool     `json:"finished,omitzero"`
}

func (m migrated) print(w io.Writer) {
	for _, name := range m.Applied {
		fmt.Fprintf(w, "applied %s\n", name)
	}
	for _, table := range m.Distributed {
		fmt.Fprintf(w, "distributed %s\n", table)
	}
	if len(m.Applied)+len(m.Distributed) == 0 {
		fmt.Fprintln(w, "The schema is up to date.")
	}
	if m.Finished {
		fmt.Fprintln(w, "The upgrade is finished: nodes of the previous release stop.")
	}
}
