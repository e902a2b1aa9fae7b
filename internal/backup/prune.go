package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// nameTime is the layout of the time in the name of a backup.
const nameTime = "-2006-01-02T150405Z"

// Name returns the file name of a backup of a database file that is made at a time.
func Name(database string, at time.Time) string {
	return prefix(database) + at.UTC().Format(nameTime) + ".db"
}

func prefix(database string) string {
	return strings.TrimSuffix(filepath.Base(database), filepath.Ext(database))
}

// Prune deletes old backups of a database, with the names of Name, in a directory. It keeps those of the
// last 24 hours, and the newest of each day (UTC) up to keep before the newest backup. That time ends
// at the newest backup, not now: while no backup succeeds, the newest one of each day stays. The 24 hours
// end now, so that a full disk gets space without a new backup.
//
// It also deletes partial files of killed backups that are older than a day.
func Prune(dir, database string, now time.Time, keep time.Duration) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	lastDay := now.Add(-24 * time.Hour)
	var times []time.Time
	var errs []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "."+prefix(database)+"-") && strings.HasSuffix(e.Name(), partialSuffix) {
			if info, err := e.Info(); err == nil && info.ModTime().Before(lastDay) {
				errs = append(errs, remove(filepath.Join(dir, e.Name())))
			}
		}
		text, ok := strings.CutPrefix(e.Name(), prefix(database))
		if !ok || !e.Type().IsRegular() {
			continue
		}
		if at, err := time.Parse(nameTime+".db", text); err == nil && !at.After(now) {
			times = append(times, at)
		}
	}
	slices.SortFunc(times, func(a, b time.Time) int { return b.Compare(a) }) // the newest first
	for i, at := range times {
		newestOfDay := i == 0 || at.Format(time.DateOnly) != times[i-1].Format(time.DateOnly)
		if newestOfDay && !at.Before(times[0].Add(-keep)) || !newestOfDay && !at.Before(lastDay) {
			continue
		}
		path := filepath.Join(dir, Name(database, at))
		errs = append(errs, remove(path+manifestSuffix), remove(path))
	}
	return errors.Join(errs...)
}

// remove removes a file, if it exists.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
