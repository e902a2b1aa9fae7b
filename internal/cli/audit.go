package cli

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"atrium"
	"atrium/internal/auditlog"
	"atrium/internal/config"
	"atrium/internal/store"
)

type auditView struct {
	Number    int64          `json:"number"`
	At        atrium.Time    `json:"at"`
	Actor     string         `json:"actor"`
	Action    string         `json:"action"`
	Subject   string         `json:"subject"`
	RequestID string         `json:"requestId,omitzero"`
	Detail    jsontext.Value `json:"detail,omitzero"`
	Redacted  bool           `json:"redacted,omitzero"`
	Hash      string         `json:"hash"`
}

func newAudit() *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "Read, export and verify the audit log"}
	cmd.AddCommand(newAuditList(), newAuditExport(), newAuditHead(), newAuditVerify())
	return cmd
}

// withChain calls f with the store and the chain that the flags name.
func withChain(cmd *cobra.Command, owner func() (atrium.TenantID, error), database func() (config.Config, error), f func(*store.Store, atrium.TenantID) error) error {
	id, err := owner()
	if err != nil {
		return err
	}
	return withStore(cmd.Context(), database, func(s *store.Store) error {
		if id != atrium.OperatorChain {
			if err := tenantExists(cmd.Context(), s, id); err != nil {
				return err
			}
		}
		return f(s, id)
	})
}

func newAuditList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List who changed what and when, newest first", Args: cobra.NoArgs,
		Example: "  atrium audit list --tenant tenant_… --subject page_…\n  atrium audit list --operator --action tenant. -o json",
	}
	owner, database, out := ownerFlags(cmd), databaseFlag(cmd), outputFlag(cmd)
	var f store.AuditFilter
	cmd.Flags().StringVar(&f.Subject, "subject", "", "only what was done to the thing with this `ID`")
	cmd.Flags().StringVar(&f.Actor, "actor", "", "only what was done by this `key`, or by 'command line' or 'schedule'")
	cmd.Flags().StringVar(&f.Action, "action", "", "only this `action` or, if it ends in a dot, all that begin with it")
	limit := cmd.Flags().Int("limit", 50, "how many rows at most")
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		if *limit < 1 {
			return usageError{errors.New("--limit is at least 1")}
		}
		return withChain(cmd, owner, database, func(s *store.Store, id atrium.TenantID) error {
			rows, err := auditRows(cmd.Context(), s, id, f, *limit)
			if err != nil {
				return err
			}
			views := make([]auditView, len(rows))
			for i, r := range rows {
				views[i] = auditView{r.Number, r.At, r.Actor, r.Action, r.Subject, r.RequestID, r.Detail, r.Redacted(), hex.EncodeToString(r.Hash)}
			}
			return out.print(cmd, views, func(w io.Writer) {
				fmt.Fprintln(w, "NUMBER\tAT\tACTOR\tACTION\tSUBJECT\tREQUEST\tDETAIL")
				for _, r := range rows {
					detail := "(redacted)"
					if !r.Redacted() {
						detail = string(r.Detail)
					}
					fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Number, r.At, cell(r.Actor), cell(r.Action), cell(r.Subject), cell(r.RequestID), cell(detail))
				}
			})
		})
	})
	return cmd
}

func auditRows(ctx context.Context, s *store.Store, chain atrium.TenantID, f store.AuditFilter, most int) (all []atrium.AuditRow, err error) {
	for next, first := int64(0), true; (first || next > 0) && len(all) < most; first = false {
		var part []atrium.AuditRow
		if part, next, err = s.AuditRows(ctx, chain, f, next, min(most-len(all), listedAtOnce)); err != nil {
			return nil, err
		}
		all = append(all, part...)
	}
	return all, nil
}

func newAuditExport() *cobra.Command {
	cmd := &cobra.Command{
		Use: "export", Short: "Write the audit log to stdout, oldest first", Args: cobra.NoArgs,
		Long: `Write the rows of the audit log to stdout as NDJSON, one on a line, the oldest
first, with all that atrium audit verify needs.`,
		Example: "  atrium audit export --tenant tenant_… > audit.ndjson\n  atrium audit export --tenant tenant_… --from 1201 >> audit.ndjson",
	}
	owner, database := ownerFlags(cmd), databaseFlag(cmd)
	from := cmd.Flags().Int64("from", 1, "`number` of the first row")
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		return withChain(cmd, owner, database, func(s *store.Store, id atrium.TenantID) error {
			out := bufio.NewWriter(cmd.OutOrStdout())
			var line []byte
			err := s.ExportAudit(cmd.Context(), id, *from, func(row *atrium.AuditRow) (err error) {
				if line, err = auditlog.AppendLine(line[:0], row); err == nil {
					_, err = out.Write(line)
				}
				return err
			})
			return errors.Join(err, out.Flush())
		})
	})
	return cmd
}

func newAuditHead() *cobra.Command {
	cmd := &cobra.Command{
		Use: "head", Short: "Print the head of the audit log", Args: cobra.NoArgs,
		Long: `Print the number and the hash of the last row, as atrium audit verify --head takes
them. Keep it where nobody with the database can change it.`,
	}
	owner, database, out := ownerFlags(cmd), databaseFlag(cmd), outputFlag(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		return withChain(cmd, owner, database, func(s *store.Store, id atrium.TenantID) error {
			head, err := s.AuditHead(cmd.Context(), id)
			if err != nil {
				return err
			}
			data := map[string]any{"number": head.Number, "hash": hex.EncodeToString(head.Hash)}
			return out.print(cmd, data, func(w io.Writer) { fmt.Fprintln(w, head) })
		})
	})
	return cmd
}

func newAuditVerify() *cobra.Command {
	cmd := &cobra.Command{
		Use: "verify [FILE]", Short: "Find out whether the audit log was tampered with", Args: cobra.MaximumNArgs(1),
		Long: `Verify the chain of the audit log: in the database, or in a FILE that atrium audit
export has written, - for stdin. What is wrong is named by the first row that is, and
the exit code is 1. A head that was kept elsewhere also finds what was cut off, or
rewritten as a whole; a FILE may then begin with the row behind it.`,
		Example: "  atrium audit verify --tenant tenant_…\n  atrium audit verify --tenant tenant_… --head 1200:5f1d… audit.ndjson",
	}
	owner, database, out := ownerFlags(cmd), databaseFlag(cmd), outputFlag(cmd)
	kept := cmd.Flags().String("head", "", "earlier `head` that the chain must have had, as atrium audit head prints it")
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		var known *auditlog.Head
		if *kept != "" {
			head, ok := auditlog.ParseHead(*kept)
			if !ok {
				return usageError{fmt.Errorf("%q is no head: atrium audit head prints them", *kept)}
			}
			known = &head
		}
		if len(args) == 1 {
			id, err := owner()
			if err != nil {
				return err
			}
			report, err := verifyFile(cmd, args[0], id, known)
			if err != nil {
				return err
			}
			return printReport(cmd, out, report)
		}
		return withChain(cmd, owner, database, func(s *store.Store, id atrium.TenantID) error {
			report, err := s.VerifyAudit(cmd.Context(), id, known)
			if err != nil {
				return err
			}
			return printReport(cmd, out, report)
		})
	})
	return cmd
}

func verifyFile(cmd *cobra.Command, path string, chain atrium.TenantID, known *auditlog.Head) (auditlog.Report, error) {
	in := cmd.InOrStdin()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return auditlog.Report{}, err
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	return auditlog.VerifyLines(in, chain, known)
}

type reportView struct {
	First    int64         `json:"first"`
	Last     int64         `json:"last"`
	Hash     string        `json:"hash"`
	Redacted int64         `json:"redacted"`
	Flaw     auditlog.Flaw `json:"flaw,omitzero"`
	Row      *int64        `json:"row,omitzero"` // that the flaw is at
}

// printReport prints what was found, and returns what is wrong as an error.
func printReport(cmd *cobra.Command, out *output, r auditlog.Report) error {
	view := reportView{First: r.First, Last: r.Head.Number, Hash: hex.EncodeToString(r.Head.Hash), Redacted: r.Redacted}
	if r.Fault != nil {
		view.Flaw, view.Row = r.Fault.Flaw, &r.Fault.Number
	}
	if r.Fault == nil || out.form == formJSON {
		if err := out.print(cmd, view, func(w io.Writer) {
			fmt.Fprintf(w, "The chain is sound from row %d to %d; %d of them are redacted.\nHead\t%s\n", r.First, r.Head.Number, r.Redacted, r.Head)
		}); err != nil {
			return err
		}
	}
	if r.Fault != nil {
		return fmt.Errorf("the chain is broken: %s", r.Fault)
	}
	return nil
}
