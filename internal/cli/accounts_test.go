package cli

import "testing"

func TestAPartialCountSaysSinceWhen(t *testing.T) {
	for response, want := range map[string]string{
		`{"since":"2026-03-02T08:00:00.000Z","countedSince":"2026-03-05T14:02:11.000Z","items":[]}`: "There are more than the 100000 entries that are read. " +
			"Counted: those since 2026-03-05T14:02:11.000Z, not since 2026-03-02T08:00:00.000Z.",
		`{"since":"2026-03-02T08:00:00.000Z","countedSince":"2026-03-02T08:00:00.000Z","items":[]}`: "",
	} {
		if got := partlyCounted(t.Context(), nil, effect{response: []byte(response)}); got != want {
			t.Errorf("%s: %q, want %q", response, got, want)
		}
	}
}
