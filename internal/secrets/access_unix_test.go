//go:build unix

package secrets

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOnlyTheOwnerCanReadANewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if _, _, err := AddKey(path, false); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v, want mode 0600", info.Mode(), err)
	}
}

func TestAddKeyKeepsModeAndLink(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "keys"), filepath.Join(dir, "link")
	if err := os.WriteFile(path, []byte(line(1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil { // a group that the server is in
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, _, err := AddKey(link, false); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o640 {
		t.Errorf("%v, %v, want mode 0640", info.Mode(), err)
	}
	if target, err := os.Readlink(link); err != nil || target != path {
		t.Errorf("the link leads to %q, %v", target, err)
	}
	if k, err := Load(path); err != nil || len(k.Keys()) != 2 {
		t.Errorf("%v, %v", k.Keys(), err)
	}
}
