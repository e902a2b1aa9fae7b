package cli

import "testing"

func TestAPartialCountSaysSinceWhen(t *testing.T) {
	for response, want := range map[string]string{
		`{"since":"2026-03-02T08:00:00.000Z","countedSince":"2026-03-05T14:02:11.000Z","items":[]}`: "There are more than 100000 entries since 2026-03-02T08:00:00.000Z. Only those since 2026-03-05T14:02:11.000Z are counted.",
		`{"since":"2026-03-02T08:00:00.000Z","countedSince":"2026-03-02T08:00:00.000Z","items":[]}`: "",
	} {
		if got := partlyCounted(t.Context(), nil, effect{response: []byte(response)}); got != want {
			t.Errorf("%s: %q, want %q", response, got, want)
		}
	}
}
