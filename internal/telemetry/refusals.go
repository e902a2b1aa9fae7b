package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A Refusal is a limit that has turned something away.
type Refusal string

// The limits that do.
const (
	ByConnections       Refusal = "connections"
	ByClientConnections Refusal = "client_connections"
	ByHTTP2             Refusal = "http2"
	ByKeyRate           Refusal = "key_rate"
	ByTenantRate        Refusal = "tenant_rate"
	ByAuthFailures      Refusal = "auth_failures"
	ByOverload          Refusal = "overload"
	ByBodyMemory        Refusal = "body_memory"
	ByStreams           Refusal = "streams"
)

var refusals = []Refusal{ByConnections, ByClientConnections, ByHTTP2, ByKeyRate, ByTenantRate, ByAuthFailures, ByOverload, ByBodyMemory, ByStreams}

// refusalPause is how long nothing is logged of a limit after a line on it.
const refusalPause = 10 * time.Second

// A RefusalLog warns that limits turn things away, of each once in refusalPause at most,
// with how often since the line before. It is safe for concurrent use.
type RefusalLog struct {
	log *slog.Logger

	mu  sync.Mutex
	all map[Refusal]*seldom // guarded by mu
}

// NewRefusalLog returns a RefusalLog that writes to log.
func NewRefusalLog(log *slog.Logger) *RefusalLog {
	return &RefusalLog{log: log, all: map[Refusal]*seldom{}}
}

// Connection notes that a limit has turned a connection away.
func (l *RefusalLog) Connection(by Refusal) { l.note(context.Background(), by, nil) }

// note calls whose for what more there is to say of a refusal if it is logged.
func (l *RefusalLog) note(ctx context.Context, by Refusal, whose func() []slog.Attr) {
	l.mu.Lock()
	s := l.all[by]
	if s == nil {
		s = &seldom{}
		l.all[by] = s
	}
	l.mu.Unlock()
	count, now := s.tell(refusalPause)
	if !now {
		return
	}
	attrs := []slog.Attr{slog.String("limit", string(by)), slog.Int("count", count)}
	if whose != nil {
		attrs = append(attrs, whose()...)
	}
	l.log.LogAttrs(ctx, slog.LevelWarn, "a limit refuses", attrs...)
}

// Request notes a request that a limit has turned away, if one has.
func (l *RefusalLog) Request(ctx context.Context, x *Exchange) {
	if x.Refused == "" {
		return
	}
	l.note(ctx, x.Refused, func() []slog.Attr {
		return []slog.Attr{
			slog.String("requestId", x.RequestID), slog.String("route", x.Route),
			slog.String("tenantId", string(x.TenantID)), slog.String("keyId", string(x.KeyID)), slog.String("client", x.client()),
		}
	})
}
