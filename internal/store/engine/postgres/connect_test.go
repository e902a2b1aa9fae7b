package postgres

import (
	"errors"
	"testing"
)

func TestEachCauseOfAFailedConnectionIsReportedOnce(t *testing.T) {
	for text, want := range map[string]string{
		"failed to connect to `user=a`: one (one): refused":                           "failed to connect to `user=a`: one (one): refused",
		"failed to connect to `user=a`:\n\tone (one): refused\n\tone (one): refused":  "failed to connect to `user=a`: one (one): refused",
		"failed to connect to `user=a`:\n\tone (one): refused\n\ttwo (two): no route": "failed to connect to `user=a`: one (one): refused; two (two): no route",
		"failed to connect to `user=a`:\n\tresolving: no such host\n\tno such host":   "failed to connect to `user=a`: resolving: no such host",
	} {
		cause := errors.New(text)
		if err := (connectError{cause}); err.Error() != want || !errors.Is(err, cause) {
			t.Errorf("%q, want %q", err, want)
		}
	}
}
