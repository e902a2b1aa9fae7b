package crash

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// atriumCommand runs a command to its end, which must be a good one.
func atriumCommand(t *testing.T, args ...string) {
	t.Helper()
	c := command(t, args...)
	<-c.done
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("atrium %s: exit code %d: %s", strings.Join(args, " "), code, c.log)
	}
}

// loaded starts a server on a new file and clients that keep it busy. end stops both,
// and audits what the file has.
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

// Whatever was acknowledged before a backup began is there once when it is restored,
// and what came later is there wholly or not at all.
func TestBackupsUnderLoadAreRestoredWithAllThatWasAcknowledged(t *testing.T) {
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
		t.Logf("%d were acknowledged before the backup began, %d while it was made: lost %d, doubled %d", acks, while, v.lost, v.doubled)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	end()
}

// A backup or a restore that is killed leaves nothing that looks like one, the next one
// works beside what it left, and the server goes on.
func TestKillDuringBackupAndRestoreLeavesNothingThatLooksWhole(t *testing.T) {
	db, l, end := loaded(t)
	rng := random(t)
	dir := t.TempDir()
	// kill ends a command somewhere in its copying, and finds out whether it was too late.
	kill := func(made string, args ...string) {
		t.Helper()
		for round := range 3 {
			c := command(t, append(args, "--rate", "512KiB")...)
			left := filepath.Join(dir, "."+filepath.Base(made)+".*.partial")
			known, _ := filepath.Glob(left)
			waitUntil(t, "the copy has begun", startLimit, func() bool {
				partial, _ := filepath.Glob(left)
				return len(partial) > len(known)
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
			t.Errorf("there are %v", whole)
		}
	}
	backup, restored := filepath.Join(dir, "backup.db"), filepath.Join(dir, "restored.db")
	kill(backup, "backup", backup, "--database", db.url)
	acks := l.acks()
	waitUntil(t, "the service goes on", startLimit, func() bool { return l.acks() > acks })
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
