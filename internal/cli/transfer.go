package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/transfer"
)

func newImport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Import accounts, prospects, pages, audiences, versions and entries",
		Long: `Import NDJSON, one object on a line, into a tenant; - stands for stdin.

A line whose identifier is stored already is skipped if it says the same. The
first line that cannot be taken ends the import; the message says what is wrong
with it and from which line to go on.`,
		Example: "  atrium import --tenant tenant_… data.ndjson\n  atrium import --tenant tenant_… --check data.ndjson\n  atrium import --tenant tenant_… --from-line 1501 data.ndjson",
		Args:    cobra.ExactArgs(1),
	}
	tenant, database, out := tenantFlag(cmd), databaseFlag(cmd), outputFlag(cmd)
	check := cmd.Flags().Bool("check", false, "read and judge every line, and store nothing")
	from := cmd.Flags().Int("from-line", 1, "first `line` to import")
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		id, err := parseTenant(*tenant)
		if err != nil {
			return err
		}
		if *from < 1 {
			return usageError{errors.New("--from-line is at least 1")}
		}
		in, size := cmd.InOrStdin(), int64(0)
		if args[0] != "-" {
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = file.Close() }()
			in = file
			if info, err := file.Stat(); err == nil {
				size = info.Size()
			}
		}
		return withStore(cmd.Context(), database, func(s *store.Store) error {
			if err := tenantExists(cmd.Context(), s, id); err != nil {
				return err
			}
			p := startProgress(cmd.ErrOrStderr(), "imported", size, false)
			report, err := transfer.Import(cmd.Context(), s, id, countedReader{in, p}, transfer.Options{FromLine: *from, Check: *check})
			p.finish()
			if err != nil {
				return stopped(err, report, *check)
			}
			return out.print(cmd, report, func(w io.Writer) {
				verb := "added"
				if *check {
					verb = "would be added"
				}
				fmt.Fprintf(w, "%d lines: %d %s, %d there already\n", report.Lines, report.Added, verb, report.Same)
			})
		})
	})
	return cmd
}

// stopped adds to the error that ended an import what was done until then, and how
// to go on.
func stopped(err error, report transfer.Report, check bool) error {
	line, bad := errors.AsType[*transfer.LineError](err)
	stop, ended := errors.AsType[*transfer.StopError](err)
	switch {
	case (bad || ended) && check:
		return fmt.Errorf("%s\nnothing was stored: this was a check", explain(err))
	case bad:
		return fmt.Errorf("%s\n%d records were added before it; when it is mended, go on with --from-line %d", explain(err), report.Added, line.ResumeFrom)
	case ended:
		return fmt.Errorf("stopped: %s\n%d records were added; go on with --from-line %d", explain(err), report.Added, stop.ResumeFrom)
	}
	return err
}

func newExport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export [FILE]",
		Short: "Export everything that a tenant has",
		Long: `Export everything that a tenant has as NDJSON, to a file that must not exist yet
or to stdout. A server may go on writing meanwhile.`,
		Example: "  atrium export --tenant tenant_… data.ndjson\n  atrium export --tenant tenant_… | gzip > data.ndjson.gz",
		Args:    cobra.MaximumNArgs(1),
	}
	tenant, database := tenantFlag(cmd), databaseFlag(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		id, err := parseTenant(*tenant)
		if err != nil {
			return err
		}
		return withStore(cmd.Context(), database, func(s *store.Store) error {
			if err := tenantExists(cmd.Context(), s, id); err != nil {
				return err
			}
			records := int64(0)
			if onTerminal(cmd.ErrOrStderr()) { // counting reads every index
				if records, err = s.Size(cmd.Context(), id); err != nil {
					return err
				}
			}
			p := startProgress(cmd.ErrOrStderr(), "exported", records, true)
			if len(args) == 0 || args[0] == "-" {
				_, err := transfer.Export(cmd.Context(), s, id, countedWriter{cmd.OutOrStdout(), p})
				p.finish()
				return err
			}
			lines, err := exportFile(cmd.Context(), s, id, args[0], p)
			p.finish()
			if err == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "%d lines written to %s\n", lines, args[0])
			}
			return err
		})
	})
	return cmd
}

// exportFile writes a new file and leaves none behind if it fails.
func exportFile(ctx context.Context, s *store.Store, tenant atrium.TenantID, path string, p *progress) (lines int, err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	lines, err = transfer.Export(ctx, s, tenant, countedWriter{file, p})
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return lines, err
}
