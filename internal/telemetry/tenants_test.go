package telemetry

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"atrium"
)

func tenantID(n int) atrium.TenantID { return atrium.TenantID(fmt.Sprintf("tenant_%026d", n)) }

// store reports a commit with one entry of each source.
func store(m *Metrics, tenant atrium.TenantID, sources ...string) {
	drafts := make([]*atrium.Draft, len(sources))
	for i, source := range sources {
		drafts[i] = &atrium.Draft{TenantID: tenant, Submission: atrium.Submission{Source: source}}
	}
	m.Stored(drafts, make([]atrium.Outcome, len(sources)))
}

func wantSeries(t *testing.T, m *Metrics, series ...string) {
	t.Helper()
	text := scrape(t, m)
	for _, s := range series {
		if !strings.Contains(text, "\n"+s+"\n") {
			t.Errorf("there is no %s", s)
		}
	}
}

func TestOnlyStoredEntriesAreCounted(t *testing.T) {
	m := NewMetrics("v1")
	var drafts []*atrium.Draft
	for range 4 {
		drafts = append(drafts, &atrium.Draft{TenantID: tenantID(1), Submission: atrium.Submission{Source: "crm"}})
	}
	m.Stored(drafts, []atrium.Outcome{{}, {Err: errors.New("rejected")}, {Receipt: atrium.Receipt{Replayed: true}}, {}})
	m.Request(&Exchange{TenantID: tenantID(1), Status: 429, Refused: ByKeyRate})
	m.Request(&Exchange{TenantID: tenantID(1), Status: 201})
	m.Request(&Exchange{Status: 429, Refused: ByAuthFailures}) // of no tenant
	m.Rejected(tenantID(1))
	wantSeries(t, m, `atrium_ingest_entries_total{source="crm",tenant="`+string(tenantID(1))+`"} 2`,
		`atrium_tenant_refused_total{tenant="`+string(tenantID(1))+`"} 2`)
}

// Clients choose sources, and operators create tenants without a limit.
func TestTenantsAndSourcesCreateABoundedNumberOfSeries(t *testing.T) {
	m := NewMetrics("v1")
	for tenant := range 2 * maxTenants {
		for source := range 3 * maxSources {
			store(m, tenantID(tenant), fmt.Sprint("source ", source), "other")
		}
		m.Rejected(tenantID(tenant))
	}
	text := scrape(t, m)
	if n := strings.Count(text, "\natrium_ingest_entries_total{"); n != maxTenants*(maxSources+1)+1 {
		t.Errorf("%d series of entries", n)
	}
	if n := strings.Count(text, "\natrium_tenant_refused_total{"); n != maxTenants+1 {
		t.Errorf("%d series of refusals", n)
	}
	wantSeries(t, m, fmt.Sprintf(`atrium_ingest_entries_total{source="other",tenant="other"} %d`, maxTenants*6*maxSources),
		fmt.Sprintf(`atrium_ingest_entries_total{source="other",tenant="%s"} %d`, tenantID(0), 5*maxSources),
		fmt.Sprintf(`atrium_tenant_refused_total{tenant="other"} %d`, maxTenants))
}

func TestSourcesCannotControlATerminal(t *testing.T) {
	m := NewMetrics("v1")
	store(m, tenantID(1), "a\x1b[2Jb", "a\u202eb", "a\x00b", "x\"y\\z\n")
	wantSeries(t, m, `atrium_ingest_entries_total{source="a`+"\uFFFD"+`[2Jb",tenant="`+string(tenantID(1))+`"} 1`,
		`atrium_ingest_entries_total{source="a`+"\uFFFD"+`b",tenant="`+string(tenantID(1))+`"} 2`,
		`atrium_ingest_entries_total{source="x\"y\\z`+"\uFFFD"+`",tenant="`+string(tenantID(1))+`"} 1`)
}

func TestBusyTenantIsNamedWithinAnHour(t *testing.T) {
	m := NewMetrics("v1")
	now := time.Now()
	m.entries.now = func() time.Time { return now }
	for tenant := range maxTenants {
		store(m, tenantID(tenant), "crm")
	}
	for range 100 {
		store(m, tenantID(maxTenants), "crm")
	}
	wantSeries(t, m, `atrium_ingest_entries_total{source="other",tenant="other"} 100`)
	now = now.Add(electionInterval)
	store(m, tenantID(maxTenants), "crm", "erp")
	wantSeries(t, m, `atrium_ingest_entries_total{source="other",tenant="other"} 100`,
		`atrium_ingest_entries_total{source="crm",tenant="`+string(tenantID(maxTenants))+`"} 1`,
		`atrium_ingest_entries_total{source="erp",tenant="`+string(tenantID(maxTenants))+`"} 1`)
}

// The cost of a commit with 256 entries of one tenant, and the worst case: none has a name.
func BenchmarkMetricsStored(b *testing.B) {
	for _, tenants := range []int{1, 256} {
		b.Run(fmt.Sprint(tenants, " tenants"), func(b *testing.B) {
			m := NewMetrics("v1")
			for i := range maxTenants {
				store(m, tenantID(1000+i), "crm")
			}
			drafts := make([]*atrium.Draft, 256)
			for i := range drafts {
				drafts[i] = &atrium.Draft{TenantID: tenantID(1000 - tenants/256*1000 + i%tenants), Submission: atrium.Submission{Source: "crm"}}
			}
			outcomes := make([]atrium.Outcome, len(drafts))
			b.ReportAllocs()
			for b.Loop() {
				m.Stored(drafts, outcomes)
			}
		})
	}
}
