package postgres

import (
	"slices"
	"strings"
)

// A connectError is a failed connection, on one line. pgx reports each attempt on a line of its own, and there
// are several for one address: with TLS and without.
type connectError struct{ error }

func (e connectError) Unwrap() error { return e.error }

func (e connectError) Error() string {
	summary, rest, several := strings.Cut(e.error.Error(), "\n")
	if !several {
		return summary
	}
	var causes []string
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		if !slices.ContainsFunc(causes, func(c string) bool { return strings.HasSuffix(c, line) }) {
			causes = append(causes, line)
		}
	}
	return summary + " " + strings.Join(causes, "; ")
}
