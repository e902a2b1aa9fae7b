package canonical

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

// The reference implementation of the stored form, without optimizations.

func referenceValue(b []byte, dec *jsontext.Decoder) ([]byte, error) {
	switch kind := dec.PeekKind(); kind {
	case '{':
		return referenceObject(b, dec)
	case '[':
		if _, err := dec.ReadToken(); err != nil {
			return nil, err
		}
		b = append(b, '[')
		for dec.PeekKind() != ']' {
			var err error
			if b, err = referenceValue(b, dec); err != nil {
				return nil, err
			}
		}
		_, err := dec.ReadToken()
		return append(b, ']'), err
	case '"':
		v, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		return referenceString(append(b, '"'), v)
	case '0':
		v, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		return appendPrefixed(append(b, '0'), normalNumber(string(v))), nil
	default:
		_, err := dec.ReadToken()
		return append(b, byte(kind)), err
	}
}

func referenceObject(b []byte, dec *jsontext.Decoder) ([]byte, error) {
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	b = append(b, '{')
	type member struct{ name, whole string }
	var members []member
	start := len(b)
	for dec.PeekKind() != '}' {
		at := len(b)
		name, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		if b, err = referenceString(b, name); err != nil {
			return nil, err
		}
		nameEnd := len(b)
		if b, err = referenceValue(b, dec); err != nil {
			return nil, err
		}
		members = append(members, member{string(b[at:nameEnd]), string(b[at:])})
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	slices.SortFunc(members, func(x, y member) int { return strings.Compare(x.name, y.name) })
	b = b[:start]
	for _, m := range members {
		b = append(b, m.whole...)
	}
	return append(b, '}'), nil
}

// referenceString appends the text of a JSON string, prefixed with its length.
func referenceString(b []byte, quoted jsontext.Value) ([]byte, error) {
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return nil, err
	}
	return appendPrefixed(b, text), nil
}

func FuzzValueEqualsReference(f *testing.F) {
	for _, v := range []string{
		`{}`, `{"a":1}`, `{"b":1,"a":2}`, `{"a":{"d":1,"c":[1,{"z":0,"y":"x"}]},"aa":2,"b":"\u0061"}`, `{"bb":1,"a":2}`, `{"a\u0000":1,"a":2,"é":[]}`,
		`[1,"a",null,true,{"c":{"b":{"a":1},"a":{}}}]`, `"\ud83d\ude80"`, `{"c":1,"b":2,"a":3}`,
		`{"a":{"c":1,"b":2},"b":[{"a":1},{"b":{"z":1,"y":2},"a":2}]}`, `[{"b":1,"a":[{"d":0,"c":{"f":1,"e":2}},3]},{"b":1,"a":2}]`, "{\"a\":\"\xff\"}", `{"a":1`, `{"\u0062":1,"a":2}`, `{"a":1,"a":2}`,
	} {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, v []byte) {
		want, wantErr := referenceValue(nil, jsontext.NewDecoder(bytes.NewReader(v)))
		if errors.Is(wantErr, jsontext.ErrDuplicateName) {
			return // strictjson rejects it
		}
		got, err := Value(bytes.Clone(v))
		if (err != nil) != (wantErr != nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("Value(%q) = %q, %v, want %q, %v", v, got, err, want, wantErr)
		}
	})
}

// BenchmarkFingerprint fingerprints an entry with a payload of 1 KB.
func BenchmarkFingerprint(b *testing.B) {
	s := atrium.Submission{Source: "bench", Type: "page.viewed", Payload: []byte(`{"event":"page.viewed","text":"` + strings.Repeat("x", 988) + `"}`)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Fingerprint(s); err != nil {
			b.Fatal(err)
		}
	}
}

// Moving a byte once for each enclosing object takes quadratic time.
func TestFingerprintTimeIsLinear(t *testing.T) {
	for name, value := range map[string]string{
		"many unsorted objects":   `[` + strings.Repeat(`{"b":0,"a":0},`, 10_000) + `0]`,
		"unsorted objects nested": strings.Repeat(`{"b":0,"a":`, 60) + `"` + strings.Repeat("x", 100_000) + `"` + strings.Repeat(`}`, 60),
	} {
		var f form
		b, err := f.append(nil, []byte(value))
		if err != nil {
			t.Fatal(err)
		}
		var written counter
		f.writeSorted(&written, b)
		if int(written) != len(b) {
			t.Errorf("%s: %d bytes written, want %d", name, written, len(b))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := RequestFingerprint("POST", "/", []byte(value)); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		allocated := after.TotalAlloc - before.TotalAlloc
		if most := uint64(40 * len(value)); allocated > most {
			t.Errorf("%s: %d bytes allocated for a value of %d bytes", name, allocated, len(value))
		}
	}
}

// A counter counts the bytes that are written to it.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

func TestFingerprintOfAKeyDependsOnTheKeyAlone(t *testing.T) {
	one := KeyDraft("tenant_a", atrium.Submission{IdempotencyKey: "in:a:1", Source: "crm", Payload: []byte(`{"attempt":1}`)})
	other := KeyDraft("tenant_a", atrium.Submission{IdempotencyKey: "in:a:1", Source: "shop", Payload: []byte(`{"attempt":2}`), Claim: atrium.Claim{Domain: "a.example"}})
	if !bytes.Equal(one.Fingerprint, other.Fingerprint) || !IsKeyFingerprint(one.Fingerprint) || other.Domain != "a.example" {
		t.Errorf("%x and %x", one.Fingerprint, other.Fingerprint)
	}
	if bytes.Equal(one.Fingerprint, KeyFingerprint("in:a:2")) {
		t.Error("two keys have the same fingerprint")
	}
	draft, err := Draft("tenant_a", one.Submission)
	if err != nil || IsKeyFingerprint(draft.Fingerprint) || IsKeyFingerprint(nil) {
		t.Errorf("%x, %v", draft.Fingerprint, err)
	}
}
