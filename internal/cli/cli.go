// Package cli is the command line: it reads flags and the environment, and
// calls what does the work.
//
// Data goes to stdout and everything else to stderr. The exit code is 0 when
// what was asked for was done, 2 when the command line itself is wrong, and 1
// for any other failure.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"atrium"
	"atrium/internal/config"
	"atrium/internal/store"
)

// The exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// Main runs a command line and returns its exit code. SIGINT and SIGTERM end it
// in good order; a second one ends it at once.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // from now on a signal has its default effect

	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := execute(ctx, root, args)
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(stderr, "atrium: %s\n", explain(err))
	if failed := (failure{}); errors.As(err, &failed) {
		return exitFailed
	}
	fmt.Fprintf(stderr, "See %s --help.\n", cmd.CommandPath())
	return exitUsage
}

// A failure is an error of a command that was called correctly. All other errors
// come from reading the command line.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// run makes a command's function one whose errors are failures.
func run(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := f(cmd, args)
		if usage := (usageError{}); err == nil || errors.As(err, &usage) {
			return err
		}
		return failure{err}
	}
}

// A usageError is a wrong command line that only the command itself can see.
type usageError struct{ error }

// explain returns the text of an error for a person at a terminal.
func explain(err error) string {
	e, ok := errors.AsType[*atrium.Error](err)
	if !ok {
		return err.Error()
	}
	var b strings.Builder
	b.WriteString(e.Detail)
	for _, f := range e.Faults {
		fmt.Fprintf(&b, "\n  %s %s", f.Where, f.Detail)
	}
	if cause := errors.Unwrap(e); cause != nil {
		fmt.Fprintf(&b, " (%v)", cause)
	}
	return b.String()
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "atrium",
		Short: "Account activity and pages, self-hosted",
		Long: `Atrium takes account activity from upstream systems, each entry exactly once,
and serves accounts, pages, audiences and their versions over HTTP.

Try it with: atrium demo`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version(),
	}
	root.SetVersionTemplate("atrium {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newServe(), newDemo(), newConfig(), newMigrate(), newTenants(), newKeys(), newAudit(), newImport(), newExport(), newVersion())
	return root
}

// version returns what this binary was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	words := []string{info.Main.Version}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			words = append(words, s.Value[:12])
		}
	}
	return strings.Join(append(words, info.GoVersion), " ")
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print the version of this binary", Args: cobra.NoArgs}
	out := outputFlag(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		return out.print(cmd, map[string]string{"version": version()}, func(w io.Writer) { fmt.Fprintf(w, "atrium %s\n", version()) })
	})
	return cmd
}

// databaseFlag adds the flags that say which database a command works on and how,
// and returns what gives these settings once the command line is read.
func databaseFlag(cmd *cobra.Command) func() (config.Config, error) {
	settings := config.Default()
	loader := config.Bind(cmd.Flags(), &settings, "database", "database-timeout", "database-statements")
	return func() (config.Config, error) {
		if _, err := loader.Load(os.LookupEnv); err != nil {
			return config.Config{}, usageError{err}
		}
		return settings, nil
	}
}

// openStore opens the store that the settings name. observer may be nil.
func openStore(ctx context.Context, c config.Config, observer store.Observer) (*store.Store, error) {
	return store.Open(ctx, c.Database, store.Options{
		Observer: observer, Connections: c.DatabaseConnections, Timeout: c.DatabaseTimeout,
		Unprepared: c.DatabaseStatements == config.Unprepared, KeepVersions: c.KeepVersions,
	})
}

// withStore calls f with the migrated store that database names.
func withStore(ctx context.Context, database func() (config.Config, error), f func(*store.Store) error) (err error) {
	settings, err := database()
	if err != nil {
		return err
	}
	s, err := openStore(ctx, settings, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := s.Migrate(ctx); err != nil {
		return fmt.Errorf("migrate %s: %w", config.Redact(settings.Database), err)
	}
	return f(s)
}

// tenantFlag adds the flag that says whose data a command works on.
func tenantFlag(cmd *cobra.Command) *string {
	tenant := cmd.Flags().String("tenant", "", "`ID` of the tenant")
	_ = cmd.MarkFlagRequired("tenant")
	return tenant
}

func parseTenant(text string) (atrium.TenantID, error) {
	id, ok := atrium.ParseID[atrium.TenantID](text)
	if !ok {
		return "", usageError{fmt.Errorf("%q is not the identifier of a tenant: atrium tenants list shows them", text)}
	}
	return id, nil
}

// checkName says what is wrong with a name given on the command line.
func checkName(name string) error {
	if fault := atrium.CheckText(name, 1, atrium.MaxName); fault != "" {
		return usageError{fmt.Errorf("--name %s", fault)}
	}
	return nil
}
