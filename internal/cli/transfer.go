package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"atrium"
)

// ndjson is the media type of imports and exports.
const ndjson = "application/x-ndjson"

// Streaming operations, which do not fit the table of operations.
var (
	importOperation = operation{
		use: "import FILE", short: "Import a tenant's data from NDJSON or CSV",
		long: `Import accounts, prospects, pages, audiences, versions and entries from FILE (- for stdin):
NDJSON, one object per line.

A line that is already stored is skipped if it is the same. The first invalid line ends
the import; the error names the fault and the line to continue from.

With --csv, FILE is CSV with column names in its first line: commas, semicolons or tabs,
UTF-8. Each row becomes an account or a prospect. --map assigns columns to
members; without it, common names are recognized.`,
		example: "  atrium import --tenant tenant_… data.ndjson\n" +
			"  atrium import --tenant tenant_… --check data.ndjson\n" +
			"  atrium import --tenant tenant_… --from-line 1501 data.ndjson\n" +
			"  atrium import --tenant tenant_… --csv accounts --map domain=Website,name=Company --check --all-faults organizations.csv\n" +
			"  atrium import --tenant tenant_… --csv accounts --skip-existing organizations.csv",
		method: http.MethodPost, path: "/import", layout: layoutRaw, params: []param{
			{flag: "check", kind: boolean, usage: "validate every line without storing anything", inQuery: true},
			{flag: "all-faults", kind: boolean, usage: "with --check, report the faults of all lines, not only of the first invalid one", inQuery: true},
			{flag: "skip-existing", kind: boolean, usage: "skip accounts and prospects that exist, even if they differ", inQuery: true},
			{flag: "from-line", kind: integer, usage: "first `line` to import (default 1)", inQuery: true, minimum: 1},
		},
	}
	exportOperation = operation{
		use: "export [FILE]", short: "Export a tenant's data as NDJSON",
		long: `Write NDJSON to a new FILE, or to stdout. Servers can keep writing during the export.`,
		example: "  atrium export --tenant tenant_… data.ndjson\n" +
			"  atrium export --tenant tenant_… | gzip > data.ndjson.gz",
		method: http.MethodGet, path: "/export", layout: layoutRaw, mediaType: ndjson,
	}
)

func newImport() *cobra.Command {
	cmd, t := importOperation.streamingCommand(cobra.ExactArgs(1))
	out := outputFlag(cmd)
	from := csvFlags(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		request, err := importOperation.newCall(cmd, nil)
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
		return t.withClient(cmd, "", func(c *client) error {
			p := startProgress(cmd.ErrOrStderr(), "imported", size)
			firstLine, _ := cmd.Flags().GetInt64("from-line")
			inspector := &importInspector{from: firstLine}
			lines, faults, err := from.lines(cmd, countingReader{in, p})
			if err != nil {
				return err
			}
			upload := newLineUpload(cmd.Context(), lines, inspector.inspect)
			request.body = upload
			request.header.Set("Content-Type", ndjson)
			request.header.Set("Expect", "100-continue") // learn of a rejection before sending the body
			response, err := c.fetch(context.WithoutCancel(cmd.Context()), request)
			p.finish()
			if errors.Is(upload.failure(), errNoObjects) {
				return upload.failure()
			}
			if err != nil {
				return importError(importOperation.translate(cmd, nil, t, err))
			}
			if err := upload.failure(); err != nil {
				return fmt.Errorf("stopped: %w: the lines that were sent are stored: continue with --from-line %d", err,
					upload.lines()+1)
			}
			warn(cmd.ErrOrStderr(), inspector.warning()...)
			return printReport(cmd, out, response.body, faults)
		})
	})
	return cmd
}

// importError translates the error that ended an import. It removes the line number from the
// locations of faults, because the message already has it.
func importError(err error) error {
	e, ok := errors.AsType[*atrium.Error](err)
	if !ok {
		return err
	}
	translated := *e
	translated.Detail = strings.Replace(translated.Detail, "fromLine=", "--from-line ", 1)
	translated.Faults = slices.Clone(e.Faults)
	for i, f := range translated.Faults {
		_, member, inLine := strings.Cut(strings.TrimPrefix(f.Where, "/"), "/")
		switch {
		case f.In != atrium.InBody:
		case inLine:
			translated.Faults[i].Where = member + ":"
		default:
			translated.Faults[i].Where = "line:"
		}
	}
	return &translated
}

// An importReport is the result of an import.
type importReport struct {
	Lines      int64       `json:"lines"`
	Added      int64       `json:"added"`
	Same       int64       `json:"same"`
	Linked     int64       `json:"linkedProspects,omitzero"`
	Unlinked   int64       `json:"unlinkedProspects,omitzero"`
	Faults     []lineFault `json:"faults,omitzero"`
	MoreFaults bool        `json:"moreFaults,omitzero"`
}

type lineFault struct {
	Line    int64  `json:"line"`
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// printReport prints the result of an import, with the faults of the rows of CSV that were left out.
func printReport(cmd *cobra.Command, out *output, body []byte, rows *[]lineFault) error {
	var report importReport
	if err := json.Unmarshal(body, &report); err != nil {
		return fmt.Errorf("read response: %w", err)
	}
	report.Faults = append(report.Faults, *rows...)
	slices.SortStableFunc(report.Faults, func(a, b lineFault) int { return cmp.Compare(a.Line, b.Line) })
	for _, f := range report.Faults {
		if out.form != formJSON {
			member := strings.TrimPrefix(f.Pointer, "/")
			if member != "" {
				member += ": "
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "line %d: %s\n", f.Line, atrium.Printable(member+f.Detail))
		}
	}
	var faulty error
	if n := int64(len(report.Faults)); n > 0 {
		faulty = fmt.Errorf("%s found", atrium.Count(n, "fault", "faults"))
		if report.MoreFaults {
			faulty = fmt.Errorf("%d faults found: the check ended at line %d", n, report.Lines)
		}
	}
	if out.form == formJSON {
		return cmp.Or(out.print(cmd, report, nil), faulty)
	}
	verb := "added"
	if check, _ := cmd.Flags().GetBool("check"); check {
		verb = "would be added"
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %d %s, %d already stored\n",
		atrium.Count(report.Lines, "line", "lines"), report.Added, verb, report.Same)
	if err == nil && report.Linked+report.Unlinked > 0 {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "new prospects: %d linked to an account, %d not linked\n", report.Linked, report.Unlinked)
	}
	return cmp.Or(err, faulty)
}

func newExport() *cobra.Command {
	cmd, t := exportOperation.streamingCommand(cobra.MaximumNArgs(1))
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		request, err := exportOperation.newCall(cmd, nil)
		if err != nil {
			return err
		}
		return t.withClient(cmd, "", func(c *client) error {
			_, err := exportOperation.writeLines(cmd, t, c, request, args)
			return err
		})
	})
	return cmd
}

// writeLines writes the response to a call to the new file in args, or to stdout, and returns its number
// of lines.
func (o *operation) writeLines(cmd *cobra.Command, t *target, c *client, request call, args []string) (lines int64, err error) {
	p := startProgress(cmd.ErrOrStderr(), "exported", 0)
	defer p.finish()
	export := func(to io.Writer) error {
		response, err := o.stream(cmd.Context(), c, request)
		if err != nil {
			return o.translate(cmd, nil, t, err)
		}
		defer func() { _ = response.Body.Close() }()
		return copyResponse(cmd.Context(), to, countingReader{response.Body, p})
	}
	if len(args) == 0 || args[0] == "-" {
		err = export(cmd.OutOrStdout())
		return p.lines.Load(), err
	}
	if err := writeNewFile(args[0], export); err != nil {
		return 0, err
	}
	p.finish()
	lines = p.lines.Load()
	fmt.Fprintf(cmd.ErrOrStderr(), "%s written to %s\n", atrium.Count(lines, "line", "lines"), args[0])
	return lines, nil
}

// writeNewFile creates a file with the data that write writes, and removes it if that fails.
func writeNewFile(path string, write func(io.Writer) error) error {
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

// copyResponse copies a response until its end or until ctx is done, even while a write to the
// output blocks.
func copyResponse(ctx context.Context, to io.Writer, body io.Reader) error {
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(to, body)
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

// streamingCommand returns the command of a streaming operation, and its target.
func (o *operation) streamingCommand(args cobra.PositionalArgs) (*cobra.Command, *target) {
	cmd := &cobra.Command{Use: o.use, Short: o.short, Long: o.short + ".\n\n" + o.long,
		Example: o.example, Args: args}
	for i := range o.params {
		o.params[i].addFlag(cmd)
	}
	t := targetFlags(cmd.Flags())
	markExclusiveFlags(cmd)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return t.resolve(cmd, o.tenancy) }
	return cmd, t
}

// stream sends the call and returns the response, whose body the caller closes. A response with
// another media type is an error: it is not from the API, but from a proxy for example.
func (o *operation) stream(ctx context.Context, c *client, call call) (*http.Response, error) {
	response, err := c.do(ctx, call)
	if err != nil {
		return nil, err
	}
	found := response.Header.Get("Content-Type")
	if media, _, _ := mime.ParseMediaType(found); o.mediaType != "" && media != o.mediaType {
		_ = response.Body.Close()
		return nil, fmt.Errorf("server returned %s with content type %q, want %s: "+
			"check the server's address and the proxies in front of it", atrium.Printable(response.Status),
			atrium.Printable(found), o.mediaType)
	}
	return response, nil
}
