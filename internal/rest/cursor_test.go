package rest_test

import (
	"bytes"
	"math"
	"testing"

	"atrium"
	"atrium/internal/rest"
)

var cursorKey = rest.CursorKey("0123456789abcdef0123456789abcdef")

func TestCursorOpensOnlyWithItsKeyAndBinding(t *testing.T) {
	position := []byte("position")
	cursor := cursorKey.Seal(position, "tenant", "pages", "draft")
	if got, ok := cursorKey.Open(cursor, "tenant", "pages", "draft"); !ok || !bytes.Equal(got, position) {
		t.Fatalf("opened with its own binding: %q, %v", got, ok)
	}
	for _, binding := range [][]string{
		nil, {"tenant"}, {"tenant", "pages"}, {"tenant", "pages", ""}, {"tenant", "pages", "draft", ""}, {"tenant", "pages", "published"},
		{"tenan", "tpages", "draft"}, {"tenantpages", "", "draft"}, {"pages", "tenant", "draft"}, {"Tenant", "pages", "draft"},
	} {
		if _, ok := cursorKey.Open(cursor, binding...); ok {
			t.Errorf("opened with the binding %q", binding)
		}
	}
	if _, ok := rest.CursorKey("another key, of the same length!").Open(cursor, "tenant", "pages", "draft"); ok {
		t.Error("opened with another key")
	}
	if _, ok := (rest.CursorKey)(nil).Open(cursor, "tenant", "pages", "draft"); ok {
		t.Error("opened without a key")
	}
}

func TestPositionSurvivesItsCursor(t *testing.T) {
	const id = "01m8b9wt6ffava15zspfy33g6q"
	for _, p := range []atrium.Position{{Key: 7}, {Key: -1, ID: id}, {ID: id, Text: "a term"}, {Key: math.MaxInt64, ID: id, Text: "é"}} {
		cursor := cursorKey.SealPosition(&p, "tenant", "deliveries")
		if got, ok := cursorKey.OpenPosition(cursor, "tenant", "deliveries"); !ok || *got != p {
			t.Errorf("%+v became %+v, %v", p, got, ok)
		}
	}
	if _, ok := cursorKey.OpenPosition(cursorKey.Seal([]byte("another form"), "tenant"), "tenant"); ok {
		t.Error("opened what is not a position")
	}
}

func TestAlteredCursorDoesNotOpen(t *testing.T) {
	for size := range 40 { // all sizes modulo 3, so that base64 has unused bits
		cursor := cursorKey.Seal(bytes.Repeat([]byte{0x5a}, size), "binding")
		try := func(altered string) {
			if _, ok := cursorKey.Open(altered, "binding"); ok {
				t.Errorf("%q opens, altered from %q", altered, cursor)
			}
		}
		for i := range cursor {
			for bit := range 8 {
				altered := []byte(cursor)
				altered[i] ^= 1 << bit
				try(string(altered))
			}
			for _, c := range []string{"\n", "\r", " ", "=", "A", "\x00"} {
				try(cursor[:i] + c + cursor[i:])
			}
			try(cursor[:i])
			try(cursor[i+1:])
		}
		try(cursor + "\n")
		try(cursor + "=")
		try(cursor + "A")
		try(cursor + cursor)
	}
}

func FuzzCursor(f *testing.F) {
	f.Add([]byte("key"), "", []byte("position"), "tenant", "filter")
	f.Add([]byte{}, cursorKey.Seal(nil, "", ""), []byte{}, "", "")
	f.Add([]byte(cursorKey), cursorKey.Seal([]byte("p"), "a", "b")+"\n", []byte("p"), "a", "b")
	f.Add([]byte(cursorKey), cursorKey.Seal([]byte("p"), "a", "b"), []byte("q"), "a", "b")
	f.Fuzz(func(t *testing.T, key []byte, cursor string, position []byte, a, b string) {
		k := rest.CursorKey(key)
		sealed := k.Seal(position, a, b)
		if got, ok := k.Open(sealed, a, b); !ok || !bytes.Equal(got, position) {
			t.Fatalf("%q was sealed, %q opened, %v", position, got, ok)
		}
		if _, ok := k.Open(sealed, b, a); ok && a != b {
			t.Fatalf("the binding %q, %q opens in reverse order", a, b)
		}
		if _, ok := k.Open(sealed, a+b, ""); ok && b != "" {
			t.Fatalf("the binding %q, %q opens concatenated", a, b)
		}
		if got, ok := k.Open(cursor, a, b); ok && cursor != k.Seal(got, a, b) {
			t.Fatalf("%q opens as %q, but was not sealed from it", cursor, got)
		}
	})
}
