package cli

import (
	"context"
	"errors"
	"testing"

	"atrium"
)

func TestCopyErrorsSayHowToGoOn(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	full, refused := errors.New("database or disk is full"), errors.New("connection refused")
	for _, c := range []struct {
		ctx    context.Context
		verify bool
		err    error
		want   string
	}{
		{t.Context(), false, atrium.Unavailable(full), "database or disk is full\nrun the command again to continue"},
		{t.Context(), false, atrium.Unavailable(refused), "connection refused\nrun the command again to continue"},
		{canceled, false, context.Canceled, "interrupted: run the command again to continue"},
		{t.Context(), true, atrium.Unavailable(refused), "connection refused\nrun the command again"},
		{canceled, true, context.Canceled, "interrupted: run the command again"},
		{t.Context(), false, errors.New("other"), "other"},
	} {
		if got := (&copyCommand{verify: c.verify}).explain(c.ctx, c.err).Error(); got != c.want {
			t.Errorf("%v is shown as %q, want %q", c.err, got, c.want)
		}
	}
}
