package sqlite_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"atrium/internal/store/engine/sqlite"
)

// asNobody runs f with the file permissions of the user nobody. Root ignores permissions.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const nobody = 65534
	if err := syscall.Setfsuid(nobody); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setfsuid(0); err != nil {
			t.Error(err)
		}
	}()
	f()
}

func TestAnUnwritableFileIsRefusedWithAdvice(t *testing.T) {
	for name, mode := range map[string]struct{ file, directory os.FileMode }{
		"a read-only file":                {0o444, 0o777},
		"a file without permissions":      {0o000, 0o777},
		"a read-only directory":           {0o666, 0o555},
		"a directory without permissions": {0o666, 0o000},
	} {
		t.Run(name, func(t *testing.T) {
			top, err := os.MkdirTemp("", "atrium-permission-")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(top) }()
			dir := filepath.Join(top, "data")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "atrium.db")
			copyFile(t, path, newSample(t))
			for _, chmod := range []struct {
				path string
				mode os.FileMode
			}{{path, mode.file}, {dir, mode.directory}, {top, 0o755}} {
				if err := os.Chmod(chmod.path, chmod.mode); err != nil {
					t.Fatal(err)
				}
			}
			asNobody(t, func() {
				db, err := sqlite.Open(path, sqlite.Options{})
				if err == nil {
					_ = db.Close()
					t.Fatal("it was opened")
				}
				for _, word := range []string{path, "must be writable"} {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("%q does not contain %q", err, word)
					}
				}
			})
			_ = os.Chmod(dir, 0o700) // so that it can be removed
		})
	}
}
