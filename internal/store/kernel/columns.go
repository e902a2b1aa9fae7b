package kernel

import (
	"crypto/sha256"

	"atrium"
	"atrium/internal/store/engine"
)

// Hash16 returns the hash of a text for a *_hash column.
func Hash16(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:16]
}

// Nullable returns text as an argument, NULL for "".
func Nullable(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// NullableText returns text as an argument, NULL for nil.
func NullableText(text *string) any {
	if text == nil {
		return nil
	}
	return *text
}

// NullableTime returns t as an argument, NULL for nil.
func NullableTime(t *atrium.Time) any {
	if t == nil {
		return nil
	}
	return int64(*t)
}

// TextAt returns the text in a column, nil for NULL.
func TextAt(r engine.Row, column int) *string {
	return TextOrNil(r, column, new(r.Text(column)))
}

// TextOrNil returns text, which must be the value of the column, or nil for NULL.
func TextOrNil(r engine.Row, column int, text *string) *string {
	if *text == "" && r.Null(column) {
		return nil
	}
	return text
}

// TimeAt returns the time in a column, nil for NULL.
func TimeAt(r engine.Row, column int) *atrium.Time {
	if r.Null(column) {
		return nil
	}
	t := atrium.Time(r.Int(column))
	return &t
}

// BoolInt returns b as an argument: 1 for true, 0 for false.
func BoolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
