// Package doctor checks what a server uses: its settings, database and machine. The command line runs it on the
// settings of a server, and a running server on its own.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"atrium"
	"atrium/internal/config"
	"atrium/internal/store"
)

// A Status is the result of a check.
type Status string

// Statuses of a finding.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// A Finding is the result of one check.
type Finding struct {
	Check  string
	Status Status
	Found  string // one line
	Fix    string // how to fix it; "" if it is ok
}

// Warning returns the finding of a check that warns.
func Warning(check, fix, found string) Finding { return Finding{check, Warn, oneLine(found), fix} }

// A Doctor checks what a server with these settings uses. It changes nothing. Its fields are not changed by Run, which
// may be called concurrently.
type Doctor struct {
	Settings config.Config
	Origins  []config.Setting // the settings with their origin; all that can be printed
	Invalid  error            // why the settings are invalid; nil if they are valid
	Loading  []Finding        // of loading the settings, to which those of Run are added
	Full     bool             // whether to read the whole of a SQLite database; otherwise only root pages
	Profile  string           // the file with a key of the command line; "" for none

	// Open returns the database, and a function that releases it, which is called once. A database that does not
	// exist must not be created.
	Open func(context.Context) (s *store.Store, release func(), err error)

	// CheckProvider asks the identity provider of the settings for its metadata and keys. It is called only if
	// the settings have one.
	CheckProvider func(context.Context) error
	RedirectURI   string // of this server at the identity provider
	SignedOutURI  string // where the identity provider sends people who have signed out

	Now func() time.Time

	free  func(path string) (int64, error) // free bytes on the disk of a path; nil for that of the system
	files func() (int64, error)            // limit of open files; nil for that of the system
}

// Run makes all checks that are possible. Findings after ctx has ended are unreliable.
func (d *Doctor) Run(ctx context.Context) []Finding {
	c := &checkup{Doctor: *d, findings: slices.Clone(d.Loading)}
	if c.free == nil {
		c.free = freeBytes
	}
	if c.files == nil {
		c.files = maxFiles
	}
	c.run(ctx)
	return c.findings
}

// Failed returns the number of findings that are failures.
func Failed(all []Finding) (n int) {
	for _, f := range all {
		if f.Status == Fail {
			n++
		}
	}
	return n
}

// A checkup is one run of a Doctor.
type checkup struct {
	Doctor
	findings []Finding
}

func (d *checkup) ok(check, format string, args ...any) { d.add(check, OK, "", format, args) }

func (d *checkup) warn(check, fix, format string, args ...any) { d.add(check, Warn, fix, format, args) }

func (d *checkup) fail(check, fix, format string, args ...any) { d.add(check, Fail, fix, format, args) }

func (d *checkup) add(check string, status Status, fix, format string, args []any) {
	d.findings = append(d.findings, Finding{check, status, oneLine(fmt.Sprintf(format, args...)), fix})
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// explain returns the text of an error with its cause.
func explain(err error) string {
	e, ok := errors.AsType[*atrium.Error](err)
	if !ok {
		return err.Error()
	}
	if cause := errors.Unwrap(e); cause != nil {
		return fmt.Sprintf("%s (%v)", e.Detail, cause)
	}
	return e.Detail
}

// setting returns the printed value of a setting, or "" if there is no setting with the name.
func (d *checkup) setting(name string) string {
	if i := slices.IndexFunc(d.Origins, func(s config.Setting) bool { return s.Name == name }); i >= 0 {
		return d.Origins[i].Value
	}
	return ""
}

func (d *checkup) run(ctx context.Context) {
	if d.Invalid != nil {
		d.fail("settings", "atrium serve --help describes every setting; atrium config shows the values and where they come from", "%s",
			strings.ReplaceAll(d.Invalid.Error(), "\n", "; "))
	} else {
		d.ok("settings", "%d settings are valid", len(d.Origins))
	}
	d.addresses()
	d.secrets()
	d.openFiles()
	if d.Invalid == nil && d.Settings.OIDCIssuer != "" {
		d.identityProvider(ctx)
	}
	path, embedded := strings.CutPrefix(d.Settings.Database, "sqlite:")
	if embedded && !d.databaseFiles(path) {
		return
	}
	s, release, err := d.Open(ctx)
	if err != nil {
		d.fail("database", d.connectFix(), "%s cannot be opened: %v",
			config.Redact(d.Settings.Database), err)
		return
	}
	defer release()
	if _, _, err := s.Schema(ctx); err != nil { // the first query
		d.fail("database", d.connectFix(), "%s cannot be queried: %s",
			config.Redact(d.Settings.Database), explain(err))
		return
	}
	d.ok("database", "connected to %s", config.Redact(d.Settings.Database))
	d.integrity(ctx, s, embedded)
	if d.schema(ctx, s) {
		d.clock(ctx, s)
		d.copies(ctx, s)
		d.secretKeys(ctx, s)
	}
	if !embedded {
		d.server(ctx, s)
		d.cluster(ctx, s)
	}
}

// integrity looks for damage. A database server has its own tools to read its files.
func (d *checkup) integrity(ctx context.Context, s *store.Store, embedded bool) {
	problems, err := s.Check(ctx, d.Full)
	switch {
	case err != nil:
		d.fail("integrity", damagedFix, "check failed: %s", explain(err))
	case len(problems) > 0:
		d.fail("integrity", damagedFix, "%s; first: %s", atrium.Count(len(problems), "problem", "problems"),
			problems[0].Detail)
	case !embedded:
		d.ok("integrity", "no index is invalid; pg_amcheck reads the whole database")
	case d.Full:
		d.ok("integrity", "no damage found")
	default:
		d.ok("integrity", "no damage found in root pages; atrium doctor --full reads the whole database")
	}
}

// schema reports whether this binary can read the schema.
func (d *checkup) schema(ctx context.Context, s *store.Store) bool {
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
func (d *checkup) copies(ctx context.Context, s *store.Store) {
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

func (d *checkup) clock(ctx context.Context, s *store.Store) {
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
	now := d.Now()
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
func (d *checkup) connectFix() string {
	if strings.HasPrefix(d.Settings.Database, "sqlite:") {
		return "run the command as the user of the server; check the disk, and whether another process locks the file"
	}
	return "check the URL and the password, and that the database server runs and accepts connections from this machine"
}
