package store

import (
	"atrium"
	"atrium/internal/store/engine"
	"crypto/sha256"
)

// hash16 is the form of a text in a *_hash column.
func hash16(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:16]
}

// nullable returns nil, which is stored as null, for "".
func nullable(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func nullableText(text *string) any {
	if text == nil {
		return nil
	}
	return *text
}

func nullableTime(t *atrium.Time) any {
	if t == nil {
		return nil
	}
	return int64(*t)
}

func textAt(r engine.Row, column int) *string {
	return orNull(r, column, new(r.Text(column)))
}

// orNull returns text, which is what a column has, or nil for null.
func orNull(r engine.Row, column int, text *string) *string {
	if *text == "" && r.Null(column) {
		return nil
	}
	return text
}

func timeAt(r engine.Row, column int) *atrium.Time {
	if r.Null(column) {
		return nil
	}
	t := atrium.Time(r.Int(column))
	return &t
}

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
