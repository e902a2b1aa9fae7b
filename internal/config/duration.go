package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Duration is the value of a flag or setting. In addition to the units of Go, it accepts days of 24 hours as
// the only unit: 2d.
type Duration time.Duration

// String returns the duration in the form of time.Duration.
func (d *Duration) String() string { return time.Duration(*d).String() }

// Type implements pflag.Value.
func (d *Duration) Type() string { return "duration" }

// Set parses a duration. It implements pflag.Value.
func (d *Duration) Set(text string) error {
	parsed, err := ParseDuration(text)
	*d = Duration(parsed)
	return err
}

const day = 24 * time.Hour

// maxDays is the largest number of days in a time.Duration.
const maxDays = int64(1<<63-1) / int64(day)

// ParseDuration parses a duration such as 90s, 36h or 7d.
func ParseDuration(text string) (time.Duration, error) {
	if number, ok := strings.CutSuffix(text, "d"); ok {
		days, err := strconv.ParseInt(number, 10, 64)
		if err != nil || days < -maxDays || days > maxDays {
			return 0, fmt.Errorf("invalid duration %q: a number of days must be an integer, such as 2d", text)
		}
		return time.Duration(days) * day, nil
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("must be a number and a unit, such as 90s, 36h or 7d")
	}
	return parsed, nil
}
