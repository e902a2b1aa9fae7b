package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"atrium"
)

// What moves is no row of a table: it is streamed.
var (
	importing = operation{
		use: "import FILE", short: "Import a tenant's data from NDJSON",
		long: `Import accounts, prospects, pages, audiences, versions and entries from FILE (- for stdin):
NDJSON, one object per line.

A line that is already stored is skipped if it is the same. The first invalid line ends
the import; the error names the fault and the line to continue from.`,
		example: "  atrium import --tenant tenant_… data.ndjson\n  atrium import --tenant tenant_… --check data.ndjson\n  atrium import --tenant tenant_… --from-line 1501 data.ndjson",
		method:  http.MethodPost, path: "/import", shows: verbatim, params: []param{
			{flag: "check", kind: boolean, usage: "validate every line without storing anything", inQuery: true},
			{flag: "from-line", kind: integer, usage: "first `line` to import (default 1)", inQuery: true, least: 1},
		},
	}
	exporting = operation{
		use: "export [FILE]", short: "Export a tenant's data as NDJSON",
		long:    `Write NDJSON to a new FILE, or to stdout. Servers can keep writing during the export.`,
		example: "  atrium export --tenant tenant_… data.ndjson\n  atrium export --tenant tenant_… | gzip > data.ndjson.gz",
		method:  http.MethodGet, path: "/export", shows: verbatim,
	}
)

func newImport() *cobra.Command {
	cmd, t := importing.streaming(cobra.ExactArgs(1))
	out := outputFlag(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		request, err := importing.call(cmd, nil)
		if err != nil {
			return err
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
		t.mayMake = true
		return t.with(cmd, "", func(c *client) error {
			p := startProgress(cmd.ErrOrStderr(), "imported", size)
			upload := wholeLines(cmd.Context(), countedReader{in, p})
			request.body = upload
			request.header.Set("Content-Type", "application/x-ndjson")
			request.header.Set("Expect", "100-continue") // who may not import need not send it all
			a, err := c.ask(context.WithoutCancel(cmd.Context()), request)
			p.finish()
			if err != nil {
				return stopped(importing.reword(cmd, nil, t, err))
			}
			if err := upload.failure(); err != nil {
				return fmt.Errorf("stopped: %w\nthe lines that were sent are stored: continue with --from-line %d", err, upload.lines()+1)
			}
			return printReport(cmd, out, a.body)
		})
	})
	return cmd
}

// stopped puts the error that ended an import into the words of the command line. A
// place in the body begins with the number of the line, which is said already.
func stopped(err error) error {
	e, ok := errors.AsType[*atrium.Error](err)
	if !ok {
		return err
	}
	said := *e
	said.Detail = strings.Replace(said.Detail, "fromLine=", "--from-line ", 1)
	said.Faults = slices.Clone(e.Faults)
	for i, f := range said.Faults {
		_, member, inLine := strings.Cut(strings.TrimPrefix(f.Where, "/"), "/")
		switch {
		case f.In != atrium.InBody:
		case inLine:
			said.Faults[i].Where = member + ":"
		default:
			said.Faults[i].Where = "line:"
		}
	}
	return &said
}

func printReport(cmd *cobra.Command, out *output, body []byte) error {
	if out.form == formJSON {
		return writeIndented(cmd.OutOrStdout(), body)
	}
	var report struct{ Lines, Added, Same int64 }
	if err := json.Unmarshal(body, &report, json.MatchCaseInsensitiveNames(true)); err != nil {
		return fmt.Errorf("read response: %w", err)
	}
	verb := "added"
	if check, _ := cmd.Flags().GetBool("check"); check {
		verb = "would be added"
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%d lines: %d %s, %d already stored\n", report.Lines, report.Added, verb, report.Same)
	return err
}

func newExport() *cobra.Command {
	cmd, t := exporting.streaming(cobra.MaximumNArgs(1))
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		request, err := exporting.call(cmd, nil)
		if err != nil {
			return err
		}
		return t.with(cmd, "", func(c *client) error {
			p := startProgress(cmd.ErrOrStderr(), "exported", 0)
			defer p.finish()
			export := func(to io.Writer) error {
				response, err := c.do(cmd.Context(), request)
				if err != nil {
					return exporting.reword(cmd, nil, t, err)
				}
				defer func() { _ = response.Body.Close() }()
				return pour(cmd.Context(), to, countedReader{response.Body, p})
			}
			if len(args) == 0 || args[0] == "-" {
				return export(cmd.OutOrStdout())
			}
			if err := intoNewFile(args[0], export); err != nil {
				return err
			}
			p.finish()
			fmt.Fprintf(cmd.ErrOrStderr(), "%d lines written to %s\n", p.lines.Load(), args[0])
			return nil
		})
	})
	return cmd
}

// intoNewFile makes a file that write fills, and leaves none behind if that fails.
func intoNewFile(path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = write(file); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// pour copies an answer until its end, or that of the context: also while whoever should
// take it does not.
func pour(ctx context.Context, to io.Writer, answer io.Reader) error {
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(to, answer)
		done <- err
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("interrupted: the output is incomplete")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("response was cut off: the output is incomplete")
	}
	return err
}

// streaming returns the command of an operation that is streamed, and its target.
func (o *operation) streaming(args cobra.PositionalArgs) (*cobra.Command, *target) {
	cmd := &cobra.Command{Use: o.use, Short: o.short, Long: o.short + ".\n\n" + o.long + "\n\n" + targetHelp, Example: o.example, Args: args}
	for i := range o.params {
		o.params[i].addTo(cmd)
	}
	t := targetFlags(cmd.Flags())
	excludeFlags(cmd)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return t.resolve(cmd, o.owner) }
	return cmd, t
}
