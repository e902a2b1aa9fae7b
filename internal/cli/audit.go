package cli

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"atrium"
	"atrium/internal/auditlog"
	"atrium/internal/config"
	"atrium/internal/store"
)

func audit() group {
	return group{name: "audit", short: "Read, export and verify the audit log", operations: []operation{
		{
			use: "list", short: "List audit records, newest first",
			example: "  atrium audit list --tenant tenant_… --subject page_…\n" +
				"  atrium audit list --operator --action tenant. --limit 20",
			method: http.MethodGet, path: "/audit", tenancy: tenantOrOperators, layout: layoutList, columns: []column{
				{"NUMBER", "number"}, {"AT", "at"}, {"ACTOR", "actor"}, {"ACTOR NAME", "actorName"}, {"ACTION", "action"}, {"SUBJECT", "subject"},
				{"REQUEST", "requestId"}, {"DETAIL", "detail"},
			}, items: "audit records", none: hintOnAction, params: []param{
				{flag: "subject", usage: "only changes of the resource with this `ID`, or of the account with this domain",
					check: checkSubject, subject: true},
				{flag: "page", usage: "only changes of the page with this `ID`, of its audiences, and of their versions and previews", names: "page_id"},
				{flag: "actor", usage: "only changes by this `actor`: a key ID, 'command line', 'schedule', 'retention', 'expiry' or 'delivery'", check: checkActor},
				{flag: "action", usage: "only this `action`, such as page.publish; with a trailing dot, all actions that start with it"},
				{flag: "since", kind: instant, usage: "only changes made at or after this `time`"},
				{flag: "until", kind: instant, usage: "only changes made before this `time`"},
			},
		},
		{
			use: "head", short: "Print the head of the audit log",
			long: `The head is the number and the hash of the last row. Store it where users of the database
cannot change it, and pass it to atrium audit verify --head.`,
			method: http.MethodGet, path: "/audit/head", tenancy: tenantOrOperators, layout: layoutValue,
			columns: []column{{"HEAD", "number:hash"}},
		},
		auditExport,
	}, extraCommands: []func(*target) *cobra.Command{newAuditVerify}}
}

// checkActor returns the fault of a text that is no actor, or "".
func checkActor(text string) string {
	if slices.Contains(atrium.OtherActors(), text) || checkID("key_id", text) == nil {
		return ""
	}
	return "must be a key ID, 'command line', 'schedule', 'retention', 'expiry' or 'delivery'"
}

// hintOnAction returns how to find actions if --action was given.
func hintOnAction(cmd *cobra.Command) string {
	action, _ := cmd.Flags().GetString("action")
	if action == "" {
		return ""
	}
	return fmt.Sprintf(" with the action %q; run atrium audit list without --action to see actions", action)
}

var auditExport = operation{
	use: "export", short: "Write the audit log to stdout, oldest first",
	long: "Write NDJSON, one row per line, with everything that atrium audit verify needs.",
	example: "  atrium audit export --tenant tenant_… > audit.ndjson\n" +
		"  atrium audit export --tenant tenant_… --from 1201 >> audit.ndjson",
	method: http.MethodGet, path: "/audit/export", tenancy: tenantOrOperators, layout: layoutRaw, mediaType: ndjson,
	params: []param{{flag: "from", kind: integer, usage: "`number` of the first row (default 1)", minimum: 1}},
}

func newAuditVerify(t *target) *cobra.Command {
	cmd := &cobra.Command{
		Use: "verify [FILE]", Short: "Check the audit log for tampering", Args: cobra.MaximumNArgs(1),
		Long: `Verify the hash chain of the audit log: in the database, through a server, or in a FILE
written by atrium audit export (- for stdin). If the chain is broken, print the first
faulty row and exit with code 1.

With --head and a head that was stored elsewhere, also detect a log that was truncated or
completely rewritten. FILE may then start with the row after that head.`,
		Example: "  atrium audit verify --tenant tenant_…\n" +
			"  atrium audit verify --tenant tenant_… --head 1200:5f1d… audit.ndjson",
	}
	operatorFlag(cmd, t)
	out := outputFlag(cmd)
	headFlag := cmd.Flags().String("head", "",
		"earlier `head` that the chain must contain, as printed by atrium audit head")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return t.resolve(cmd, tenantOrOperators) }
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		var known *auditlog.Head
		if *headFlag != "" {
			head, ok := auditlog.ParseHead(*headFlag)
			if !ok {
				return usageError{fmt.Errorf("--head: invalid head %q: run atrium audit head to print one", *headFlag)}
			}
			known = &head
		}
		report, err := t.verify(cmd, args, known)
		if err != nil {
			return err
		}
		return printVerification(cmd, out, report)
	})
	return cmd
}

// verify verifies the chain of the tenant or the operators. It reads the file in args, if there is
// one.
func (t *target) verify(cmd *cobra.Command, args []string, known *auditlog.Head) (report auditlog.Report, err error) {
	chain, err := t.chain(cmd)
	switch {
	case err != nil:
		return report, err
	case len(args) == 1:
		return verifyFile(cmd, args[0], chain, known)
	case t.remote():
		err = t.withClient(cmd, "", func(c *client) error {
			export := call{method: auditExport.method, path: auditExport.path}
			response, err := auditExport.stream(cmd.Context(), c, export)
			if err != nil {
				return auditExport.translate(cmd, nil, t, err)
			}
			defer func() { _ = response.Body.Close() }()
			report, err = auditlog.VerifyLines(response.Body, chain, known)
			return err
		})
		return report, err
	}
	err = t.withStore(cmd, func(_ config.Config, s *store.Store) error {
		if _, err := s.Tenant(cmd.Context(), chain); !t.operator && err != nil {
			return auditExport.translate(cmd, nil, t, err)
		}
		report, err = s.VerifyAudit(cmd.Context(), chain, known)
		return err
	})
	return report, err
}

// chain returns the audit log to verify: of the operators, of the tenant that the target names, of the
// tenant of the key, or of the only tenant of the database.
func (t *target) chain(cmd *cobra.Command) (chain atrium.TenantID, err error) {
	switch {
	case t.operator:
		return atrium.OperatorChain, nil
	case t.tenant != "":
		return atrium.TenantID(t.tenant), nil
	}
	err = t.withClient(cmd, "", func(c *client) (err error) {
		chain, err = c.keyTenant(cmd.Context())
		return auditExport.translate(cmd, nil, t, err)
	})
	return chain, err
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
	report, err := auditlog.VerifyLines(in, chain, known)
	if err == nil && report.Fault == nil && report.First == 0 { // such as after a failed export
		err = fmt.Errorf("%s has no rows: nothing was verified", path)
	}
	return report, err
}

type verification struct {
	First    int64         `json:"first"`
	Last     int64         `json:"last"`
	Hash     string        `json:"hash"`
	Redacted int64         `json:"redacted"`
	Flaw     auditlog.Flaw `json:"flaw,omitzero"`
	Row      *int64        `json:"row,omitzero"` // row of the flaw
}

// printVerification prints the report, and returns a flaw as an error.
func printVerification(cmd *cobra.Command, out *output, r auditlog.Report) error {
	view := verification{First: r.First, Last: r.Head.Number, Hash: hex.EncodeToString(r.Head.Hash),
		Redacted: r.Redacted}
	if r.Fault != nil {
		view.Flaw, view.Row = r.Fault.Flaw, &r.Fault.Number
	}
	if r.Fault == nil || out.form == formJSON {
		if err := out.print(cmd, view, func(w io.Writer) {
			if r.First == 0 {
				fmt.Fprintln(w, "The audit log is empty.")
				return
			}
			fmt.Fprintf(w, "The chain is intact from row %d to %d; redacted rows: %d.\nHead\t%s\n", r.First,
				r.Head.Number, r.Redacted, r.Head)
		}); err != nil {
			return err
		}
	}
	if r.Fault != nil {
		return fmt.Errorf("the chain is broken: %s", r.Fault)
	}
	return nil
}
