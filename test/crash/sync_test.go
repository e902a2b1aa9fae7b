package crash

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine/powercut"
)

// A failed sync, of a commit or a checkpoint, ends the service. The next one has
// everything acknowledged, and a power cut loses none of it, even if the failed sync
// dropped its pages.
func TestFailedSyncStopsTheServiceAndLosesNothing(t *testing.T) {
	for _, file := range []string{databaseName, databaseName + "-wal"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			rng := random(t)
			b := newBench(t, asItIs)
			clients, l := newClients(t, rng, 8, b.tenants)
			b.disk.DropSync(true)
			of := createTenants(t, store.New(b.db, time.Now), 1)[0]
			for range 2 {
				ctx, cancel := context.WithCancel(t.Context())
				wait := load(ctx, clients, b.base)
				time.Sleep(200 * time.Millisecond)
				b.disk.FailSync(true, file)
				b.fillUntilRefused(of)
				if err := <-b.ended; err == nil || !strings.Contains(err.Error(), "sync") {
					t.Errorf("the service ended with %v", err)
				}
				cancel()
				wait()
				b.cut(l, 0).report(t)
				if err := b.db.Close(); err != nil {
					t.Fatal(err)
				}
				b.disk.FailSync(false)
				b.open()
				b.cut(l, 0).report(t)
				b.serve(asItIs)
				settle(clients, b.base)
				b.cut(l, 0).report(t)
				b.cut(l, rng.Uint64()).report(t)
			}
			ctx, cancel := context.WithCancel(t.Context())
			wait := load(ctx, clients, b.base)
			b.cuts(l, rng, 4, func(v *verdict) bool {
				v.report(t)
				return t.Failed()
			})
			cancel()
			wait()
			settle(clients, b.base)
			b.finish(l)
			f := l.figures
			t.Logf("sent %d, acknowledged %d, refused %d", f.sent, f.acknowledged, f.refused)
			for _, c := range clients {
				if len(c.pending) > 0 {
					t.Errorf("%d requests of %s were never acknowledged", len(c.pending), c.name)
				}
			}
		})
	}
}

// fillUntilRefused writes large entries of a tenant that is not audited, to cause a
// checkpoint, until one is rejected.
func (b *bench) fillUntilRefused(of *tenant) {
	b.t.Helper()
	s := store.New(b.db, time.Now)
	payload := []byte(`{"fill":"` + strings.Repeat("x", 1_000_000) + `"}`)
	for limit := time.Now().Add(startLimit); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		draft := &atrium.Draft{
			ID: atrium.NewID[atrium.EntryID](), TenantID: of.id,
			Submission: atrium.Submission{Source: "fill", Type: "fill", Payload: payload}, Domain: "fill.example",
		}
		if _, err := s.Append(b.t.Context(), []*atrium.Draft{draft}); err != nil {
			return
		}
	}
	b.t.Error("no entry was refused")
}

// diskVariable puts a server's directory on a disk whose syncs fail once the directory has
// a file named failFile.
const (
	diskVariable = "ATRIUM_CRASH_TEST_DISK"
	failFile     = "fail-syncs"
)

// failingDisk sets up the disk of a server with diskVariable.
func failingDisk(dir string) error {
	disk, err := powercut.Register("failing", dir)
	if err == nil {
		err = disk.MakeDefault()
	}
	if err != nil {
		return err
	}
	check := func() {
		if _, err := os.Stat(filepath.Join(dir, failFile)); err == nil {
			disk.FailSync(true)
		}
	}
	check()
	go func() {
		for range time.Tick(time.Millisecond) {
			check()
		}
	}()
	return nil
}

// launchOnDisk is launch for a server with diskVariable.
func launchOnDisk(t *testing.T, dir, url string) *server {
	t.Helper()
	return spawn(t, exec.Command("env", diskVariable+"="+dir, executable(t), "serve", "--addr", "127.0.0.1:0", "--database", url))
}

// The process logs how to fix it, and ends with exit code 1.
func TestFailedSyncEndsTheProcess(t *testing.T) {
	t.Parallel()
	db := newFile(t)
	path := strings.TrimPrefix(db.url, "sqlite:")
	dir := filepath.Dir(path)
	clients, l := newClients(t, random(t), 4, db.tenants)
	s := launchOnDisk(t, dir, db.url).listening()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wait := load(ctx, clients, s.base)
	waitUntil(t, "entries are acknowledged", startLimit, func() bool { return l.acks() > 50 })
	if err := os.WriteFile(filepath.Join(dir, failFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := s.wait().ExitCode(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	cancel()
	wait()
	if !regexp.MustCompile(`level=ERROR.*a sync of the database failed.*start again`).MatchString(s.log.String()) {
		t.Errorf("the log does not say what to do: %s", s.log)
	}
	if _, err := os.Stat(path + "-unsynced"); err != nil {
		t.Errorf("no marker: %v", err)
	}
	refuses(t, launchOnDisk(t, dir, db.url), path, "sync")

	if err := os.Remove(filepath.Join(dir, failFile)); err != nil {
		t.Fatal(err)
	}
	s = start(t, db.url)
	if _, err := os.Stat(path + "-unsynced"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the marker is still there: %v", err)
	}
	settle(clients, s.base)
	s.stop()
	l.ended()
	l.audit(db.read(t), forever).report(t)
	t.Logf("sent %d, acknowledged %d, refused %d", l.figures.sent, l.figures.acknowledged, l.figures.refused)
}
