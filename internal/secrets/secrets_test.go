package secrets

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"atrium"
)

// line returns the line of a file with a key of equal bytes.
func line(b byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, KeyLen)) + "\n"
}

// ring returns the keys of a file with the content.
func ring(t *testing.T, content string) *Keyring {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var place = Ref{"webhook_secrets", "tenant_a", "1"}

func TestFirstKeyEncryptsAndAllDecrypt(t *testing.T) {
	first, second := ring(t, line(1)), ring(t, line(2))
	both := ring(t, "# rotated\n\n"+line(2)+"  "+line(1))
	for _, plain := range [][]byte{nil, []byte("a"), bytes.Repeat([]byte("secret"), 1000)} {
		old, err := first.Seal(place, plain)
		if err != nil {
			t.Fatal(err)
		}
		if len(old) != len(plain)+Overhead || len(plain) > 1 && bytes.Contains(old, plain) {
			t.Errorf("the sealed value has %d bytes for %d, or has the plain one", len(old), len(plain))
		}
		if again, err := first.Seal(place, plain); err != nil || bytes.Equal(old, again) {
			t.Errorf("the same value is sealed equally twice: %v", err)
		}
		if got, err := both.Open(place, old); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("the second key does not decrypt: %q, %v", got, err)
		}
		if both.Current(old) || !first.Current(old) || second.Current(old) {
			t.Error("Current is wrong for the old key")
		}
		sealed, err := both.Seal(place, plain)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := second.Open(place, sealed); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("the first key did not encrypt: %q, %v", got, err)
		}
		if _, err := first.Open(place, sealed); !errors.Is(err, ErrUnknownKey) {
			t.Errorf("%v, want ErrUnknownKey", err)
		}
		if id, ok := KeyOf(sealed); !ok || id != second.Keys()[0] || !both.Has(id) || first.Has(id) {
			t.Errorf("KeyOf returns %s, %t", id, ok)
		}
	}
}

func TestValueOpensOnlyWhereItWasSealed(t *testing.T) {
	k := ring(t, line(1))
	sealed, err := k.Seal(place, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []Ref{
		{}, {"webhook_secrets", "tenant_a", "2"}, {"webhook_secrets", "tenant_b", "1"}, {"receiver_secrets", "tenant_a", "1"},
		{"webhook_secretst", "enant_a", "1"}, {"webhook_secrets", "tenant_a1", ""}, {"", "webhook_secretstenant_a", "1"},
	} {
		if _, err := k.Open(other, sealed); !errors.Is(err, ErrDamaged) {
			t.Errorf("%+v: %v, want ErrDamaged", other, err)
		}
	}
	if a, b := RowRef("t", "tenant_a", []byte{1}, []byte{2, 3}), RowRef("t", "tenant_a", []byte{1, 2}, []byte{3}); a == b {
		t.Errorf("different keys have the same place %+v", a)
	}
}

func TestChangedValueDoesNotOpen(t *testing.T) {
	k := ring(t, line(1))
	sealed, err := k.Seal(place, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, err := k.Open(place, changed); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnknownKey) {
			t.Errorf("byte %d was changed: %v", i, err)
		}
		if _, err := k.Open(place, sealed[:i]); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut to %d bytes: %v", i, err)
		}
	}
	if _, err := k.Open(place, append(sealed, 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte was added: %v", err)
	}
}

func TestWithoutKeysNothingIsSealedOrOpened(t *testing.T) {
	k, err := Load("")
	if err != nil || k != nil {
		t.Fatalf("%v, %v", k, err)
	}
	if _, err := k.Seal(place, nil); atrium.CodeOf(err) != atrium.CodeConflict || !strings.Contains(err.Error(), "secrets-key-file") {
		t.Errorf("Seal: %v, want a conflict that names the setting", err)
	}
	sealed, err := ring(t, line(1)).Seal(place, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Open(place, sealed); !errors.Is(err, ErrNoKeys) {
		t.Errorf("Open: %v, want ErrNoKeys", err)
	}
	if k.Current(sealed) || k.Has(KeyID{}) || k.Keys() != nil {
		t.Error("a Keyring without keys has a key")
	}
}

func TestSealCanBeForbidden(t *testing.T) {
	k := ring(t, line(1))
	sealed, err := k.Seal(place, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	k.AllowSeal(false)
	if _, err := k.Seal(place, nil); atrium.CodeOf(err) != atrium.CodeConflict {
		t.Errorf("Seal: %v, want a conflict", err)
	}
	if _, err := k.Open(place, sealed); err != nil {
		t.Errorf("Open: %v", err)
	}
	k.AllowSeal(true)
	if _, err := k.Seal(place, nil); err != nil {
		t.Error(err)
	}
	(*Keyring)(nil).AllowSeal(true) // has no effect
}

func FuzzOpen(f *testing.F) {
	key, err := newKey(bytes.Repeat([]byte{1}, KeyLen))
	if err != nil {
		f.Fatal(err)
	}
	k := &Keyring{keys: []sealingKey{key}}
	sealed, err := k.Seal(place, []byte("secret"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add(sealed[:Overhead])
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, value []byte) {
		plain, err := k.Open(place, value)
		if err != nil {
			return
		}
		if string(plain) != "secret" { // each worker has sealed only this, with a nonce of its own
			t.Errorf("%x opens as %q, but was never sealed", value, plain)
		}
		value = bytes.Clone(value)
		value[len(value)-1] ^= 1
		if plain, err := k.Open(place, value); err == nil {
			t.Errorf("%x opens as %q, but was never sealed", value, plain)
		}
	})
}
