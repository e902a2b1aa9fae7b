package atrium

import (
	"testing"
	"time"
)

func TestTimesAreShownAsTheyAreStored(t *testing.T) {
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
			t.Errorf("%s came back as %v, %v", got, again, err)
		}
	}
	for _, bad := range []string{
		"", "2026-01-02", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z", "2026-02-30T03:04:05Z", "2026-01-02 03:04:05Z",
		"9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00+00:01", "2026-01-02T03:04:05,5Z", "2026-01-02T3:04:05Z", "2026-01-02T24:00:00Z", "2026-01-02T00:00:00+24:00", "2026-01-02T00:00:00-24:30", "10000-01-01T00:00:00Z",
	} {
		if got, err := ParseTime(bad); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
}

func TestTimesAreCutTowardsThePast(t *testing.T) {
	for _, at := range []time.Time{time.Unix(1, 999_999), time.Unix(-1, 999_999), time.Unix(-5, 1)} {
		if got := At(at); got.Std().After(at) || at.Sub(got.Std()) >= time.Millisecond {
			t.Errorf("%v became %v", at, got.Std())
		}
	}
}
