package cli

import (
	"testing"
	"time"
)

func TestDemoDataIsRecent(t *testing.T) {
	const data = `{"createdAt":"2026-03-02T09:00:00.000Z"} {"createdAt":"2026-06-15T13:45:00.000Z","payload":{"on":"2026-03-02"}}`
	for now, want := range map[string]string{
		"2026-06-15T13:45:00Z": data,
		"2026-06-17T13:44:00Z": `{"createdAt":"2026-03-03T09:00:00.000Z"} {"createdAt":"2026-06-16T13:45:00.000Z","payload":{"on":"2026-03-02"}}`,
		"2026-06-17T13:45:00Z": `{"createdAt":"2026-03-04T09:00:00.000Z"} {"createdAt":"2026-06-17T13:45:00.000Z","payload":{"on":"2026-03-02"}}`,
	} {
		at, err := time.Parse(time.RFC3339, now)
		if err != nil {
			t.Fatal(err)
		}
		if got := recent(data, at); got != want {
			t.Errorf("at %s: %s", now, got)
		}
	}
	if got := recent(demoData, time.Now()); len(got) != len(demoData) {
		t.Errorf("the demo data has %d bytes instead of %d", len(got), len(demoData))
	}
}
