package config

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// A Rate is how much may happen in a time, all of it at once and then evenly; the zero
// Rate is no limit. It is written as 100/s, 6000/m, 1000/h or with a time such as
// 500/10s, and 0 for none.
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

// String returns the rate as Set reads it.
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

// Set reads a rate. It makes *Rate a value for a flag.
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

var errRate = errors.New("not a rate such as 100/s, 6000/m or 500/10s, of 1 to 1000000 in whole seconds up to 24h, or 0")

// Type names the kind of value in a flag's help.
func (*Rate) Type() string { return "rate" }
