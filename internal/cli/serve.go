package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"atrium/internal/app"
	"atrium/internal/store"
)

func addrFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("addr", envOr("ATRIUM_ADDR", "127.0.0.1:8080"), "`host:port` to listen on; port 0 takes a free one (environment: ATRIUM_ADDR)")
}

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the API",
		Long: `Serve the API until SIGINT or SIGTERM. Pending migrations are applied first.

On a signal the service stops being ready, finishes what it has accepted, and
exits within 8 seconds. A second signal ends it at once.`,
		Example: "  atrium serve\n  atrium serve --addr 0.0.0.0:8080 --database sqlite:/var/lib/atrium/atrium.db",
		Args:    cobra.NoArgs,
	}
	addr, database := addrFlag(cmd), databaseFlag(cmd, defaultDatabase)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		return serve(cmd.Context(), *addr, *database, cmd.ErrOrStderr(), func(*app.App, *store.Store) error { return nil })
	})
	return cmd
}

// serve runs the service on a database. started is called once it listens.
func serve(ctx context.Context, addr, database string, stderr io.Writer, started func(*app.App, *store.Store) error) error {
	return withStore(ctx, database, func(s *store.Store) error {
		log := newLog(stderr)
		a, err := app.New(ctx, app.Config{Addr: addr, Store: s, Log: log})
		if err != nil {
			return err
		}
		log.Info("serving", "addr", a.Addr(), "database", database)
		if err := started(a, s); err != nil {
			return err
		}
		if err := a.Run(ctx); err != nil {
			return err
		}
		log.Info("stopped")
		return nil
	})
}

func newMigrate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database's schema up to date",
		Long: `Apply the migrations that the database does not have yet. Every command does
that by itself on an embedded database.`,
		Args: cobra.NoArgs,
	}
	database, out := databaseFlag(cmd, defaultDatabase), outputFlag(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		s, err := store.Open(*database)
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		ran, err := s.Migrate(cmd.Context())
		if err != nil {
			return err
		}
		if ran == nil {
			ran = []string{}
		}
		return out.print(cmd, map[string][]string{"applied": ran}, func(w io.Writer) {
			if len(ran) == 0 {
				fmt.Fprintln(w, "The schema is up to date.")
			}
			for _, name := range ran {
				fmt.Fprintf(w, "applied %s\n", name)
			}
		})
	})
	return cmd
}
