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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
// in good order, and SIGHUP does unless it serves; a second one ends it at once.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := untilSignal(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := NewCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := execute(ctx, root, args)
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(stderr, "atrium: %s\n", printableLines(explain(err)))
	if failed := (failure{}); errors.As(err, &failed) {
		return exitFailed
	}
	fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	return exitUsage
}

// sameSignal is how long a second signal is taken for the first one: some send it to a
// process and to the group that it is in.
const sameSignal = 100 * time.Millisecond

// untilSignal returns a context that ends with a signal, which has its default effect
// when it comes again later.
func untilSignal(ctx context.Context, signals ...os.Signal) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, signals...)
	context.AfterFunc(ctx, func() {
		time.Sleep(sameSignal)
		stop()
	})
	return ctx, stop
}

// endOnHangup has SIGHUP end a command as SIGTERM does, unless it is to be ignored.
func endOnHangup(cmd *cobra.Command) {
	if signal.Ignored(syscall.SIGHUP) {
		return
	}
	ctx, _ := untilSignal(cmd.Context(), syscall.SIGHUP) // as long as the process
	cmd.SetContext(ctx)
}

// A failure is an error of a command that was called correctly. All other errors
// come from reading the command line.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// run makes a command's function one whose errors are failures.
func run(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := f(cmd, args)
		if ctx := cmd.Context(); ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err())) {
			err = errors.New("interrupted")
		}
		if usage := (usageError{}); err == nil || errors.As(err, &usage) {
			return err
		}
		return failure{err}
	}
}

// A usageError is a wrong command line that only the command itself can see.
type usageError struct{ error }

// NewCommand returns the atrium command with all of its subcommands.
func NewCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "atrium",
		Short: "Record account activity and manage pages",
		Long: `Atrium records account activity from upstream systems, each entry exactly once, and
serves accounts, pages, audiences and their versions over HTTP.

To try it, run: atrium demo`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version(),
	}
	root.SetVersionTemplate("atrium {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		if cmd.Name() != "serve" && cmd.Name() != "demo" { // which have a meaning of their own for it
			endOnHangup(cmd)
		}
	}
	root.AddCommand(newServe(), newDemo(), newConfig(), newMigrate(), newImport(), newExport(), newBackup(), newRestore(), newDoctor(), newVersion())
	for _, g := range groups() {
		root.AddCommand(newGroup(g))
	}
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
	cmd := &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs}
	out := outputFlag(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		return out.print(cmd, map[string]string{"version": version()}, func(w io.Writer) { fmt.Fprintf(w, "atrium %s\n", version()) })
	})
	return cmd
}

// databaseFlag adds the flags that say which database a command works on and how,
// and returns what gives these settings once the command line is read.
func databaseFlag(cmd *cobra.Command) func(stderr io.Writer) (config.Config, error) {
	return databaseFlags(cmd.Flags())
}

func databaseFlags(flags *pflag.FlagSet, others ...string) func(stderr io.Writer) (config.Config, error) {
	load := databaseSettings(flags, others...)
	return func(stderr io.Writer) (config.Config, error) {
		settings, _, err := load(stderr)
		return settings, err
	}
}

// databaseSettings is databaseFlags, whose function says besides whether anybody has
// named the database, or it is the default.
func databaseSettings(flags *pflag.FlagSet, others ...string) func(stderr io.Writer) (settings config.Config, named bool, err error) {
	settings := config.Default()
	loader := config.Bind(flags, &settings, append(others, "database", "database-timeout", "database-statements")...)
	return func(stderr io.Writer) (config.Config, bool, error) {
		list, err := loader.Load(os.LookupEnv)
		if err != nil {
			return config.Config{}, false, usageError{err}
		}
		warn(stderr, loader.Warnings...)
		named := slices.ContainsFunc(list, func(s config.Setting) bool { return s.Name == "database" && s.Source != config.FromDefault })
		return settings, named, nil
	}
}

// warn says what is unwise, each on a line of its own.
func warn(stderr io.Writer, warnings ...string) {
	for _, w := range warnings {
		fmt.Fprintf(stderr, "atrium: warning: %s\n", w)
	}
}

// openStore opens the store that the settings name.
func openStore(ctx context.Context, c config.Config) (*store.Store, error) {
	return store.Open(ctx, c.Database, storeOptions(c, nil))
}

// lookAt opens the store that the settings name for those who change nothing there.
func lookAt(ctx context.Context, c config.Config) (*store.Store, error) {
	options := storeOptions(c, nil)
	options.ReadOnly = true
	return store.Open(ctx, c.Database, options)
}

func storeOptions(c config.Config, observer store.Observer) store.Options {
	return store.Options{
		Observer: observer, Connections: c.DatabaseConnections, Timeout: c.DatabaseTimeout,
		Unprepared: c.DatabaseStatements == config.Unprepared,
	}
}
