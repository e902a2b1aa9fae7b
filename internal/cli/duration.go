package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/pflag"
)

// A duration is the value of a flag. In addition to the units of Go, it accepts days of 24 hours as
// the only unit: 2d.
type duration time.Duration

// addDuration adds a flag for a duration, which flags.GetDuration returns.
func addDuration(flags *pflag.FlagSet, name string, defaultValue time.Duration, usage string) {
	d := duration(defaultValue)
	flags.Var(&d, name, usage)
	if defaultValue == 0 {
		flags.Lookup(name).DefValue = "" // help shows any other one
	}
}

// String returns the duration in the form of time.Duration.
func (d *duration) String() string { return time.Duration(*d).String() }

// Type returns the name of the type in help.
func (d *duration) Type() string { return "duration" }

// Set sets the duration.
func (d *duration) Set(text string) error {
	parsed, err := parseDuration(text)
	*d = duration(parsed)
	return err
}

const day = 24 * time.Hour

// maxDays is the largest number of days in a time.Duration.
const maxDays = int64(1<<63-1) / int64(day)

func parseDuration(text string) (time.Duration, error) {
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

// formatDuration formats a duration without units that are zero at its end: 168h.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// formatSeconds formats a number of seconds as a duration.
func formatSeconds(v jsontext.Value) (string, error) {
	text := formatValue(v)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > int64(1<<63-1)/int64(time.Second) {
		return text, nil //nolint:nilerr // it is printed as the server sent it
	}
	return formatDuration(time.Duration(n) * time.Second), nil
}
