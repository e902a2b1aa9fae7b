package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
	"atrium/internal/transfer"
)

// tb is the part of testing.TB that helpers need. *rapid.T implements it, too.
type tb interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// A place is a store with a tenant to import into and to export from.
type place struct {
	*store.Store
	tenant atrium.TenantID
}

// newPlace creates a store with a tenant in a temporary directory.
func newPlace(t testing.TB) *place {
	t.Helper()
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "test.db"), store.Options{})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	return (&place{Store: s}).empty(t)
}

// empty returns a new tenant of the same store.
func (p *place) empty(t tb) *place {
	t.Helper()
	tenant, _, err := p.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	if err != nil {
		t.Fatalf("create a tenant: %v", err)
	}
	return &place{p.Store, tenant.ID}
}

func (p *place) export(t tb) string {
	t.Helper()
	var b bytes.Buffer
	n, err := transfer.Export(t.Context(), p.Store, p.tenant, &b)
	if err != nil {
		t.Fatalf("export: %v", err)
	}
	if lines := strings.Count(b.String(), "\n"); lines != n {
		t.Errorf("Export returned %d lines and wrote %d", n, lines)
	}
	return b.String()
}

func (p *place) importFrom(t tb, r io.Reader, o transfer.Options) (transfer.Report, error) {
	t.Helper()
	return transfer.Import(t.Context(), p.Store, p.tenant, r, o)
}

// put imports lines, all of which must be valid.
func (p *place) put(t tb, lines ...string) transfer.Report {
	t.Helper()
	report, err := p.importFrom(t, strings.NewReader(strings.Join(lines, "\n")), transfer.Options{})
	if err != nil {
		t.Fatalf("import: %v", err)
	}
	return report
}

// wantReport verifies the report of an import, except for what it says about prospects.
func wantReport(t tb, got transfer.Report, lines, added, same int) {
	t.Helper()
	got.LinkedProspects, got.UnlinkedProspects = 0, 0
	if want := (transfer.Report{Lines: lines, Added: added, Same: same}); !reflect.DeepEqual(got, want) {
		t.Errorf("report %+v, want %+v", got, want)
	}
}

// wantStopped verifies where an import stopped, and the members with faults.
func wantStopped(t tb, err error, line, resumeFrom int, members ...string) {
	t.Helper()
	stopped, ok := errors.AsType[*transfer.LineError](err)
	if !ok {
		t.Fatalf("error %v, want one that names line %d", err, line)
	}
	if stopped.Line != line || stopped.ResumeFrom != resumeFrom {
		t.Errorf("stopped at line %d, resume from %d, want %d and %d: %v",
			stopped.Line, stopped.ResumeFrom, line, resumeFrom, err)
	}
	var got []string
	for _, f := range stopped.Faults {
		got = append(got, f.Where)
		if f.Detail == "" {
			t.Errorf("the fault of %q has no detail", f.Where)
		}
	}
	if strings.Join(got, " ") != strings.Join(members, " ") {
		t.Errorf("faults of %q, want %q: %v", got, members, err)
	}
}

// draft creates a draft of the place's tenant, as the external API does.
func (p *place) draft(t tb, s atrium.Submission) *atrium.Draft {
	t.Helper()
	if s.Source == "" {
		s.Source, s.Type = "crm", atrium.DefaultType
	}
	if s.Payload == nil {
		s.Payload = []byte("{}")
	}
	d, err := canonical.Draft(p.tenant, s)
	if err != nil {
		t.Fatalf("create a draft: %v", err)
	}
	d.ID = atrium.NewID[atrium.EntryID]()
	return d
}
