package config

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// A Rate allows Count requests per Window, in a burst or spread over time. The zero Rate is
// unlimited. Its text form is 100/s, 6000/m, 1000/h, or with any duration, such as 500/10s;
// 0 is unlimited.
type Rate struct {
	Count  int
	Window time.Duration
}

// The bounds of a Rate.
const (
	maxRateCount  = 1_000_000
	maxRateWindow = 24 * time.Hour
)

var windows = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// String returns the text form of the rate.
func (r *Rate) String() string {
	if r == nil || r.Count == 0 {
		return "0"
	}
	for unit, window := range windows {
		if window == r.Window {
			return strconv.Itoa(r.Count) + "/" + unit
		}
	}
	return strconv.Itoa(r.Count) + "/" + r.Window.String()
}

// Set parses a rate. It implements pflag.Value.
func (r *Rate) Set(text string) error {
	if text == "0" {
		*r = Rate{}
		return nil
	}
	count, unit, _ := strings.Cut(text, "/")
	window, short := windows[unit]
	if !short {
		var err error
		if window, err = time.ParseDuration(unit); err != nil {
			return errRate
		}
	}
	n, err := strconv.ParseUint(count, 10, 31)
	if err != nil || n == 0 || n > maxRateCount || window < time.Second || window > maxRateWindow || window%time.Second != 0 {
		return errRate
	}
	*r = Rate{int(n), window}
	return nil
}

var errRate = errors.New("must be a rate such as 100/s, 6000/m or 500/10s: 1 to 1000000 requests, whole seconds up to 24h; or 0")

// Type implements pflag.Value.
func (*Rate) Type() string { return "rate" }
