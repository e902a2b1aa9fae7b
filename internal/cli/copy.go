package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"atrium"
	"atrium/internal/config"
	"atrium/internal/secrets"
	"atrium/internal/store"
)

// envCopyTo has the target of a copy. Its URL can contain a password, and flags are visible in the
// process list.
const envCopyTo = "ATRIUM_COPY_TO"

// A copyCommand is one run of atrium copy.
type copyCommand struct {
	from, to        string // database URLs
	toKeys          string // file with the keys of secrets of the target; "" for the same
	tenant          string // "" for everything
	verify, discard bool
	settings        func(stderr io.Writer) (config.Config, error)
}

func newCopy() *cobra.Command {
	c := &copyCommand{}
	cmd := &cobra.Command{
		Use:   "copy",
		Short: "Copy everything, or a tenant, to another database",
		Long: `Copy everything in a database, or one tenant, to another database of any engine: data,
hashes of keys, audit logs, moves, schedules and the stored results of requests. Senders
keep their keys, and retries return the original responses.

The target must be migrated (atrium migrate) and empty, or lack the tenant. Stop writes to
the source first. At the end, the command compares all tables. Until then the tenant
cannot be used in the target.

If the command is interrupted, run it again: it continues. Once the copy is complete, it
compares and copies nothing, and fails if the target has changed. With --verify, it only
compares. With --discard, it only deletes what an unfinished copy of --tenant has stored.

Secrets of webhooks and receivers are copied in encrypted form, with the same keys, unless
--to-secrets-key-file names the file with the keys of the target.

Flags are visible in the process list. If a URL contains a password, set ATRIUM_DATABASE
and ` + envCopyTo + ` instead, or these names with _FILE to the path of a file that
contains the URL.`,
		Example: `  atrium copy --from sqlite:atrium.db --to postgres://atrium@db.internal/atrium
  atrium copy --from sqlite:atrium.db --to sqlite:other.db --tenant tenant_…
  atrium copy --from sqlite:atrium.db --to postgres://atrium@db.internal/atrium --verify`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&c.from, "from", "", "`URL` of the source (default: the database of the server, as ATRIUM_DATABASE sets it)")
	flags.StringVar(&c.to, "to", "", "`URL` of the target (environment: "+envCopyTo+")")
	flags.StringVar(&c.toKeys, "to-secrets-key-file", "", "`file` with the keys of secrets of the target (default: that of the source)")
	flags.StringVar(&c.tenant, "tenant", "", "`ID` of the tenant to copy (default: everything)")
	flags.BoolVar(&c.verify, "verify", false, "only compare the databases")
	flags.BoolVar(&c.discard, "discard", false, "only delete what an unfinished copy of --tenant has stored in the target")
	cmd.MarkFlagsMutuallyExclusive("verify", "discard")
	c.settings = databaseFlags(flags, "secrets-key-file")
	_ = flags.MarkHidden("database")
	cmd.MarkFlagsMutuallyExclusive("from", "database")
	out := outputFlag(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		for _, variable := range []string{envProfile, envServer} {
			if os.Getenv(variable) != "" && c.from == "" && !c.discard {
				return usageError{fmt.Errorf("%s selects a server, but atrium copy works only on databases: pass --from", variable)}
			}
		}
		settings, err := c.settings(cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		c.from = cmp.Or(c.from, settings.Database)
		if err := c.resolve(cmd.ErrOrStderr()); err != nil {
			return err
		}
		return c.run(cmd, settings, out)
	})
	return cmd
}

// resolve reads the environment and checks the flags.
func (c *copyCommand) resolve(stderr io.Writer) error {
	if c.to == "" {
		text, warning, err := config.ReadVariable(os.LookupEnv, envCopyTo)
		if err != nil {
			return usageError{err}
		}
		if c.to = text; warning != "" {
			warn(stderr, warning)
		}
	}
	switch {
	case c.tenant == "" && os.Getenv(envTenant) != "": // which other commands use
		return usageError{fmt.Errorf("%s is set, but atrium copy does not use it: pass --tenant, or unset %[1]s to copy "+
			"everything", envTenant)}
	case c.to == "":
		return usageError{fmt.Errorf("no target: pass --to or set %s", envCopyTo)}
	case c.discard && c.tenant == "":
		return usageError{errors.New("--discard requires --tenant: to discard a copy of everything, drop the target database")}
	case !c.discard && sameDatabase(c.from, c.to):
		return usageError{errors.New("the source and the target are the same database")}
	case c.tenant == "":
		return nil
	}
	if _, ok := atrium.ParseID[atrium.TenantID](c.tenant); !ok || c.tenant == string(atrium.OperatorChain) {
		return usageError{errors.New("--tenant must be the identifier of a tenant")}
	}
	return nil
}

// sameDatabase reports whether two URLs are equal, or name the same file.
func sameDatabase(a, b string) bool {
	pathA, isFileA := strings.CutPrefix(a, "sqlite:")
	pathB, isFileB := strings.CutPrefix(b, "sqlite:")
	if a == b || !isFileA || !isFileB {
		return a == b
	}
	infoA, errA := os.Stat(pathA)
	infoB, errB := os.Stat(pathB)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

func (c *copyCommand) run(cmd *cobra.Command, settings config.Config, out *output) (err error) {
	to, err := openForCopy(cmd.Context(), settings, c.to, c.verify)
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	p := startRowProgress(cmd.ErrOrStderr(), c.verb())
	defer p.finish()
	options := store.CopyOptions{Tenant: atrium.TenantID(c.tenant), Progress: p.lines.Store}
	start := time.Now()
	if c.discard {
		if err := to.DiscardCopy(cmd.Context(), options); err != nil {
			return c.explain(cmd.Context(), err)
		}
		p.finish()
		deleted := discarded{Rows: p.lines.Load()}
		return out.print(cmd, deleted, func(w io.Writer) { fmt.Fprintf(w, "Deleted %s of the unfinished copy.\n", rowCount(deleted.Rows)) })
	}
	from, err := openForCopy(cmd.Context(), settings, c.from, true)
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := c.useSecrets(settings, from, to); err != nil {
		return err
	}
	transfer := from.CopyTo
	if c.verify {
		transfer = from.CompareTo
	}
	report, err := transfer(cmd.Context(), to, options)
	p.finish()
	if err != nil {
		return c.explain(cmd.Context(), err)
	}
	if err := out.print(cmd, report, func(w io.Writer) { c.print(w, report, time.Since(start)) }); err != nil {
		return err
	}
	if report.Different() {
		return c.different()
	}
	return nil
}

// useSecrets lets the databases use their keys of secrets. The target uses none if its file is not given: then its
// secrets stay as they are in the source.
func (c *copyCommand) useSecrets(settings config.Config, from, to *store.Store) error {
	keys, err := secrets.Load(settings.SecretsKeyFile)
	if err != nil {
		return fmt.Errorf("secrets-key-file: %w", err)
	}
	from.UseSecrets(keys)
	if keys, err = secrets.Load(c.toKeys); err != nil {
		return fmt.Errorf("to-secrets-key-file: %w", err)
	}
	to.UseSecrets(keys)
	return nil
}

// discarded is the output of atrium copy --discard.
type discarded struct {
	Rows int64 `json:"deletedRows"`
}

func (c *copyCommand) verb() string {
	switch {
	case c.verify:
		return "compared"
	case c.discard:
		return "deleted"
	}
	return "copied and compared"
}

// openForCopy opens an existing database. It never creates one.
func openForCopy(ctx context.Context, settings config.Config, url string, readOnly bool) (*store.Store, error) {
	settings.Database = url
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok && path != "" {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("database %s does not exist: run atrium migrate --database %s to create it", path, url)
		}
	}
	if readOnly {
		return openReadOnly(ctx, settings)
	}
	return openStore(ctx, settings)
}

// explain says how to continue after an error.
func (c *copyCommand) explain(ctx context.Context, err error) error {
	advice := "run the command again to continue"
	if c.verify { // it stores no progress
		advice = "run the command again"
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted: " + advice)
	case atrium.CodeOf(err) == atrium.CodeUnavailable:
		cause := err
		if e, ok := errors.AsType[*atrium.Error](err); ok && errors.Unwrap(e) != nil {
			cause = errors.Unwrap(e) // what the text says to users of the API does not hold here
		}
		return fmt.Errorf("%w\n%s", cause, advice)
	}
	return err
}

// different says what to do if the databases differ.
func (c *copyCommand) different() error {
	switch {
	case c.verify:
		return errors.New("the databases differ")
	case c.tenant != "":
		return errors.New("the databases differ, so the copy is not complete: stop writes to the source, " +
			"run the command with --discard, and copy again")
	default:
		return errors.New("the databases differ, so the copy is not complete: stop writes to the source, " +
			"and copy to a new database")
	}
}

func (c *copyCommand) print(w io.Writer, r *store.CopyReport, took time.Duration) {
	fmt.Fprintln(w, "TABLE\tROWS\tSHA-256")
	for _, t := range r.Tables {
		fmt.Fprintf(w, "%s\t%d\t%s\n", t.Name, t.Rows, t.SHA256)
	}
	for _, d := range r.Differences {
		fmt.Fprintf(w, "%s of %s differs: %s with %.12s… in the source, %s with %.12s… in the target\n",
			d.Table, cmp.Or(string(d.Tenant), "operators"), rowCount(d.From.Rows), d.From.SHA256, rowCount(d.To.Rows), d.To.SHA256)
	}
	if r.More > 0 {
		fmt.Fprintln(w, atrium.Count(r.More, "more difference", "more differences"))
	}
	if r.Different() {
		return
	}
	verb := "Copied"
	if c.verify || r.AlreadyCopied {
		verb = "Compared"
	}
	if r.Skipped > 0 {
		fmt.Fprintf(w, "An earlier run has copied and compared %s.\n", tenantCount(r.Skipped))
	}
	fmt.Fprintf(w, "%s %s with %s in %s. All tables are equal.\n", verb, tenantCount(r.Tenants), rowCount(r.Rows()),
		took.Round(time.Millisecond))
	if r.AlreadyCopied {
		fmt.Fprintln(w, "Already copied: the copy is complete, and nothing was copied now. Run with --verify to compare again.")
	}
}

func rowCount(n int64) string { return atrium.Count(n, "row", "rows") }

func tenantCount(n int64) string { return atrium.Count(n, "tenant", "tenants") }
