package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A signal is told where it has ended the command; a fault is told, signal or not.
func TestAnInterruptHidesNoFault(t *testing.T) {
	if err := interrupted(fmt.Errorf("check: %w", context.Canceled)); !strings.Contains(err.Error(), "nothing was created") {
		t.Error(err)
	}
	whole := errors.New("the backup is whole, its manifest could not be written")
	if err := interrupted(whole); !errors.Is(err, whole) {
		t.Error(err)
	}
}
