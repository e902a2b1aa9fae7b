package kernel

import (
	"crypto/sha256"

	"atrium"
	"atrium/internal/store/engine"
)

// Hash16 is the form of a text in a *_hash column.
func Hash16(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:16]
}

// Nullable returns the argument for a column that is null for "".
func Nullable(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// NullableText returns the argument for a column that is null for nil.
func NullableText(text *string) any {
	if text == nil {
		return nil
	}
	return *text
}

// NullableTime returns the argument for a column that is null for nil.
func NullableTime(t *atrium.Time) any {
	if t == nil {
		return nil
	}
	return int64(*t)
}

// TextAt returns the text in a column, nil for null.
func TextAt(r engine.Row, column int) *string {
	return OrNull(r, column, new(r.Text(column)))
}

// OrNull returns text, which is what a column has, or nil for null.
func OrNull(r engine.Row, column int, text *string) *string {
	if *text == "" && r.Null(column) {
		return nil
	}
	return text
}

// TimeAt returns the instant in a column, nil for null.
func TimeAt(r engine.Row, column int) *atrium.Time {
	if r.Null(column) {
		return nil
	}
	t := atrium.Time(r.Int(column))
	return &t
}

// BoolInt returns the argument for a column that has 1 for true and 0 for false.
func BoolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
