package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"atrium/internal/config"
	"atrium/internal/store"
)

func newMigrate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Apply pending schema migrations",
		Long: `Apply pending migrations to the database, and create it if it does not exist. The server
and the management commands do this automatically.

With --distribute=citus, then distribute the tables and their rows by tenant over a Citus
cluster. --database names the coordinator. Tables that are already distributed stay as
they are: if a run is interrupted, run the command again. Stop all Atrium nodes first,
and start them again afterward.

With --finish, then finish the upgrade to this release: nodes of the previous release stop,
and no longer start. This cannot be undone. Run it when all nodes run this release. On
SQLite the server does it itself, and a new database does not need --finish.`,
		Example: "  atrium migrate\n" +
			"  atrium migrate --database postgres://atrium@db.internal/atrium --finish\n" +
			"  atrium migrate --database postgres://atrium@db.internal/atrium --distribute=citus",
		Args: cobra.NoArgs,
	}
	database, out := databaseFlag(cmd), outputFlag(cmd)
	distribute := cmd.Flags().String("distribute", "", "`cluster` to distribute the tables over: citus")
	finish := cmd.Flags().Bool("finish", false, "finish the upgrade: nodes of the previous release stop permanently")
	yes := cmd.Flags().Bool("yes", false, "skip the confirmation prompt of --finish")
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		if *distribute != "" && *distribute != "citus" {
			return usageError{fmt.Errorf("--distribute must be citus, not %q", *distribute)}
		}
		if err := requireLocal(cmd); err != nil {
			return err
		}
		switch {
		case *yes && !*finish:
			return usageError{errors.New("--yes requires --finish")}
		case *finish && !*yes:
			if err := requireTerminal(cmd, "--yes"); err != nil {
				return err
			}
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
			err = done.finish(cmd, s, config.Redact(settings.Database), *yes)
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

	// Of --finish: the upgrade is finished, and was so before.
	Finished        bool `json:"finished,omitzero"`
	AlreadyFinished bool `json:"alreadyFinished,omitzero"`
}

// finish ends the upgrade of the named database, if there is one. Unless yes, it asks before.
func (m *migrated) finish(cmd *cobra.Command, s *store.Store, name string, yes bool) (err error) {
	if m.AlreadyFinished, err = s.CheckUpgrade(cmd.Context()); err != nil || m.AlreadyFinished {
		m.Finished = m.AlreadyFinished
		return err
	}
	if !yes {
		confirmed, err := askYesNo(cmd, "Stop nodes of the previous release for good, and finish the upgrade of "+name+"?")
		if err != nil {
			return err
		}
		if !confirmed {
			return errors.New("canceled: the upgrade is not finished")
		}
	}
	err = s.FinishUpgrade(cmd.Context())
	m.Finished = err == nil
	return err
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
	switch {
	case m.AlreadyFinished:
		fmt.Fprintln(w, "Nothing to finish.")
	case m.Finished:
		fmt.Fprintln(w, "The upgrade is finished: nodes of the previous release stop.")
	}
}
