package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"atrium/internal/backup"
	"atrium/internal/config"
)

func newBackup() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy a SQLite database to a new file while it is in use",
		Long: `Copy the database to FILE, which must not exist yet, with everything that was
acknowledged before the command began. Servers go on writing meanwhile. The file gets
its name when it is whole, on disk, and was read back and found to be sound; FILE.sha256
beside it says what it is, and sha256sum -c checks it. No migrations are applied.

The backup contains all that the database does, the hashes of keys and the key of the
cursors included: only its owner may read it, and it should stay so.

What a killed backup or restore leaves has a name that begins with a dot and ends with .partial:
it may be deleted. A database on PostgreSQL is copied by PostgreSQL's own tools.`,
		Example: `  atrium backup /var/backups/atrium.db --database sqlite:/var/lib/atrium/atrium.db
  atrium backup "/var/backups/atrium-$(date -u +%FT%H%MZ).db" --rate 20MiB`,
		Args: cobra.ExactArgs(1),
	}
	database, out := databaseFlag(cmd), outputFlag(cmd)
	rate := rateFlag(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		if args[0] == "-" {
			return usageError{errors.New("a backup is checked before it has its name, and needs a file: stdout is none")}
		}
		settings, err := database(cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		path, err := databaseFile(settings, "pg_dump or pg_basebackup copy it")
		if err != nil {
			return err
		}
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("there is no database to copy: %w", err)
		}
		s, err := lookAt(cmd.Context(), settings)
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		start := time.Now()
		var m backup.Manifest
		err = withProgress(cmd, "copied", backup.Options{Rate: int64(*rate), Version: version()}, func(o backup.Options) error {
			m, err = backup.Make(cmd.Context(), s, args[0], o)
			return err
		})
		if err != nil {
			return interrupted(err)
		}
		return out.print(cmd, m, func(w io.Writer) {
			fmt.Fprintf(w, "%s has all that was acknowledged before %s: %s.\n", args[0], m.TakenAt, m.Described())
			fmt.Fprintf(w, "%s in %s, SHA-256 %s\n", mebibytes(m.Bytes), time.Since(start).Round(time.Millisecond), m.SHA256)
		})
	})
	return cmd
}

func newRestore() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Check a backup and make a database from it",
		Long: `Make the SQLite database that --database names from a backup, of which it takes the
place as a whole or not at all. There must be none there, nor a -wal or -shm file of one.
The checksum of the backup is compared, and the copy is read back and checked: its
structures, that this binary can work with it, and that it has what its manifest says.
A backup of an older version is migrated when a server or a command first opens it.

With --verify the backup is checked where it is and nothing is made. An audit log that
was tampered with is then a failure; else it is told, and the database is made.

The clients' keys work again as they were when the backup was made: what was revoked
since must be revoked again.`,
		Example: `  atrium restore /var/backups/atrium.db --database sqlite:/var/lib/atrium/atrium.db
  atrium restore /var/backups/atrium.db --verify`,
		Args: cobra.ExactArgs(1),
	}
	database, out := databaseSettings(cmd.Flags()), outputFlag(cmd)
	verify := cmd.Flags().Bool("verify", false, "check the backup, and make no database")
	without := cmd.Flags().Bool("no-manifest", false, "take a backup that has no manifest, such as one that sqlite3 has made; its checksum is not compared")
	rate := rateFlag(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		settings, named, err := database(cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		path := ""
		if !*verify {
			if !named {
				return usageError{errors.New("which database to make: --database, ATRIUM_DATABASE or the file must say, or --verify that none is")}
			}
			if path, err = databaseFile(settings, "pg_restore puts back what pg_dump has made"); err != nil {
				return err
			}
		}
		var report backup.Report
		err = withProgress(cmd, "read", backup.Options{Rate: int64(*rate)}, func(o backup.Options) error {
			if *verify {
				report, err = backup.Verify(cmd.Context(), args[0], !*without, o)
			} else {
				report, err = backup.Restore(cmd.Context(), args[0], path, !*without, o)
			}
			return err
		})
		if err != nil {
			return interrupted(err)
		}
		for _, f := range report.Audits {
			fmt.Fprintf(cmd.ErrOrStderr(), "atrium: the audit log of %s was broken when the backup was made: %s\n", f.Tenant, f.What)
		}
		err = out.print(cmd, report, func(w io.Writer) {
			if *verify {
				fmt.Fprintf(w, "%s is sound: %s%s.\n", args[0], report.Described(), taken(report))
			} else {
				fmt.Fprintf(w, "%s is restored: %s%s.\n", path, report.Described(), taken(report))
			}
		})
		if err == nil && *verify && len(report.Audits) > 0 {
			err = errors.New("the backup is as it was made, with audit logs that were tampered with before")
		}
		return err
	})
	return cmd
}

func taken(r backup.Report) string {
	if r.TakenAt == 0 { // there is no manifest
		return ""
	}
	return ", acknowledged before " + r.TakenAt.String()
}

func rateFlag(cmd *cobra.Command) *config.Size {
	rate := new(config.Size)
	cmd.Flags().Var(rate, "rate", "how much is copied in a second at most; 0 for as much as the disk takes")
	return rate
}

// databaseFile returns the path of the database file that the settings name. A server
// has its own tools, which are named.
func databaseFile(c config.Config, tools string) (string, error) {
	path, ok := strings.CutPrefix(c.Database, "sqlite:")
	if !ok || path == "" {
		return "", fmt.Errorf("%s is not a file: %s (docs/backup.md)", config.Redact(c.Database), tools)
	}
	return filepath.Clean(path), nil
}

// withProgress calls f with options that show progress on stderr, if that is a terminal.
func withProgress(cmd *cobra.Command, verb string, o backup.Options, f func(backup.Options) error) error {
	p := startProgress(cmd.ErrOrStderr(), verb, 0)
	defer p.finish()
	o.Progress = p.at
	return f(o)
}

// interrupted says that a signal is what has ended a command, if it is.
func interrupted(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted: nothing was made")
	}
	return err
}
