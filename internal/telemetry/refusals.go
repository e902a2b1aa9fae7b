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
	ByKeyRate           Refusal = "key_rate"
	ByTenantRate        Refusal = "tenant_rate"
	ByAuthFailures      Refusal = "auth_failures"
	ByOverload          Refusal = "overload"
	ByBodyMemory        Refusal = "body_memory"
)

var refusals = []Refusal{ByConnections, ByClientConnections, ByKeyRate, ByTenantRate, ByAuthFailures, ByOverload, ByBodyMemory}

// refusalPause is how long nothing is logged of a limit after a line on it.
const refusalPause = 10 * time.Second

// A RefusalLog warns that limits turn things away, of each once in refusalPause at most,
// with how often since the line before. It is safe for concurrent use.
type RefusalLog struct {
	log *slog.Logger

	mu    sync.Mutex
	since map[Refusal]*silence // guarded by mu
}

type silence struct {
	began time.Time
	count int
}

// NewRefusalLog returns a RefusalLog that writes to log.
func NewRefusalLog(log *slog.Logger) *RefusalLog {
	return &RefusalLog{log: log, since: map[Refusal]*silence{}}
}

// Connection notes that a limit has turned a connection away.
func (l *RefusalLog) Connection(by Refusal) { l.note(context.Background(), by) }

func (l *RefusalLog) note(ctx context.Context, by Refusal, whose ...slog.Attr) {
	l.mu.Lock()
	s := l.since[by]
	if s == nil {
		s = &silence{}
		l.since[by] = s
	}
	s.count++
	count := s.count
	loud := time.Since(s.began) >= refusalPause
	if loud {
		*s = silence{began: time.Now()}
	}
	l.mu.Unlock()
	if loud {
		l.log.LogAttrs(ctx, slog.LevelWarn, "a limit refuses", append([]slog.Attr{slog.String("limit", string(by)), slog.Int("count", count)}, whose...)...)
	}
}

// Request notes a request that a limit has turned away, if one has.
func (l *RefusalLog) Request(x *Exchange) {
	if x.Refused != "" {
		l.note(x.Context, x.Refused, slog.String("requestId", x.RequestID), slog.String("route", x.Route),
			slog.String("tenantId", string(x.TenantID)), slog.String("keyId", string(x.KeyID)), slog.String("client", x.client()))
	}
}
