package secrets

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInvalidFileIsReportedWithoutItsContent(t *testing.T) {
	const canary = "c4n4ry"
	many := new(strings.Builder)
	for n := range maxKeys + 1 {
		many.WriteString(line(byte(n)))
	}
	for _, c := range []struct{ content, fault string }{
		{"", "has no key: run atrium secrets add-key"},
		{"# only a comment\n\n", "has no key"},
		{line(1) + canary + "\n", "line 2 is not a key of 32 bytes in base64"},
		{canary + "\n" + line(1) + "\n" + canary, "line 1 is not a key of 32 bytes in base64; line 4 is"},
		{strings.TrimRight(line(1), "=\n"), "line 1 is not a key"},
		{line(1)[4:], "line 1 is not a key"},
		{line(1) + line(2) + line(1), "line 3 repeats a key"},
		{many.String(), "has more than 100 keys"},
		{strings.Repeat("#", maxFile+1), "is too long"},
	} {
		path := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := Load(path)
		if err == nil || k != nil || !strings.Contains(err.Error(), c.fault) || !strings.HasPrefix(err.Error(), path) || strings.Contains(err.Error(), canary) {
			t.Errorf("%.50q: %v, want %q", c.content, err, c.fault)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want that the file does not exist", err)
	}
}

func TestAddedKeyEncryptsUnlessItIsLast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	first, created, err := AddKey(path, false)
	if err != nil || !created {
		t.Fatalf("%t, %v", created, err)
	}
	second, created, err := AddKey(path, false)
	if err != nil || created {
		t.Fatalf("%t, %v", created, err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// A comment and a missing newline at the end stay as they are.
	if err := os.WriteFile(path, []byte("# kept\n"+strings.TrimRight(string(content), "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	third, _, err := AddKey(path, true)
	if err != nil {
		t.Fatal(err)
	}
	k, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := k.Keys(), []KeyID{second, first, third}; len(got) != 3 || [3]KeyID(got) != [3]KeyID(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if content, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(content), "# kept\n") {
		t.Errorf("the comment is gone: %v", err)
	}
	names, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil || len(names) != 1 {
		t.Errorf("other files are left: %q, %v", names, err)
	}
	hidden, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	if err != nil || len(hidden) != 0 {
		t.Errorf("other files are left: %q, %v", hidden, err)
	}
}

func TestAddKeyLeavesAnInvalidFileAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	const content = "not a key\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := AddKey(path, false); err == nil {
		t.Error("a key was added to a file that is not valid")
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != content {
		t.Errorf("%q, %v", now, err)
	}
	if _, _, err := AddKey(filepath.Join(path, "below", "keys"), false); err == nil {
		t.Error("a key was added below a file")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(line(1)))
	f.Add([]byte("# comment\n" + line(1) + "\r\n" + line(2)))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, content []byte) {
		k, err := parse(content)
		if (k == nil) == (err == nil) {
			t.Fatalf("%v, %v", k, err)
		}
		if err == nil && (len(k.keys) == 0 || len(k.keys) > maxKeys) {
			t.Errorf("%d keys", len(k.keys))
		}
	})
}
