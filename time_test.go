package atrium

import (
	"testing"
	"time"
)

func TestTimesAreFormattedWithMilliseconds(t *testing.T) {
	for given, want := range map[string]string{
		"2026-01-02T03:04:05Z":                "2026-01-02T03:04:05.000Z",
		"2026-01-02T03:04:05.1Z":              "2026-01-02T03:04:05.100Z",
		"2026-01-02T03:04:05.123999999Z":      "2026-01-02T03:04:05.123Z",
		"2026-01-02T03:04:05.999+02:00":       "2026-01-02T01:04:05.999Z",
		"2026-01-01T00:00:00-23:59":           "2026-01-01T23:59:00.000Z",
		"1969-12-31T23:59:59.9999Z":           "1969-12-31T23:59:59.999Z",
		"0000-01-01T00:00:00Z":                "0000-01-01T00:00:00.000Z",
		"0001-01-01T00:00:00Z":                "0001-01-01T00:00:00.000Z",
		"9999-12-31T23:59:59.999999Z":         "9999-12-31T23:59:59.999Z",
		"2024-02-29T12:00:00Z":                "2024-02-29T12:00:00.000Z",
		"2026-01-02T03:04:05.123456789+00:00": "2026-01-02T03:04:05.123Z",
	} {
		got, err := ParseTime(given)
		if err != nil || got.String() != want {
			t.Errorf("%s is %v, %v, want %s", given, got, err, want)
			continue
		}
		if again, err := ParseTime(got.String()); err != nil || again != got {
			t.Errorf("%s parsed again is %v, %v", got, again, err)
		}
	}
	for _, bad := range []string{
		"", "2026-01-02", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z", "2026-02-30T03:04:05Z", "2026-01-02 03:04:05Z",
		"9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00+00:01", "2026-01-02T03:04:05,5Z", "2026-01-02T3:04:05Z", "2026-01-02T24:00:00Z", "2026-01-02T00:00:00+24:00", "2026-01-02T00:00:00-24:30", "2026-01-02T00:00:00+05:60", "2026-01-02T00:00:00.5-23:60", "10000-01-01T00:00:00Z",
	} {
		if got, err := ParseTime(bad); err == nil {
			t.Errorf("ParseTime(%q) = %v, want an error", bad, got)
		}
	}
}

func TestTimesAreTruncatedTowardThePast(t *testing.T) {
	for _, at := range []time.Time{time.Unix(1, 999_999), time.Unix(-1, 999_999), time.Unix(-5, 1)} {
		if got := At(at); got.Std().After(at) || at.Sub(got.Std()) >= time.Millisecond {
			t.Errorf("%v became %v", at, got.Std())
		}
	}
}

// layout is the format of an instant for the standard library.
const layout = "2006-01-02T15:04:05.000Z"

func TestTimesAreFormattedLikeTheStandardLibrary(t *testing.T) {
	first, last := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_000_000, time.UTC)
	for at := At(first); at <= At(last); at += Time((9*24+1)*time.Hour/time.Microsecond + 61_001_000) { // covers every month, day, hour, minute and second
		if got, want := at.String(), at.Std().Format(layout); got != want {
			t.Fatalf("%d is %s, want %s", at, got, want)
		}
	}
	if got, want := At(last).String(), last.Format(layout); got != want {
		t.Errorf("the last instant is %s, want %s", got, want)
	}
}

func BenchmarkTimeAppendText(b *testing.B) {
	at, text := At(time.Date(2026, 11, 22, 1, 2, 3, 4e6, time.UTC)), make([]byte, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = at.AppendText(text)
	}
}
