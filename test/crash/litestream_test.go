//go:build litestream

package crash

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"atrium/test/nodes"
)

// lag is how much a replica may lack at its end. Its sync interval is a second.
const lag = 5 * time.Second

// Litestream replicates a server at full speed, with its own checkpoints. After both are
// killed, the restored replica has everything that was acknowledged some seconds before.
// The test is run by hand, as docs/backup.md describes: LITESTREAM names the binary.
func TestLitestreamReplicatesAcknowledgedEntries(t *testing.T) {
	binary := os.Getenv("LITESTREAM")
	if binary == "" {
		t.Fatal("LITESTREAM names no binary")
	}
	db := newFile(t)
	dir := t.TempDir()
	path := strings.TrimPrefix(db.url, "sqlite:")
	replica := "file://" + filepath.Join(dir, "replica")
	clients, l := newClients(t, random(t), clientCount, db.tenants)
	for _, c := range clients {
		c.bulk = 500_000 // makes the WAL restart
	}
	s := start(t, db.url, "--metrics-addr", "127.0.0.1:0")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wait := load(ctx, clients, s.base)
	waitUntil(t, "entries are acknowledged", startLimit, func() bool { return l.acks() > 200 })

	log := &serverLog{}
	replicate := func() (kill func()) {
		cmd := exec.Command(binary, "replicate", path, replica)
		cmd.Stdout, cmd.Stderr = log, log
		ended, err := nodes.Begin(cmd)
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	logs := countLogs(path+"-wal", 15*time.Second, replicate)
	time.Sleep(3 * time.Second) // without Litestream, the server may restart the WAL
	var before int64
	var acks int
	kill := func() {}
	logs += countLogs(path+"-wal", 15*time.Second, func() func() {
		kill = replicate()
		return func() {}
	})
	before, acks = l.now(), l.acks()
	time.Sleep(lag)
	s.kill()
	kill()
	cancel()
	wait()
	l.ended()
	t.Logf("the WAL restarted %d times while Litestream ran, and had %d MiB at the end; output of Litestream:\n%s", logs, size(path+"-wal")>>20, log)
	restored := filepath.Join(dir, "restored.db")
	if out, err := exec.Command(binary, "restore", "-o", restored, replica).CombinedOutput(); err != nil {
		t.Fatalf("restore: %v\n%s", err, out)
	}
	stored, err := readFile(t.Context(), restored, db.tenants)
	if err != nil {
		t.Fatal(err)
	}
	v := l.audit(stored, before)
	v.report(t)
	t.Logf("%d were acknowledged %s before both were killed, %d at the end: lost %d, duplicated %d", acks, lag, l.acks(), v.lost, v.doubled)
}

// countLogs runs begin for a duration, and returns how many times the WAL restarted: its
// header then has a new salt.
func countLogs(path string, d time.Duration, begin func() (end func())) (n int) {
	end := begin()
	defer end()
	var last string
	for limit := time.Now().Add(d); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		head := make([]byte, 24)
		if file, err := os.Open(path); err == nil {
			_, _ = file.Read(head)
			_ = file.Close()
		}
		if salt := string(head[16:]); salt != last {
			if last != "" {
				n++
			}
			last = salt
		}
	}
	return n
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
