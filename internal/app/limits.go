package app

import (
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/config"
	"atrium/internal/limit"
	"atrium/internal/rest"
	"atrium/internal/store"
	"atrium/internal/telemetry"
)

// countedAtOnce is the number of keys, and of client addresses, whose rates are tracked: a few
// megabytes each.
const countedAtOnce = 50_000

// Heavy work occupies a processor while it holds a slot of Limits.Heavy. There are as many
// slots as processors. One tenant gets half of them; the others are for small requests and
// other tenants.
const (
	mediumReads     = 3                // per processor: reads of more than a few rows that are not heavy work; half of them of one tenant
	maxHeavyWaiting = 1024             // of one tenant; each also counts as in flight
	heavyTimeout    = 20 * time.Second // as long as a request waits for storage
	minPausing      = 4                // requests of one tenant that have begun heavy work and let others use the processor
	tenantsPausing  = 16               // with as many of these requests as one may have
)

// A document is streamed from a snapshot of the database, which occupies a connection.
const (
	maxDocuments        = 32
	maxDocumentsWaiting = 64 // of one tenant
)

// snapshots returns the limit of concurrent documents: on PostgreSQL, a quarter of the
// connections.
func snapshots(c config.Config, database store.Traits) int {
	if database.Remote {
		return min(maxDocuments, max(1, c.DatabaseConnections/4))
	}
	return maxDocuments
}

// Changes wait for each other: on SQLite for the only writer, on PostgreSQL for the head of
// the tenant's audit log.
const (
	maxChanges      = 64 // as many as share a commit of SQLite
	maxLargeChanges = 2
)

// changes returns the limit of concurrent changes: on PostgreSQL, half of the connections.
func changes(c config.Config, database store.Traits) int {
	if database.Remote {
		return max(1, c.DatabaseConnections/2)
	}
	return maxChanges
}

// documentsOfTenant returns the limit of concurrent documents of a tenant: its clients may
// read slowly.
func documentsOfTenant(database store.Traits) int {
	if database.Remote {
		return 1
	}
	return 2
}

// waitingPerConnection is the number of requests in flight for each PostgreSQL connection. Together with
// those for sites, half as many, they must fit into the queue of queries (docs/limits.md), or one tenant
// could fill it.
const waitingPerConnection = 32

// inFlight returns the limit of requests in flight.
func inFlight(c config.Config, database store.Traits) int {
	if database.Remote && c.MaxRequests > 0 {
		return min(c.MaxRequests, waitingPerConnection*c.DatabaseConnections)
	}
	return c.MaxRequests
}

// ofSites returns the limit of concurrent requests without a key, and of those with a key for sites.
func ofSites(c config.Config, database store.Traits) limit.SemaphoreBounds {
	slots := (inFlight(c, database) + 3) / 4
	return limit.SemaphoreBounds{Slots: slots, Waiting: waiting(slots, c.RequestWait), Timeout: c.RequestWait}
}

// newHTTP2Limits returns the limits that all HTTP/2 connections share: twice as many streams
// as requests in flight, half of them for one client.
func newHTTP2Limits(c config.Config, refused func(telemetry.Refusal), paused func(time.Duration)) http2Limits {
	return http2Limits{
		streams: limit.NewSemaphore[netip.Addr](limit.SemaphoreBounds{Slots: 2 * c.MaxRequests}),
		unread:  limit.NewQuota[netip.Addr](int64(c.BodyMemory) / 4),
		most:    c.HTTP2Streams,
		refused: func() { refused(telemetry.ByHTTP2) },
		paused:  paused,
	}
}

// waiting returns the limit of a queue for a number of slots; 0 without a timeout.
func waiting(slots int, timeout time.Duration) int {
	if timeout == 0 {
		return 0
	}
	return slots
}

// limits are the limits of clients, from the settings.
type limits struct {
	bounds   limit.Bounds
	failures *auth.Failures
	rest     rest.Limits
	http2    http2Limits
}

func newLimits(c config.Config, database store.Traits, refused func(telemetry.Refusal), paused func(time.Duration)) (l limits, err error) {
	networks, err := config.Networks(c.TrustedProxies)
	if err != nil {
		return l, fmt.Errorf("trusted-proxies: %w", err)
	}
	l.bounds = limit.Bounds{All: c.MaxConnections, Client: c.MaxClientConnections, Proxies: networks, TLS: c.TLSCert != "", Pace: limit.NewPace(clientHeadersRate, clientHeadersBurst), Spent: maxFrame, Refused: func(ofClient bool) {
		if ofClient {
			refused(telemetry.ByClientConnections)
		} else {
			refused(telemetry.ByConnections)
		}
	}}
	l.http2 = newHTTP2Limits(c, refused, paused)
	pausing := max(minPausing, runtime.GOMAXPROCS(0)) // of a tenant
	l.failures = limit.NewRates[netip.Addr](c.AuthFailures.Count, c.AuthFailures.Window, countedAtOnce)
	l.rest = rest.Limits{
		URL: int(c.MaxURL), HeaderFields: c.MaxHeaderFields, QueryParameters: c.MaxQueryParameters, Proxies: networks,
		Rates: rest.NewRates(
			limit.NewRates[atrium.KeyID](c.KeyRate.Count, c.KeyRate.Window, countedAtOnce),
			limit.NewRates[atrium.TenantID](c.TenantRate.Count, c.TenantRate.Window, countedAtOnce),
		),
		Bodies:           limit.NewQuota[atrium.TenantID](int64(c.BodyMemory)).Guarantee(int64(c.MaxBody), int64(c.BodyMemory)/4),
		UnverifiedBodies: limit.NewQuota[netip.Addr](int64(c.BodyMemory)/2).Guarantee(int64(c.MaxBody), int64(c.BodyMemory)/4),
		InFlight: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{
			Slots: inFlight(c, database), Waiting: waiting(c.MaxRequests, c.RequestWait), Timeout: c.RequestWait,
		}),
		Anonymous:     limit.NewSemaphore[atrium.TenantID](ofSites(c, database)),
		Sites:         limit.NewSemaphore[atrium.TenantID](ofSites(c, database)),
		AnonymousRate: limit.NewRates[netip.Addr](c.AnonymousRate.Count, c.AnonymousRate.Window, countedAtOnce),
		Changes: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{
			Slots: changes(c, database), Waiting: waiting(c.MaxRequests, c.RequestWait), Timeout: heavyTimeout,
		}),
		LargeChanges: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{
			Slots: maxLargeChanges, Waiting: maxHeavyWaiting, Timeout: heavyTimeout,
		}),
		Documents: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{
			Slots: snapshots(c, database), Each: documentsOfTenant(database), Waiting: maxDocumentsWaiting, Timeout: heavyTimeout,
		}),
		Heavy: limit.NewGroupedSemaphore(limit.SemaphoreBounds{
			Slots: runtime.GOMAXPROCS(0), Waiting: maxHeavyWaiting, Timeout: heavyTimeout,
		}, rest.HeavyGroup),
		MediumReads: limit.NewGroupedSemaphore(limit.SemaphoreBounds{
			Slots: mediumReads * runtime.GOMAXPROCS(0), Waiting: maxHeavyWaiting, Timeout: heavyTimeout,
		}, rest.HeavyGroup),
		Pausing: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{
			Slots: tenantsPausing * pausing, Each: pausing, Waiting: maxHeavyWaiting, Timeout: heavyTimeout,
		}),
	}
	return l, nil
}
