package atrium

import (
	"errors"
	"strings"
	"time"
)

// A Time is an instant in microseconds since 1970-01-01T00:00:00Z, truncated to
// milliseconds, in the years 0 to 9999. It has the same precision in storage and in
// responses. A nullable instant is a *Time.
type Time int64

// errTime is the error of ParseTime, and the detail of a Fault.
var errTime = errors.New("is not a date-time such as 2026-01-02T15:04:05.678Z, with any offset, between the years 0000 and 9999 (UTC)")

// At returns t truncated to milliseconds, toward the past.
func At(t time.Time) Time {
	return Time(t.UnixMilli() * 1000)
}

// ParseTime parses an RFC 3339 date-time with any offset and any number of fractional
// digits, and truncates it to milliseconds.
func ParseTime(s string) (Time, error) {
	// The standard library also accepts hours with one digit, a comma before the fraction and
	// offsets of 24 hours or with 60 minutes, which RFC 3339 section 5.6 does not allow.
	if len(s) < len("2006-01-02T15:04:05Z") || s[13] != ':' || strings.Contains(s, ",") || strings.HasSuffix(s, ":60") || s[len(s)-6:len(s)-3] == "+24" || s[len(s)-6:len(s)-3] == "-24" {
		return 0, errTime
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return 0, errTime
	}
	if y := t.UTC().Year(); y < 0 || y > 9999 {
		return 0, errTime
	}
	return At(t), nil
}

// Std returns the instant as a time.Time in UTC.
func (t Time) Std() time.Time { return time.UnixMicro(int64(t)).UTC() }

// AppendText appends the instant in ISO 8601 form, in UTC, with milliseconds
// and Z. The error is always nil.
func (t Time) AppendText(b []byte) ([]byte, error) {
	at := t.Std()
	year, month, day := at.Date()
	hour, minute, second := at.Clock()
	b = appendTwo(appendTwo(b, year/100), year%100)
	b = appendTwo(append(b, '-'), int(month))
	b = appendTwo(append(b, '-'), day)
	b = appendTwo(append(b, 'T'), hour)
	b = appendTwo(append(b, ':'), minute)
	b = appendTwo(append(b, ':'), second)
	millis := at.Nanosecond() / 1_000_000
	return append(appendTwo(append(b, '.', byte('0'+millis/100)), millis%100), 'Z'), nil
}

// appendTwo appends n, which is from 0 to 99, as two digits.
func appendTwo(b []byte, n int) []byte { return append(b, byte('0'+n/10), byte('0'+n%10)) }

// MarshalText implements encoding.TextMarshaler, which JSON encoders use.
func (t Time) MarshalText() ([]byte, error) { return t.AppendText(nil) }

// UnmarshalText implements encoding.TextUnmarshaler, which JSON decoders use.
func (t *Time) UnmarshalText(b []byte) (err error) {
	*t, err = ParseTime(string(b))
	return err
}

// String returns the text of AppendText.
func (t Time) String() string {
	b, _ := t.AppendText(nil)
	return string(b)
}
