package telemetry

import (
	"log/slog"
	"time"
)

// acceptErrorPause is how long after a warning about accept errors the next one is logged.
const acceptErrorPause = time.Minute

// AcceptErrorLog returns a function that warns about an error of Accept at most once in
// acceptErrorPause, with the number of errors since the last warning. It is safe for
// concurrent use.
func AcceptErrorLog(log *slog.Logger) func(error) {
	var s seldom
	return func(err error) {
		if count, now := s.tell(acceptErrorPause); now {
			log.Warn("cannot accept connections, retrying", "count", count, "error", err)
		}
	}
}
