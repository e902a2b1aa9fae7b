package crash

import (
	"net/http"
	"strings"
	"testing"
)

// refuses checks that a server does not start, and that its last log line has the words.
func refuses(t *testing.T, s *server, words ...string) {
	t.Helper()
	if code := s.wait().ExitCode(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	for _, word := range words {
		if !strings.Contains(s.log.String(), word) {
			t.Errorf("the server did not say %q, but: %s", word, s.log)
		}
	}
}

// On a full disk, a server starts and serves reads if the last one was killed, because its
// shm file still exists. After a clean stop there is no space for that file, and the
// server says so. With free space it starts.
func TestStartOnAFullFileSystem(t *testing.T) {
	t.Parallel()
	if !mounting(t, "TestFileSizeLimitReturns503") {
		return
	}
	disk := newMount(t, "size=24m")
	db := newFileIn(t, disk.path)
	disk.fill()
	refuses(t, launch(t, db.url), db.url[len("sqlite:"):], "disk is full")
	disk.free()
	s := start(t, db.url)
	s.kill()
	disk.fill()
	s = start(t, db.url)
	clients, _ := newClients(t, random(t), 1, db.tenants)
	c := clients[0]
	c.base = s.base
	for path, status := range map[string]int{"/v0/pages": http.StatusOK, "/readyz": http.StatusOK} {
		if a, ok := c.send(http.MethodGet, path, db.tenants[0].key, "", nil); !ok || a.status != status {
			t.Errorf("%s on a full disk: %d %s", path, a.status, a.body)
		}
	}
	s.signalAndWait()
	disk.free()
	start(t, db.url).stop()
}

// A read-only file system is reported at the start, with the fix.
func TestStartOnAReadOnlyFileSystem(t *testing.T) {
	t.Parallel()
	if !mounting(t, "TestAnUnwritableFileIsRefusedWithAdvice") {
		return
	}
	disk := newMount(t, "size=24m")
	db := newFileIn(t, disk.path)
	disk.remount("ro")
	refuses(t, launch(t, db.url), db.url[len("sqlite:"):], "must be writable", "read-only")
	disk.remount("rw")
	start(t, db.url).stop()
}
