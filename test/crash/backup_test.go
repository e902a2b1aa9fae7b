package crash

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// atriumCommand runs a command that must succeed.
func atriumCommand(t *testing.T, args ...string) {
	t.Helper()
	c := command(t, args...)
	<-c.done
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("atrium %s: exit code %d: %s", strings.Join(args, " "), code, c.log)
	}
}

// loaded starts a server on a new file, and clients that load it. end stops both and
// audits the file.
func loaded(t *testing.T) (db *database, l *ledger, end func()) {
	t.Helper()
	db = newFile(t)
	clients, l := newClients(t, random(t), clientCount, db.tenants)
	s := start(t, db.url)
	ctx, cancel := context.WithCancel(t.Context())
	wait := load(ctx, clients, s.base)
	waitUntil(t, "entries are acknowledged", startLimit, func() bool { return l.acks() > 200 })
	return db, l, func() {
		t.Helper()
		cancel()
		wait()
		s.stop()
		l.ended()
		l.audit(db.read(t), forever).report(t)
	}
}

// A restored backup has each entry that was acknowledged before it began once, and later
// entries completely or not at all.
func TestBackupsUnderLoadAreComplete(t *testing.T) {
	db, l, end := loaded(t)
	dir := t.TempDir()
	for range 3 {
		acks, before := l.acks(), l.now()
		atriumCommand(t, "backup", filepath.Join(dir, "backup.db"), "--database", db.url)
		while := l.acks() - acks
		atriumCommand(t, "restore", filepath.Join(dir, "backup.db"), "--database", "sqlite:"+filepath.Join(dir, "restored.db"))
		stored, err := readFile(t.Context(), filepath.Join(dir, "restored.db"), db.tenants)
		if err != nil {
			t.Fatal(err)
		}
		v := l.audit(stored, before)
		v.report(t)
		t.Logf("%d were acknowledged before the backup began, %d while it was made: lost %d, duplicated %d", acks, while, v.lost, v.doubled)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	end()
}

// A killed backup or restore leaves nothing that looks complete. The next one succeeds
// despite the leftovers, and the server continues.
func TestKilledBackupOrRestoreDoesNotLookComplete(t *testing.T) {
	db, l, end := loaded(t)
	rng := random(t)
	dir := t.TempDir()
	// kill kills a command while it copies, and reports whether it had finished.
	kill := func(made string, args ...string) {
		t.Helper()
		for round := range 3 {
			left := filepath.Join(dir, "."+filepath.Base(made)+".*.partial")
			known, _ := filepath.Glob(left)
			c := command(t, append(args, "--rate", "512KiB")...)
			waitUntil(t, "the copy has begun", startLimit, func() bool { // a restore deletes what the one before has left
				partial, _ := filepath.Glob(left)
				return slices.ContainsFunc(partial, func(file string) bool { return !slices.Contains(known, file) })
			})
			time.Sleep(time.Duration(rng.IntN(int(200 * time.Millisecond))))
			c.kill()
			if _, err := os.Stat(made); errors.Is(err, os.ErrNotExist) {
				continue
			}
			t.Logf("round %d was killed too late", round)
			return
		}
		if partial, _ := filepath.Glob(filepath.Join(dir, ".*.partial")); len(partial) == 0 {
			t.Error("it was never killed while it copied")
		}
		if whole, _ := filepath.Glob(made + "*"); len(whole) > 0 {
			t.Errorf("complete files: %v", whole)
		}
	}
	backup, restored := filepath.Join(dir, "backup.db"), filepath.Join(dir, "restored.db")
	kill(backup, "backup", backup, "--database", db.url)
	acks := l.acks()
	waitUntil(t, "the service to continue", startLimit, func() bool { return l.acks() > acks })
	before := l.now()
	atriumCommand(t, "backup", filepath.Join(dir, "next.db"), "--database", db.url)
	kill(restored, "restore", filepath.Join(dir, "next.db"), "--database", "sqlite:"+restored)
	atriumCommand(t, "restore", filepath.Join(dir, "next.db"), "--database", "sqlite:"+filepath.Join(dir, "again.db"))
	stored, err := readFile(t.Context(), filepath.Join(dir, "again.db"), db.tenants)
	if err != nil {
		t.Fatal(err)
	}
	l.audit(stored, before).report(t)
	end()
}
