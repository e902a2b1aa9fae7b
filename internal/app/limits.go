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

// How many are remembered at a time of those whose requests, or failures, are counted:
// some megabytes of each, whoever comes.
const countedAtOnce = 50_000

// Heavy work takes a processor for as long as it holds a place of Limits.Heavy. There are as
// many places as processors, of which a tenant alone gets half: the other half is there
// for small requests, and for other tenants.
const (
	maxHeavyWaiting = 1024             // of one tenant; each holds a place in flight, too
	heavyTimeout    = 20 * time.Second // as long as a request waits for storage
)

// A document, which is sent from a snapshot of the database, keeps a connection to it.
const (
	maxDocuments        = 32
	maxDocumentsWaiting = 64 // of one tenant
)

// snapshots returns how many documents are sent at once: on a server, as many as leave it
// three connections in four.
func snapshots(c config.Config, database store.Traits) int {
	if database.Remote {
		return min(maxDocuments, max(1, c.DatabaseConnections/4))
	}
	return maxDocuments
}

// Changes wait for each other: on SQLite for its one writer, on a server for the head of their
// tenant's audit log. What waits there is served in the order of arrival, so no tenant may
// have much waiting.
const (
	maxChanges      = 64 // as many as share a commit of SQLite
	maxLargeChanges = 2
)

// changes returns how many changes are in progress at once: on a server, as many as leave
// it half of its connections.
func changes(c config.Config, database store.Traits) int {
	if database.Remote {
		return max(1, c.DatabaseConnections/2)
	}
	return maxChanges
}

// documentsOfTenant returns how many of them one tenant has: their clients may read slowly.
func documentsOfTenant(database store.Traits) int {
	if database.Remote {
		return 1
	}
	return 2
}

// waitingPerConnection is how many queries wait for each connection to a server
// (docs/limits.md). Requests that are in flight must find room there, or those of one tenant
// would keep those of others out.
const waitingPerConnection = 32

// inFlight returns how many requests are in flight at once.
func inFlight(c config.Config, database store.Traits) int {
	if database.Remote && c.MaxRequests > 0 {
		return min(c.MaxRequests, waitingPerConnection*c.DatabaseConnections)
	}
	return c.MaxRequests
}

// newHTTP2Limits returns what all HTTP/2 connections share. There are as many streams as
// requests of one tenant and of all others may be in flight and wait, and one client has half
// of them.
func newHTTP2Limits(c config.Config, refused func(telemetry.Refusal)) http2Limits {
	return http2Limits{
		streams: limit.NewSemaphore[netip.Addr](limit.SemaphoreBounds{Places: 2 * c.MaxRequests}),
		unread:  limit.NewQuota[netip.Addr](int64(c.BodyMemory) / 4),
		most:    c.HTTP2Streams,
		refused: func() { refused(telemetry.ByHTTP2) },
	}
}

// waiting returns how many may wait, for a time, for one of so many places.
func waiting(places int, timeout time.Duration) int {
	if timeout == 0 {
		return 0
	}
	return places
}

// limits are what holds clients back, as the settings have it.
type limits struct {
	bounds   limit.Bounds
	failures *auth.Failures
	rest     rest.Limits
	http2    http2Limits
}

func newLimits(c config.Config, database store.Traits, refused func(telemetry.Refusal)) (l limits, err error) {
	networks, err := config.Networks(c.TrustedProxies)
	if err != nil {
		return l, fmt.Errorf("trusted-proxies: %w", err)
	}
	l.bounds = limit.Bounds{All: c.MaxConnections, Client: c.MaxClientConnections, Proxies: networks, Refused: func(ofClient bool) {
		if ofClient {
			refused(telemetry.ByClientConnections)
		} else {
			refused(telemetry.ByConnections)
		}
	}}
	l.http2 = newHTTP2Limits(c, refused)
	l.failures = limit.NewRates[netip.Addr](c.AuthFailures.Count, c.AuthFailures.Window, countedAtOnce)
	l.rest = rest.Limits{
		URL: int(c.MaxURL), HeaderFields: c.MaxHeaderFields, QueryParameters: c.MaxQueryParameters, Proxies: networks,
		Rates: rest.NewRates(
			limit.NewRates[atrium.KeyID](c.KeyRate.Count, c.KeyRate.Window, countedAtOnce),
			limit.NewRates[atrium.TenantID](c.TenantRate.Count, c.TenantRate.Window, countedAtOnce),
		),
		Bodies: limit.NewQuota[atrium.TenantID](int64(c.BodyMemory)).Guarantee(int64(c.MaxBody), int64(c.BodyMemory)/4),
		InFlight: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{
			Places: inFlight(c, database), Waiting: waiting(c.MaxRequests, c.RequestWait), Timeout: c.RequestWait,
		}),
		Changes: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{
			Places: changes(c, database), Waiting: waiting(c.MaxRequests, c.RequestWait), Timeout: heavyTimeout,
		}),
		LargeChanges: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{
			Places: maxLargeChanges, Waiting: maxHeavyWaiting, Timeout: heavyTimeout,
		}),
		Documents: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{
			Places: snapshots(c, database), Each: documentsOfTenant(database), Waiting: maxDocumentsWaiting, Timeout: heavyTimeout,
		}),
		Heavy: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{
			Places: runtime.GOMAXPROCS(0), Waiting: maxHeavyWaiting, Timeout: heavyTimeout,
		}),
	}
	return l, nil
}
