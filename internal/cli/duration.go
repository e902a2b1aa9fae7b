package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/pflag"

	"atrium/internal/config"
)

// addDuration adds a flag for a duration, which flags.GetDuration returns.
func addDuration(flags *pflag.FlagSet, name string, defaultValue time.Duration, usage string) {
	d := config.Duration(defaultValue)
	flags.Var(&d, name, usage)
	if defaultValue == 0 {
		flags.Lookup(name).DefValue = "" // help shows any other one
	}
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
