package backup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const twoWeeks = 14 * 24 * time.Hour

func touch(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// made creates a backup without contents.
func made(t *testing.T, dir string, at time.Time) {
	t.Helper()
	touch(t, dir, Name("atrium.db", at), Name("atrium.db", at)+manifestSuffix)
}

// backups returns the names of backups, each of which has its manifest.
func backups(t *testing.T, dir string) (found []string) {
	t.Helper()
	all := names(t, dir)
	for _, name := range all {
		if strings.HasSuffix(name, ".db") {
			found = append(found, name)
		}
		if file, ok := strings.CutSuffix(name, manifestSuffix); ok && !slices.Contains(all, file) {
			t.Errorf("%s has no backup", name)
		}
	}
	return found
}

func prune(t *testing.T, dir string, now time.Time) {
	t.Helper()
	if err := Prune(dir, "/var/lib/atrium/atrium.db", now, twoWeeks); err != nil {
		t.Fatal(err)
	}
}

func TestPruneKeepsHoursOfOneDayAndDaysOfTwoWeeks(t *testing.T) {
	dir, start := t.TempDir(), time.Date(2026, 2, 20, 0, 0, 7, 0, time.UTC)
	now, most := start, 0
	for ; now.Before(start.AddDate(0, 0, 40)); now = now.Add(time.Hour) {
		prune(t, dir, now)
		made(t, dir, now)
		most = max(most, len(backups(t, dir)))
	}
	if most != 39 { // as docs/operations.md says
		t.Errorf("there were %d backups, want 39", most)
	}
	now = now.Add(5 * time.Hour) // 05:00: the backups of the night are missing
	prune(t, dir, now)
	var want []string
	for hour := now.Add(-24 * time.Hour); hour.Before(start.AddDate(0, 0, 40)); hour = hour.Add(time.Hour) {
		want = append(want, Name("atrium.db", hour))
	}
	newest := start.AddDate(0, 0, 40).Add(-time.Hour)
	for day := newest.AddDate(0, 0, -1); !day.Before(newest.Add(-twoWeeks)); day = day.AddDate(0, 0, -1) {
		want = append(want, Name("atrium.db", day))
	}
	slices.Sort(want)
	if got := backups(t, dir); !slices.Equal(got, want) {
		t.Errorf("left are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Without a new backup, such as on a full disk, hours are deleted and days stay.
func TestPruneKeepsEachDayWhileBackupsFail(t *testing.T) {
	dir, start := t.TempDir(), time.Date(2026, 2, 20, 0, 0, 0, 0, time.UTC)
	for hour := range 48 {
		made(t, dir, start.Add(time.Duration(hour)*time.Hour))
	}
	prune(t, dir, start.AddDate(1, 0, 0))
	want := []string{"atrium-2026-02-20T230000Z.db", "atrium-2026-02-21T230000Z.db"}
	if got := backups(t, dir); !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
}

func TestPruneDeletesOnlyBackupsOfTheDatabase(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 2, 20, 0, 0, 0, 0, time.UTC)
	others := []string{
		"atrium-2020-01-01T000000Z.db.gz", "atrium-before-upgrade.db", "atrium.db", "other-2020-01-01T000000Z.db",
		"atrium-2020-01-01T0000Z.db", "atrium-2020-13-01T000000Z.db", "atrium-2099-01-01T000000Z.db", // not yet made
		".atrium-2026-02-19T230000Z.db.2.partial", // just now
	}
	touch(t, dir, others...)
	left := ".atrium-2020-01-01T000000Z.db.1.partial" // by a process that was killed
	touch(t, dir, left)
	long := now.AddDate(0, 0, -2)
	if err := os.Chtimes(filepath.Join(dir, left), long, long); err != nil {
		t.Fatal(err)
	}
	made(t, dir, now.AddDate(-1, 0, 0))
	made(t, dir, now.Add(-time.Hour))
	prune(t, dir, now)
	want := slices.Sorted(slices.Values(append(others, "atrium-2026-02-19T230000Z.db", "atrium-2026-02-19T230000Z.db.sha256")))
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
}
