package server

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"atrium/bench/load"
)

func TestMain(m *testing.M) {
	BeBare()
	os.Exit(m.Run())
}

func TestCPUTimeWithSpecialCharactersInTheName(t *testing.T) {
	stat := []byte("7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 9 11 20 0 5 0 100 1 2\n")
	if got := cpuOf(stat); got != 3*time.Second {
		t.Errorf("got %v, want 3s", got)
	}
	if got := endedCPUOf(stat); got != 200*time.Millisecond {
		t.Errorf("got %v of ended children, want 200ms", got)
	}
	if got := cpuOf(nil); got != 0 {
		t.Errorf("got %v for an empty stat", got)
	}
}

func TestAnonymousMemoryExcludesFileMappings(t *testing.T) {
	got, err := statusBytes([]byte("VmRSS:\t   90000 kB\nRssAnon:\t   40000 kB\nRssFile:\t   50000 kB\n"), "RssAnon")
	if err != nil || got != 40000<<10 {
		t.Errorf("%d, %v", got, err)
	}
	if _, err := statusBytes([]byte("VmRSS:\t 1 kB\n"), "RssAnon"); err == nil {
		t.Error("no error for a missing field")
	}
}

func TestReferenceRespondsWithTheRequestedSize(t *testing.T) {
	p, err := StartBare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	k := BareKind(p.Addr(), 1234)
	a, err := load.Once(p.Addr(), k.Request(0))
	if err != nil || a.Status != k.Status || len(a.Body) != 1234 {
		t.Errorf("status %d, %d bytes, %v", a.Status, len(a.Body), err)
	}
	if memory, err := p.Anonymous(); err != nil || memory < 1<<20 {
		t.Errorf("memory: %d bytes, %v", memory, err)
	}
	if p.Ready() <= 0 {
		t.Error("Ready returned 0")
	}
}

func TestStartFailureIsAnError(t *testing.T) {
	dir := t.TempDir() + "/own"
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := start(t.Context(), exec.Command("/nothing/here"), "127.0.0.1:1", "/", dir); err == nil {
		t.Error("started")
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("its directory was not removed")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := start(ctx, exec.Command("sleep", "60"), "127.0.0.1:1", "/", ""); err == nil {
		t.Error("start succeeded for a server that never responds")
	}
}
