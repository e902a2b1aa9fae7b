package console

import "testing"

func TestAJobIsFailingUntilItSucceeds(t *testing.T) {
	const first, second = "2026-03-02T09:14:05Z", "2026-03-02T09:14:05.120Z" // as text, the first is greater
	for _, c := range []struct {
		success, failure string
		want             bool
	}{
		{"", "", false}, {first, "", false}, {"", first, true}, {first, second, true}, {second, first, false},
	} {
		if got := (job{LastSuccessAt: c.success, LastFailureAt: c.failure}).Failing(); got != c.want {
			t.Errorf("success %q, failure %q: failing is %v", c.success, c.failure, got)
		}
	}
}
