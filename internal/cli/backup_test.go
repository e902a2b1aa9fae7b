package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A signal is reported only if it ended the command. Other errors are reported even after a signal.
func TestInterruptDoesNotHideErrors(t *testing.T) {
	err := interruptedError(fmt.Errorf("check: %w", context.Canceled))
	if !strings.Contains(err.Error(), "nothing was created") {
		t.Error(err)
	}
	other := errors.New("write manifest: disk full")
	if err := interruptedError(other); !errors.Is(err, other) {
		t.Error(err)
	}
}
