package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A Refusal is the limit that refused a connection or request.
type Refusal string

// The limits.
const (
	ByConnections       Refusal = "connections"
	ByClientConnections Refusal = "client_connections"
	ByHTTP2             Refusal = "http2"
	ByKeyRate           Refusal = "key_rate"
	ByTenantRate        Refusal = "tenant_rate"
	ByAnonymousRate     Refusal = "anonymous_rate"
	ByAuthFailures      Refusal = "auth_failures"
	ByOverload          Refusal = "overload"
	ByBodyMemory        Refusal = "body_memory"
	ByStreams           Refusal = "streams"
)

var refusals = []Refusal{
	ByConnections, ByClientConnections, ByHTTP2, ByKeyRate, ByTenantRate, ByAnonymousRate,
	ByAuthFailures, ByOverload, ByBodyMemory, ByStreams,
}

// refusalInterval is the minimum time between two warnings about one limit.
const refusalInterval = 10 * time.Second

// A RefusalLog warns about refused connections and requests: once per refusalInterval and
// limit, with the number of refusals. It is safe for concurrent use.
type RefusalLog struct {
	log *slog.Logger

	mu       sync.Mutex
	limiters map[Refusal]*logLimiter // guarded by mu
}

// NewRefusalLog returns a RefusalLog that writes to log.
func NewRefusalLog(log *slog.Logger) *RefusalLog {
	return &RefusalLog{log: log, limiters: map[Refusal]*logLimiter{}}
}

// Connection counts a refused connection.
func (l *RefusalLog) Connection(by Refusal) { l.note(context.Background(), by, nil) }

// note counts a refusal. If it is logged, details returns more attributes.
func (l *RefusalLog) note(ctx context.Context, by Refusal, details func() []slog.Attr) {
	l.mu.Lock()
	limiter := l.limiters[by]
	if limiter == nil {
		limiter = &logLimiter{}
		l.limiters[by] = limiter
	}
	l.mu.Unlock()
	count, ok := limiter.event(refusalInterval)
	if !ok {
		return
	}
	attrs := []slog.Attr{slog.String("limit", string(by)), slog.Int("count", count)}
	if details != nil {
		attrs = append(attrs, details()...)
	}
	l.log.LogAttrs(ctx, slog.LevelWarn, "refused by a limit", attrs...)
}

// Request counts a request if a limit refused it.
func (l *RefusalLog) Request(ctx context.Context, x *Exchange) {
	if x.Refused == "" {
		return
	}
	l.note(ctx, x.Refused, func() []slog.Attr {
		return []slog.Attr{
			slog.String("requestId", x.RequestID), slog.String("route", x.Route),
			slog.String("tenantId", string(x.TenantID)), slog.String("keyId", string(x.KeyID)),
			slog.String("client", x.client()),
		}
	})
}
