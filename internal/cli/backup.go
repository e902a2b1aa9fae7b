package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"atrium/internal/backup"
	"atrium/internal/config"
	"atrium/internal/secrets"
)

// minKeep is the minimum of --keep: all backups of this time are kept.
const minKeep = 24 * time.Hour

func newBackup() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Back up a SQLite database while it is in use",
		Long: `Write a copy of the database to FILE, which must not exist. If FILE is a directory, the
command creates a file in it, named after the database and the time. The copy contains
everything that was acknowledged before the command started. Servers can keep writing. FILE
appears only when the copy is complete, synced to disk and checked. The command also writes
a manifest, FILE.sha256, which sha256sum -c accepts. It applies no migrations.

The backup contains everything in the database, including the hashes of keys and the
cursor key. Only its owner can read it; keep it that way. Secrets of webhooks are in it
encrypted, without the keys in secrets-key-file: keep a copy of that file elsewhere.

With --keep and a directory, the command first deletes earlier backups there that it has
named. It keeps those of the last 24 hours, and the newest of each day (UTC) for the given
time, which ends with the newest backup: while backups fail, no day loses its last one.

A backup or restore that is killed can leave hidden files with .partial in their names.
You can delete them. With --keep, those of backups are deleted after a day. The next
restore to the same database deletes those of restores. For PostgreSQL, use PostgreSQL's
own tools.`,
		Example: `  atrium backup /var/backups/atrium.db --database sqlite:/var/lib/atrium/atrium.db
  atrium backup /var/backups/ --rate 20MiB
  atrium backup /var/backups/ --keep 14d`,
		Args: cobra.ExactArgs(1),
	}
	database, out := databaseFlag(cmd), outputFlag(cmd)
	rate := rateFlag(cmd)
	addDuration(cmd.Flags(), "keep", 0, "before the backup, delete earlier ones: keep those of a day, and one of each day for this `duration`, such as 14d")
	cmd.RunE = run(func(cmd *cobra.Command, args []string) (err error) {
		if args[0] == "-" {
			return usageError{errors.New("FILE must be a file: a backup cannot be written to stdout")}
		}
		keep, err := cmd.Flags().GetDuration("keep")
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("keep") && keep < minKeep {
			return usageError{fmt.Errorf("--keep must be at least %s", formatDuration(minKeep))}
		}
		if err := requireLocal(cmd); err != nil {
			return err
		}
		settings, err := database(cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		path, err := databaseFile(settings, "use pg_dump or pg_basebackup")
		if err != nil {
			return err
		}
		if err := requireDatabase(settings); err != nil {
			return err
		}
		file := backupFile(args[0], path, time.Now())
		if keep > 0 && file == args[0] {
			return usageError{errors.New("--keep needs a directory: the names of the backups say when they were made")}
		}
		if _, err := os.Stat(filepath.Dir(file)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("directory %s does not exist", filepath.Dir(file))
		}
		s, err := openReadOnly(cmd.Context(), settings)
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		if keep > 0 {
			// First, because the space may be needed. A backup is better than none if it fails.
			pruned := backup.Prune(filepath.Dir(file), path, time.Now(), keep)
			defer func() { err = errors.Join(err, pruned) }()
		}
		start := time.Now()
		var manifest backup.Manifest
		err = withProgress(cmd, "copied", backup.Options{Rate: int64(*rate), Version: version()},
			func(o backup.Options) error {
				manifest, err = backup.Make(cmd.Context(), s, file, o)
				return err
			})
		if err != nil {
			return interruptedError(err)
		}
		return out.print(cmd, manifest, func(w io.Writer) {
			fmt.Fprintf(w, "%s contains everything acknowledged before %s: %s.\n", file, manifest.TakenAt,
				manifest.Described())
			fmt.Fprintf(w, "%s in %s, SHA-256 %s\n", mebibytes(manifest.Bytes),
				time.Since(start).Round(time.Millisecond), manifest.SHA256)
			if keys, err := s.SecretKeys(cmd.Context()); err == nil && len(keys) > 0 {
				fmt.Fprintln(w, "It does not contain the keys of its secrets: keep a copy of the secrets-key-file elsewhere.")
			}
		})
	})
	return cmd
}

// backupFile returns the path of a backup: a new name in the directory that the argument names, or else
// the argument.
func backupFile(argument, database string, now time.Time) string {
	info, err := os.Stat(argument)
	if !strings.HasSuffix(argument, string(filepath.Separator)) && (err != nil || !info.IsDir()) {
		return argument
	}
	return filepath.Join(argument, backup.Name(database, now))
}

func newRestore() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore [FILE]",
		Short: "Check a backup and restore a database from it",
		Long: `Create the SQLite database that --database names from a backup. The database, its -wal
and its -shm file must not exist. The database appears only when it is complete.

The command compares the checksum of the backup, reads the copy back and checks its
structure, its schema and the row counts in the manifest. A backup of an older version is
migrated when a server or a command first opens it.

With --verify, check the backup in place and create nothing. An audit log that was
tampered with is then an error; without --verify it is a warning.

API keys are restored as they were at the time of the backup: revoke again the keys that
were revoked since. A backup contains the secrets of webhooks and receivers only in encrypted
form: the server needs the secrets-key-file that it had then.

The next events of a restored database get new positions, higher than those of events that
were lost: a reader of the feed that has seen such events gets the error "gone". If other
tools restored the database (pg_restore, a point in time, Litestream, a snapshot), run the
command with --finish and without FILE before you start the servers. It does the same.`,
		Example: `  atrium restore /var/backups/atrium.db --database sqlite:/var/lib/atrium/atrium.db
  atrium restore /var/backups/atrium.db --verify
  atrium restore --finish --database postgres://atrium@db.internal/atrium`,
		Args: cobra.MaximumNArgs(1),
	}
	database, out := databaseSettings(cmd.Flags(), "secrets-key-file"), outputFlag(cmd)
	verify := cmd.Flags().Bool("verify", false, "check the backup without restoring it")
	noManifest := cmd.Flags().Bool("no-manifest", false,
		"accept a backup without a manifest, such as one made by sqlite3; no checksum is compared")
	finish := cmd.Flags().Bool("finish", false, "start new event positions in a database that another tool restored; takes no FILE")
	rate := rateFlag(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		for _, other := range []string{"verify", "no-manifest", "rate"} {
			if *finish && cmd.Flags().Changed(other) {
				return usageError{fmt.Errorf("--%s needs the FILE of a backup, and --finish takes none", other)}
			}
		}
		if *finish == (len(args) == 1) {
			return usageError{errors.New("pass the FILE of a backup, or --finish for a database that other tools restored")}
		}
		settings, explicit, err := database(cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		if *finish {
			return finishRestore(cmd, settings, out)
		}
		path := ""
		if !*verify {
			if !explicit {
				return usageError{errors.New("no database to restore to: pass --database or set ATRIUM_DATABASE, " +
					"or pass --verify to only check the backup")}
			}
			if path, err = databaseFile(settings, "use pg_restore"); err != nil {
				return err
			}
		}
		var report backup.Report
		err = withProgress(cmd, "read", backup.Options{Rate: int64(*rate)}, func(o backup.Options) error {
			if *verify {
				report, err = backup.Verify(cmd.Context(), args[0], !*noManifest, o)
			} else {
				report, err = backup.Restore(cmd.Context(), args[0], path, !*noManifest, o)
			}
			return err
		})
		if err != nil {
			return interruptedError(err)
		}
		for _, f := range report.Audits {
			warn(cmd.ErrOrStderr(),
				fmt.Sprintf("audit log of %s was tampered with before the backup: %s", f.Tenant, f.What))
		}
		if missing := missingKeys(report.SecretKeys, settings.SecretsKeyFile); len(missing) > 0 {
			warn(cmd.ErrOrStderr(), "the backup does not contain the keys of its secrets: a server is ready only with a secrets-key-file that has "+
				strings.Join(missing, ", "))
		}
		intact, compared := " is intact", ""
		if *noManifest { // damage within a row is not detected
			compared = " (not compared with a checksum)"
			intact = ": the structure is intact" + compared
		}
		err = out.print(cmd, report, func(w io.Writer) {
			if *verify {
				fmt.Fprintf(w, "%s%s: %s%s.\n", args[0], intact, report.Described(), takenAt(report))
			} else {
				fmt.Fprintf(w, "Restored %s%s: %s%s.\n", path, compared, report.Described(), takenAt(report))
			}
		})
		if err == nil && *verify && len(report.Audits) > 0 {
			err = errors.New("the backup is intact, but it contains an audit log that was tampered with")
		}
		return err
	})
	return cmd
}

// missingKeys returns those of the keys that a secrets-key-file does not have: all of them if it cannot be read.
func missingKeys(ids []string, file string) []string {
	ring, err := secrets.Load(file)
	if file == "" || err != nil {
		return ids
	}
	var has []string
	for _, id := range ring.Keys() {
		has = append(has, id.String())
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(has, id) })
}

// finishRestore continues the feeds of a database that other tools restored.
func finishRestore(cmd *cobra.Command, settings config.Config, out *output) error {
	if err := requireLocal(cmd); err != nil {
		return err
	}
	if err := requireDatabase(settings); err != nil {
		return err
	}
	s, err := openStore(cmd.Context(), settings)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	if _, err := s.Migrate(cmd.Context()); err != nil {
		return err
	}
	if err := s.ContinueAfterRestore(cmd.Context()); err != nil {
		return err
	}
	finished := struct {
		Finished bool `json:"finished"`
	}{true}
	return out.print(cmd, finished, func(w io.Writer) {
		fmt.Fprintln(w, "The next events get new positions. Readers of events that were lost get the error \"gone\".")
	})
}

func takenAt(r backup.Report) string {
	if r.TakenAt == 0 { // no manifest
		return ""
	}
	return ", acknowledged before " + r.TakenAt.String()
}

func rateFlag(cmd *cobra.Command) *config.Size {
	rate := new(config.Size)
	cmd.Flags().Var(rate, "rate", "maximum bytes copied per second, such as 20MiB; 0 for no limit")
	return rate
}

// databaseFile returns the path of the SQLite database file. For another engine, the error names
// the tools to use instead.
func databaseFile(c config.Config, tools string) (string, error) {
	path, ok := strings.CutPrefix(c.Database, "sqlite:")
	if !ok || path == "" {
		return "", fmt.Errorf("%s is not a SQLite file: %s", config.Redact(c.Database), tools)
	}
	return filepath.Clean(path), nil
}

// withProgress calls f with options that show progress on stderr, if that is a terminal.
func withProgress(cmd *cobra.Command, verb string, o backup.Options, f func(backup.Options) error) error {
	p := startProgress(cmd.ErrOrStderr(), verb, 0)
	defer p.finish()
	o.Progress = p.setBytes
	return f(o)
}

// interruptedError replaces the error of a canceled context.
func interruptedError(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted: nothing was created")
	}
	return err
}
