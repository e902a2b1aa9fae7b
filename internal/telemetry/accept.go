package telemetry

import (
	"log/slog"
	"time"
)

// acceptErrorInterval is the minimum time between two warnings about accept errors.
const acceptErrorInterval = time.Minute

// AcceptErrorLog returns a function that warns about an error of Accept at most once in
// acceptErrorInterval, with the number of errors since the last warning. It is safe for
// concurrent use.
func AcceptErrorLog(log *slog.Logger) func(error) {
	var limiter logLimiter
	return func(err error) {
		if count, ok := limiter.event(acceptErrorInterval); ok {
			log.Warn("cannot accept connections, retrying", "count", count, "error", err)
		}
	}
}
