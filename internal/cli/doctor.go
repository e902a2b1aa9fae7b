package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"atrium"
	"atrium/internal/config"
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
		d := &doctor{settings: settings, list: list, full: *full, now: time.Now, free: freeBytes, files: maxFiles}
		for _, w := range misspelledVariables() {
			d.warn("settings", "rename or unset it", "%s", w)
		}
		for _, w := range loader.Warnings {
			d.warn("secrets", "keep secrets in files that only the user of the server can read", "%s", w)
		}
		d.run(cmd.Context(), err)
		if cmd.Context().Err() != nil { // findings after an interrupt are unreliable
			return errors.New("interrupted: the checks are incomplete")
		}
		if err := out.print(cmd, map[string]any{"checks": d.findings}, d.print); err != nil {
			return err
		}
		if n := d.failed(); n > 0 {
			return fmt.Errorf("%d of %d checks failed", n, len(d.findings))
		}
		return nil
	})
	return cmd
}

// Statuses of a finding.
const (
	statusOK   = "ok"
	statusWarn = "warn"
	statusFail = "fail"
)

// A finding is the result of one check.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"`
	Found  string `json:"found"`
	Fix    string `json:"do,omitzero"` // how to fix it, unless it is ok
}

// A doctor checks what a server would use.
type doctor struct {
	settings config.Config
	list     []config.Setting
	full     bool

	now   func() time.Time
	free  func(path string) (int64, error) // free bytes on the disk of a path
	files func() (int64, error)            // limit of open files

	findings []finding
}

func (d *doctor) ok(check, format string, args ...any) { d.add(check, statusOK, "", format, args) }

func (d *doctor) warn(check, fix, format string, args ...any) {
	d.add(check, statusWarn, fix, format, args)
}

func (d *doctor) fail(check, fix, format string, args ...any) {
	d.add(check, statusFail, fix, format, args)
}

// add adds a finding, on one line.
func (d *doctor) add(check, status, fix, format string, args []any) {
	d.findings = append(d.findings,
		finding{check, status, strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "), fix})
}

func (d *doctor) failed() (n int) {
	for _, f := range d.findings {
		if f.Status == statusFail {
			n++
		}
	}
	return n
}

func (d *doctor) print(w io.Writer) {
	fmt.Fprintln(w, "CHECK\tSTATUS\tFOUND")
	for _, f := range d.findings {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Check, f.Status, atrium.Printable(f.Found))
		if f.Fix != "" {
			fmt.Fprintf(w, "\t\t→ %s\n", f.Fix)
		}
	}
}

// setting returns the printed value of a setting, or "" if there is no setting with the name.
func (d *doctor) setting(name string) string {
	if i := slices.IndexFunc(d.list, func(s config.Setting) bool { return s.Name == name }); i >= 0 {
		return d.list[i].Value
	}
	return ""
}

// run makes all checks that are possible. settingsErr is the error of loading the settings.
func (d *doctor) run(ctx context.Context, settingsErr error) {
	if settingsErr != nil {
		d.fail("settings", "atrium serve --help describes every setting; atrium config shows the values and where they come from", "%s",
			strings.ReplaceAll(settingsErr.Error(), "\n", "; "))
	} else {
		d.ok("settings", "%d settings are valid", len(d.list))
	}
	d.addresses()
	d.secrets()
	d.openFiles()
	if settingsErr == nil && d.settings.OIDCIssuer != "" {
		d.identityProvider(ctx)
	}
	path, embedded := strings.CutPrefix(d.settings.Database, "sqlite:")
	if embedded && !d.databaseFiles(path) {
		return
	}
	s, err := openReadOnly(ctx, d.settings)
	if err != nil {
		d.fail("database", d.connectFix(), "%s cannot be opened: %v",
			config.Redact(d.settings.Database), err)
		return
	}
	defer func() { _ = s.Close() }()
	if _, _, err := s.Schema(ctx); err != nil { // the first query
		d.fail("database", d.connectFix(), "%s cannot be queried: %s",
			config.Redact(d.settings.Database), explain(err))
		return
	}
	d.ok("database", "connected to %s", config.Redact(d.settings.Database))
	d.integrity(ctx, s)
	if d.schema(ctx, s) {
		d.clock(ctx, s)
		d.copies(ctx, s)
	}
	if !embedded {
		d.server(ctx, s)
		d.cluster(ctx, s)
	}
}

func (d *doctor) integrity(ctx context.Context, s *store.Store) {
	problems, err := s.Check(ctx, d.full)
	switch {
	case err != nil:
		d.fail("integrity", damagedFix, "check failed: %s", explain(err))
	case len(problems) > 0:
		d.fail("integrity", damagedFix, "%s; first: %s", atrium.Count(len(problems), "problem", "problems"),
			problems[0].Detail)
	case d.full:
		d.ok("integrity", "no damage found")
	default:
		d.ok("integrity", "no damage found in root pages; --full reads the whole database")
	}
}

// schema reports whether this binary can read the schema.
func (d *doctor) schema(ctx context.Context, s *store.Store) bool {
	at, newest, err := s.Schema(ctx)
	var faults []string
	finished := true
	if err == nil && at > 0 {
		if finished, err = s.CheckUpgrade(ctx); errors.Is(err, store.ErrNewer) {
			d.fail("schema", "use a newer binary, or restore a backup that this binary supports", "%s", explain(err))
			return false
		}
	}
	if err == nil && at > 0 {
		faults, err = s.SchemaFaults(ctx)
	}
	switch {
	case err != nil:
		d.fail("schema", d.connectFix(), "%s", explain(err))
		return false
	case len(faults) > 0:
		d.fail("schema", "stop the server, take a backup, and undo these changes with sqlite3: "+
			"atrium migrate --database sqlite:new.db creates a database with the right schema", "altered: %s",
			strings.Join(faults, "; "))
		return false
	case at > newest:
		d.warn("schema", "switch back to the newer binary when you can",
			"database is at migration %d, this binary has %d and is compatible", at, newest)
	case at < newest:
		d.warn("schema", "take a backup; the next server start applies the rest", "database is at migration %d of %d",
			at, newest)
	case !finished:
		d.warn("schema", "when no node of the previous release is left, run atrium migrate --finish",
			"all %d migrations are applied, but the upgrade is not finished", newest)
	default:
		d.ok("schema", "all %d migrations are applied", newest)
	}
	return at >= newest
}

// copies finds copies to this database that are not complete. Most databases have none, and then
// there is no finding.
func (d *doctor) copies(ctx context.Context, s *store.Store) {
	tenants, everything, err := s.UnfinishedCopies(ctx)
	switch {
	case err != nil:
		d.fail("copy", d.connectFix(), "cannot find out whether copies are complete: %s", explain(err))
	case everything:
		d.fail("copy", "run atrium copy again before a server starts on this database",
			"a copy of everything to this database is not complete")
	case len(tenants) > 0:
		others := ""
		if len(tenants) > 1 { // not how many: the list may be cut off
			others = " and of other tenants"
		}
		d.warn("copy", "run atrium copy --tenant again, or with --discard to delete what it stored",
			"a copy of %s%s is not complete", tenants[0], others)
	}
}

// maxClockSkew is the largest difference between two clocks without a warning.
const maxClockSkew = 5 * time.Second

func (d *doctor) clock(ctx context.Context, s *store.Store) {
	newest, err := s.NewestInstant(ctx)
	if err != nil {
		d.fail("clock", d.connectFix(), "cannot read the newest timestamp: %s", explain(err))
		return
	}
	server, err := s.Server(ctx)
	if err != nil {
		d.fail("clock", d.connectFix(), "cannot read the clock of the database server: %s", explain(err))
		return
	}
	now := d.now()
	const fix = "synchronize the clock of this machine with NTP"
	switch ahead := newest.Std().Sub(now); {
	case server != nil && server.Now.Sub(now).Abs() > time.Minute:
		d.fail("clock", fix, "clock differs by %v from the clock of the database server",
			server.Now.Sub(now).Round(time.Second))
	case server != nil && server.Now.Sub(now).Abs() > maxClockSkew:
		d.warn("clock", fix, "clock differs by %v from the clock of the database server",
			server.Now.Sub(now).Round(time.Second))
	case ahead > time.Minute:
		d.fail("clock", fix, "clock is at %s, but the newest record is from %s", now.UTC().Format(time.RFC3339), newest)
	case ahead > maxClockSkew:
		d.warn("clock", fix, "clock is %v behind the newest record", ahead.Round(time.Second))
	default:
		d.ok("clock", "%s, later than all records", now.UTC().Format(time.RFC3339))
	}
}

// noDatabaseFix is how to fix a missing database file.
const noDatabaseFix = "pass --database, set ATRIUM_DATABASE, or run atrium migrate to create it; " +
	"if the file was removed while a server uses it, do not stop the server: move the file back, or export the tenants " +
	"with atrium export --server"

// damagedFix is how to fix a damaged database file.
const damagedFix = "keep the file and its -wal, and restore a backup with atrium restore; without one, save what is " +
	"readable with the .recover command of sqlite3"

// connectFix returns how to fix a database that does not respond.
func (d *doctor) connectFix() string {
	if strings.HasPrefix(d.settings.Database, "sqlite:") {
		return "run the command as the user of the server; check the disk, and whether another process locks the file"
	}
	return "check the URL and the password, and that the database server runs and accepts connections from this machine"
}
