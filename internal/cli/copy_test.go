package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	"atrium"
)

func TestCopyErrorsSayHowToGoOn(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want string
	}{
		{t.Context(), atrium.Unavailable(errors.New("database or disk is full")), "database or disk is full"},
		{t.Context(), atrium.Unavailable(errors.New("connection refused")), "run the command again to continue"},
		{canceled, context.Canceled, "interrupted: run the command again to continue"},
		{t.Context(), errors.New("other"), "other"},
	} {
		if got := (&copying{}).explain(c.ctx, c.err).Error(); !strings.Contains(got, c.want) {
			t.Errorf("%v is shown as %q, want %q", c.err, got, c.want)
		}
	}
}
