// Package cli implements the command line: it reads flags and the environment, and calls the
// packages that do the work.
//
// Data goes to stdout, everything else to stderr. The exit code is 0 on success, 2 for a usage
// error or a failure of a server that another start would repeat, and 1 for any other failure.
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

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// Main runs a command line and returns its exit code. SIGINT and SIGTERM end the command
// gracefully, as does SIGHUP except for atrium serve. A second signal ends it immediately.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := notifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := NewCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := execute(ctx, root, args)
	if err == nil {
		return exitOK
	}
	onStderr := errors.As(err, new(logged))
	if !onStderr {
		for _, err := range separate(err) {
			fmt.Fprintf(stderr, "atrium: %s\n", printableLines(explain(err)))
		}
	}
	if lasts := (permanent{}); errors.As(err, &lasts) {
		return exitUsage
	}
	if failed := (failure{}); errors.As(err, &failed) {
		return exitFailure
	}
	if !onStderr {
		fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	}
	return exitUsage
}

// signalDebounce is how long repeated signals count as one: some programs send a signal to a
// process and also to its process group.
const signalDebounce = 100 * time.Millisecond

// notifyContext returns a context that is canceled by a signal. After signalDebounce, signals have
// their default effect again.
func notifyContext(ctx context.Context, signals ...os.Signal) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, signals...)
	context.AfterFunc(ctx, func() {
		time.Sleep(signalDebounce)
		stop()
	})
	return ctx, stop
}

// cancelOnHangup cancels the context of a command on SIGHUP, unless SIGHUP is ignored.
func cancelOnHangup(cmd *cobra.Command) {
	if signal.Ignored(syscall.SIGHUP) {
		return
	}
	ctx, _ := notifyContext(cmd.Context(), syscall.SIGHUP) // never stopped: it lasts as long as the process
	cmd.SetContext(ctx)
}

// A failure is an error of a command whose command line was valid. All other errors are usage
// errors.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// A permanent failure of a server is one that another start would repeat. Its supervisor must not start it
// again.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// A logged error is in the log of a server, on stderr.
type logged struct{ error }

func (l logged) Unwrap() error { return l.error }

// run wraps the errors of a command in failure, except usage errors.
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

// A usageError is a usage error that the command itself detects.
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
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Name() != "serve" { // for which SIGHUP is a reload
			cancelOnHangup(cmd)
		}
		return checkVariables(cmd)
	}
	root.AddCommand(newServe(), newDemo(), newConfig(), newMigrate(), newImport(), newExport(), newCopy(), newBackup(),
		newRestore(), newSecrets(), newDoctor(), newHealth(), newVersion())
	for _, g := range groups() {
		root.AddCommand(newGroup(g))
	}
	root.AddCommand(newTargetTopic(), newSettingsTopic())
	shortenHelp(root)
	return root
}

// version returns the module version, the VCS revision and the Go version of this binary.
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
		return out.print(cmd, map[string]string{"version": version()},
			func(w io.Writer) { fmt.Fprintf(w, "atrium %s\n", version()) })
	})
	return cmd
}

// databaseFlag adds the flags that select and configure the database. The function that it returns
// loads these settings after flag parsing.
func databaseFlag(cmd *cobra.Command) func(stderr io.Writer) (config.Config, error) {
	return databaseFlags(cmd.Flags())
}

func databaseFlags(flags *pflag.FlagSet, extra ...string) func(stderr io.Writer) (config.Config, error) {
	load := databaseSettings(flags, extra...)
	return func(stderr io.Writer) (config.Config, error) {
		settings, _, err := load(stderr)
		return settings, err
	}
}

// databaseSettings is like databaseFlags. The function that it returns also reports whether the
// database was set explicitly.
func databaseSettings(
	flags *pflag.FlagSet, extra ...string,
) func(stderr io.Writer) (settings config.Config, explicit bool, err error) {
	settings := config.Default()
	loader := config.Bind(flags, &settings, append(extra, "database", "database-timeout", "database-statements")...)
	return func(stderr io.Writer) (config.Config, bool, error) {
		list, err := loader.Load(os.LookupEnv)
		if err != nil {
			return config.Config{}, false, usageError{err}
		}
		warn(stderr, loader.Warnings...)
		explicit := slices.ContainsFunc(list,
			func(s config.Setting) bool { return s.Name == "database" && s.Source != config.FromDefault })
		return settings, explicit, nil
	}
}

// warn prints each warning on its own line.
func warn(stderr io.Writer, warnings ...string) {
	for _, w := range warnings {
		fmt.Fprintf(stderr, "atrium: warning: %s\n", w)
	}
}

// openStore opens the store that the settings name.
func openStore(ctx context.Context, c config.Config) (*store.Store, error) {
	return store.Open(ctx, c.Database, storeOptions(c, nil))
}

// openReadOnly opens the store that the settings name for reading only.
func openReadOnly(ctx context.Context, c config.Config) (*store.Store, error) {
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
