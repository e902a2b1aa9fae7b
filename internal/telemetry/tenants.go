package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"atrium"
)

// Bounds of the metrics by tenant: at most 1,101 series of entries. Tenants and sources beyond them
// share the label "other".
const (
	maxTenants = 100
	maxSources = 10 // of one tenant
)

// electionInterval is the time between two elections of a ranking.
const electionInterval = time.Hour

// byTenant counts the events of tenants. It implements prometheus.Collector and is safe for concurrent
// use.
type byTenant struct {
	desc    *prometheus.Desc
	sourced bool // also by source
	now     func() time.Time

	mu           sync.Mutex
	tenants      *ranking  // guarded by mu; the parts are sources, if sourced
	lastElection time.Time // guarded by mu
}

// newByTenant returns a counter by tenant and, if sourced, by source.
func newByTenant(name, help string, sourced bool) *byTenant {
	labels := []string{"tenant"}
	if sourced {
		labels = append(labels, "source")
	}
	return &byTenant{
		desc: prometheus.NewDesc(name, help, labels, nil), sourced: sourced, now: time.Now,
		tenants: newRanking(maxTenants), lastElection: time.Now(),
	}
}

// Describe implements prometheus.Collector.
func (b *byTenant) Describe(c chan<- *prometheus.Desc) { c <- b.desc }

// Collect implements prometheus.Collector.
func (b *byTenant) Collect(c chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	send := func(total uint64, labels ...string) {
		if total > 0 {
			c <- prometheus.MustNewConstMetric(b.desc, prometheus.CounterValue, float64(total), labels...)
		}
	}
	if !b.sourced {
		send(b.tenants.others, otherKey)
		for tenant, t := range b.tenants.named {
			send(t.total, tenant)
		}
		return
	}
	send(b.tenants.others, otherKey, otherKey)
	for tenant, t := range b.tenants.named {
		if t.parts == nil { // named in the last election
			continue
		}
		send(t.parts.others, tenant, otherKey)
		for source, s := range t.parts.named {
			send(s.total, tenant, source)
		}
	}
}

// refused counts an event of a tenant.
func (b *byTenant) refused(tenant atrium.TenantID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.elect()
	b.tenants.add(string(tenant))
}

// stored counts the entries that a commit has stored. Sources are texts from clients: they are made
// printable, as metrics are also read on terminals.
func (b *byTenant) stored(drafts []*atrium.Draft, outcomes []atrium.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.elect()
	for i, d := range drafts {
		if outcomes[i].Err != nil || outcomes[i].Replayed {
			continue
		}
		t := b.tenants.add(string(d.TenantID))
		if t == nil {
			continue
		}
		if t.parts == nil {
			t.parts = newRanking(maxSources)
		}
		t.parts.add(atrium.Printable(d.Source))
	}
}

// elect holds an election if one is due.
func (b *byTenant) elect() {
	if now := b.now(); now.Sub(b.lastElection) >= electionInterval {
		b.lastElection = now
		b.tenants.elect()
	}
}
