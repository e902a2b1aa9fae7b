package console

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestAChartOfAttemptsHasItsHours(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 14, 5, 0, time.UTC)
	hour := func(ago int, attempts, succeeded, latency int64) attemptHour {
		return attemptHour{now.Truncate(time.Hour).Add(-time.Duration(ago) * time.Hour).Format(time.RFC3339), attempts, succeeded, latency, 2 * latency}
	}
	for _, shown := range attemptRanges {
		last := shown.hours - 1
		c := newAttemptChart(now, shown, []attemptHour{hour(shown.hours, 7, 7, 9000), hour(last, 4, 3, 20), hour(0, 10, 0, 300), hour(-1, 5, 5, 9000)})
		if c.Attempts != 14 || c.Failed != 11 || c.Most != 10 || c.MaxLatency != 300 || len(c.Hours) != 2 || c.Hours[0].Attempts != 10 {
			t.Errorf("%s: %+v", shown.name, c)
		}
		if first, newest := c.place(c.Hours[1]), c.place(c.Hours[0]); first != 0 || newest != last {
			t.Errorf("%s: the hours are bars %d and %d", shown.name, first, newest)
		}
		drawing, latencies := string(c.Drawing()), string(c.LatencyDrawing())
		if strings.Count(drawing, `class="failed"`) != 2 || strings.Count(drawing, `class="succeeded"`) != 1 || strings.Count(latencies, "<rect") != 2 {
			t.Errorf("%s: %s %s", shown.name, drawing, latencies)
		}
		if x := fmt.Sprintf(`x="%d"`, last*stackedWidth/shown.hours); !strings.Contains(drawing, x) || !strings.Contains(drawing, `x="0"`) {
			t.Errorf("%s: the first and the last bar are not at the ends: %s", shown.name, drawing)
		}
		if !strings.Contains(latencies, `y="0" `) || strings.Contains(drawing+latencies, `"-`) {
			t.Errorf("%s: bars are outside of the drawing: %s %s", shown.name, drawing, latencies)
		}
	}
}

func TestHeadersOfAFormAreLines(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"": {}, "Authorization: Bearer a:b\r\n\r\nX-Team :  one": {"Authorization": "Bearer a:b", "X-Team": "one"},
	} {
		got, err := parseHeaders(text)
		if err != nil || len(got) != len(want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%q: %s is %q", text, name, got[name])
			}
		}
	}
	for _, text := range []string{"Authorization", ": value", "A: 1\nA: 2"} {
		if got, err := parseHeaders(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
