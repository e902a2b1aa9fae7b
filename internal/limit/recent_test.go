package limit_test

import (
	"testing"
	"time"

	"atrium/internal/limit"
)

func TestRecentTellsOthersFromAKey(t *testing.T) {
	var r limit.Recent[string]
	at := func(seconds int) time.Time { return time.Unix(int64(1000+seconds), 0) }
	want := func(when, key string, since int, others bool) {
		t.Helper()
		if got := r.Others(key, at(since)); got != others {
			t.Errorf("%s: others than %s since %d: %v", when, key, since, got)
		}
	}
	want("at first", "a", 0, false)
	r.Use("a", at(1))
	r.Use("a", at(2))
	want("after a alone", "a", 0, false)
	want("after a alone", "b", 1, true)
	want("after a alone", "b", 2, false)
	r.Use("b", at(3))
	want("after b", "a", 2, true)
	want("after b", "b", 1, true)
	want("after b", "b", 2, false)
	r.Use("a", at(4))
	r.Use("a", at(9))
	want("after a again", "a", 2, true)
	want("after a again", "a", 3, false)
	want("after a again", "b", 8, true)
}
