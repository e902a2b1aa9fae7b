package app

import (
	"fmt"
	"net/netip"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/config"
	"atrium/internal/limit"
	"atrium/internal/rest"
	"atrium/internal/telemetry"
)

// How many are remembered at a time of those whose requests, or failures, are counted:
// some megabytes of each, whoever comes.
const countedAtOnce = 50_000

// limits are what holds clients back, as the settings have it.
type limits struct {
	bounds   limit.Bounds
	failures *auth.Failures
	rest     rest.Limits
}

func newLimits(c config.Config, refused func(telemetry.Refusal)) (l limits, err error) {
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
	l.failures = limit.NewRates[netip.Addr](c.AuthFailures.Count, c.AuthFailures.Window, countedAtOnce)
	l.rest = rest.Limits{
		URL: int(c.MaxURL), HeaderFields: c.MaxHeaderFields, QueryParameters: c.MaxQueryParameters, Proxies: networks,
		Rates: rest.NewRates(
			limit.NewRates[atrium.KeyID](c.KeyRate.Count, c.KeyRate.Window, countedAtOnce),
			limit.NewRates[atrium.TenantID](c.TenantRate.Count, c.TenantRate.Window, countedAtOnce),
		),
		Bodies: limit.NewPool[atrium.TenantID](int64(c.BodyMemory)),
		Work:   limit.NewGate(c.MaxRequests, c.RequestWait),
	}
	return l, nil
}
