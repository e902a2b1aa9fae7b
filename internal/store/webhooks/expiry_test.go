package webhooks

import (
	"errors"
	"testing"

	"atrium/internal/store/kernel"
)

func TestAttemptsBoundWhatATransactionDeletes(t *testing.T) {
	for attempts, want := range map[int64]int{0: 1000, 1: 500, 99: 6, 100: 5, 1_000_000: 5} {
		var b batch
		n := 0
		for ; n < 1000; n++ {
			if err := b.add(attempts); errors.Is(err, kernel.ErrPageFull) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if n != want {
			t.Errorf("%d deliveries with %d attempts are deleted together, want %d", n, attempts, want)
		}
	}
}
