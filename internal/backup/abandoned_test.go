package backup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestARestoreRemovesWhatKilledOnesHaveLeft(t *testing.T) {
	backup, _ := newBackup(t)
	dir := t.TempDir()
	others := []string{
		".x.db.1.123.partial", // of x.db.1
		".x.db..partial", ".x.db.a1.partial", ".x.db.1.partial.db", ".y.db.123.partial", "x.db.123.partial", ".x.db.123.partially", ".x.db-2026.partial",
	}
	touch(t, dir, others...)
	if err := os.Mkdir(filepath.Join(dir, ".x.db.9.partial"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(backup, filepath.Join(dir, ".x.db.8.partial")); err != nil {
		t.Fatal(err)
	}
	touch(t, dir, ".x.db.123.partial", ".x.db.123.partial-wal", ".x.db.123.partial-shm", ".x.db.4567.partial")
	if _, err := Restore(t.Context(), backup, filepath.Join(dir, "x.db"), true, Options{}); err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(slices.Values(append(others, ".x.db.8.partial", ".x.db.9.partial", "x.db")))
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("the directory has %v, want %v", got, want)
	}
}

func TestARestoreFromAPartialFileKeepsIt(t *testing.T) {
	backup, _ := newBackup(t)
	dir := t.TempDir()
	partial := filepath.Join(dir, ".x.db.123.partial")
	if err := os.Rename(backup, partial); err != nil {
		t.Fatal(err)
	}
	touch(t, dir, ".x.db.123.partial-wal")
	if _, err := Restore(t.Context(), partial, filepath.Join(dir, "x.db"), false, Options{}); err != nil {
		t.Fatal(err)
	}
	if got, want := names(t, dir), []string{".x.db.123.partial", ".x.db.123.partial-wal", "x.db"}; !slices.Equal(got, want) {
		t.Errorf("the directory has %v, want %v", got, want)
	}
}

func TestARestoreKeepsThePartialFilesOfRunningProcesses(t *testing.T) {
	backup, _ := newBackup(t)
	_, s := newDatabase(t, 20)
	for what, do := range map[string]func(string, Options) error{
		"restore": func(path string, o Options) error {
			_, err := Restore(t.Context(), backup, path, true, o)
			return err
		},
		"backup": func(path string, o Options) error {
			_, err := Make(t.Context(), s, path, o)
			return err
		},
	} {
		dir := t.TempDir()
		path, ran := filepath.Join(dir, "x.db"), false
		err := do(path, Options{Progress: func(int64, int64) {
			if ran {
				return
			}
			ran = true
			before := names(t, dir)
			if len(before) != 1 {
				t.Fatalf("%s: the directory has %v", what, before)
			}
			if _, err := Restore(t.Context(), backup, path, true, Options{}); err != nil {
				t.Fatal(err)
			}
			if after := names(t, dir); !slices.Equal(after, append(before, "x.db")) {
				t.Errorf("%s: after another restore, the directory has %v, want also %v", what, after, before)
			}
		}})
		if err == nil || !strings.Contains(err.Error(), "exists") || !ran {
			t.Errorf("%s: %v, want an error about the file that exists", what, err)
		}
		if got := names(t, dir); !slices.Equal(got, []string{"x.db"}) {
			t.Errorf("%s: the directory has %v", what, got)
		}
	}
}
