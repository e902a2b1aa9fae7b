package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"atrium"
	"atrium/internal/csvrows"
)

// Limits of one batch request.
const (
	batchEntries = 1000
	batchBytes   = 8 << 20
	maxEntryLine = 32 << 20 // more than any server accepts
)

// batchOperation is the operation that a batch calls. Its body consists of the lines of a file.
var batchOperation = operation{use: "batch FILE", method: http.MethodPost, path: "/account_logs"}

func newEntriesBatch(t *target) *cobra.Command {
	cmd := &cobra.Command{
		Use: "batch FILE", Short: "Record entries from a file", Args: cobra.ExactArgs(1),
		Long: `Record entries from FILE (- for stdin): NDJSON, one entry per line in the format of the
external API. Set occurredAt for entries that happened in the past. The command prints
the result of each line, in order. A rejected entry does not affect the others; the exit
code is then 1. Give every entry an idempotencyKey: then the command is safe to repeat.`,
		Example: "  atrium entries batch --tenant tenant_… history.ndjson",
	}
	out := outputFlag(cmd, formCSV)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return t.resolve(cmd, oneTenant) }
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		in := cmd.InOrStdin()
		if args[0] != "-" {
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = file.Close() }()
			in = file
		}
		return t.withClient(cmd, "", func(c *client) error {
			b := &batch{listing: newListing(cmd.OutOrStdout(), out.form, []column{
				{"LINE", "line"}, {"STATUS", "status"}, {"ENTRY", "accountLogId"}, {"ACCOUNT", "accountId"},
				{"REPLAYED", "replayed"}, {"PROBLEM", "problem"},
			}), stderr: cmd.ErrOrStderr(), send: func(body []byte) ([]byte, error) {
				response, err := c.fetch(cmd.Context(),
					call{method: batchOperation.method, path: batchOperation.path, body: bytes.NewReader(body)})
				return response.body, batchOperation.translate(cmd, nil, t, err)
			}}
			return b.read(in)
		})
	})
	return cmd
}

// A batch collects lines for a request and prints the outcome of each line.
type batch struct {
	listing *listing
	stderr  io.Writer
	send    func(body []byte) ([]byte, error)

	body     []byte
	lines    []int // line numbers of the entries in body
	rejected int
}

// read sends all lines. If it fails midway, it still prints complete outcomes of the lines before:
// these need not be sent again.
func (b *batch) read(in io.Reader) error {
	n, err := b.sendAll(in)
	if err == nil || b.listing.started {
		err = errors.Join(err, b.listing.end(b.stderr, "entries"))
	}
	if err == nil && b.rejected > 0 {
		err = fmt.Errorf("rejected %d of %s", b.rejected, atrium.Count(n, "line", "lines"))
	}
	return err
}

// sendAll returns the number of lines that it read.
func (b *batch) sendAll(in io.Reader) (n int, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxEntryLine)
	for lines.Scan() {
		n++
		line := bytes.TrimSpace(lines.Bytes())
		switch {
		case len(line) == 0:
			continue
		case !jsontext.Value(line).IsValid(lenientJSON):
			return n, errors.Join(b.flush(),
				fmt.Errorf("line %d must be one JSON value: the lines before it were sent", n))
		case len(b.lines) == batchEntries || len(b.body)+len(line) > batchBytes && len(b.lines) > 0:
			if err := b.flush(); err != nil {
				return n, err
			}
		}
		b.body = append(append(b.body, line...), ',')
		b.lines = append(b.lines, n)
	}
	return n, errors.Join(b.flush(), lines.Err())
}

// withProblem adds the member problem to an outcome, for the table: all faults of a rejected entry,
// or its detail if it has no faults.
func withProblem(outcome jsontext.Value) (jsontext.Value, error) {
	var p problem
	if err := json.Unmarshal(outcome, &p, lenientJSON); err != nil {
		return nil, fmt.Errorf("read response: %w", err)
	}
	if p.Detail == "" {
		return outcome, nil
	}
	message := p.Detail
	if faults := p.faults(); len(faults) > 0 {
		texts := make([]string, len(faults))
		for i, f := range faults {
			texts[i] = strings.TrimSpace(strings.TrimPrefix(f.Where, "/") + " " + f.Detail)
		}
		message = strings.Join(texts, "; ")
	}
	text, err := jsontext.AppendQuote(nil, message)
	if err != nil {
		return nil, fmt.Errorf("read response: %w", err)
	}
	return append(append([]byte(`{"problem":`), text...),
		append([]byte{','}, bytes.TrimPrefix(outcome, []byte("{"))...)...), nil
}

// flush sends the collected lines.
func (b *batch) flush() error {
	if len(b.lines) == 0 {
		return nil
	}
	body := append([]byte(`{"entries":[`), b.body[:len(b.body)-1]...)
	response, err := b.send(append(body, "]}"...))
	if err != nil {
		return fmt.Errorf("send lines: the results from line %d on are unknown: %w", b.lines[0], err)
	}
	var page struct {
		Outcomes []jsontext.Value `json:"outcomes"`
	}
	if err := json.Unmarshal(response, &page); err != nil {
		return fmt.Errorf("read response: %w", err)
	}
	if len(page.Outcomes) != len(b.lines) {
		return fmt.Errorf("read response: %d outcomes for %d lines", len(page.Outcomes), len(b.lines))
	}
	for i, o := range page.Outcomes {
		status, err := csvrows.Lookup(o, "status")
		if err != nil {
			return err
		}
		if string(status) >= "400" {
			b.rejected++
		}
		page.Outcomes[i] = fmt.Appendf(nil, `{"line":%d,%s`, b.lines[i], bytes.TrimPrefix(o, []byte("{")))
		if b.listing.form != formJSON {
			if page.Outcomes[i], err = withProblem(page.Outcomes[i]); err != nil {
				return err
			}
		}
	}
	b.body, b.lines = b.body[:0], b.lines[:0]
	return b.listing.add(page.Outcomes)
}
