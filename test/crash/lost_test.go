package crash

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var filesError = regexp.MustCompile(`level=ERROR msg="a job failed and will be retried" job=files error=(.*removed or replaced.*)`)

// A server whose files were moved away reports it and acknowledges nothing, not even
// replays. It recovers when they are put back, with everything acknowledged.
func TestFileRemovedOrReplacedUnderARunningServer(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(path, kept string) error{
		"moved away": os.Rename,
		"replaced": func(path, kept string) error {
			if err := os.Rename(path, kept); err != nil {
				return err
			}
			return os.WriteFile(path, []byte("other"), 0o600)
		},
	} {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			t.Run(name+" "+suffix, func(t *testing.T) {
				t.Parallel()
				db := newFile(t)
				path := strings.TrimPrefix(db.url, "sqlite:") + suffix
				kept := filepath.Join(t.TempDir(), "kept")
				s := start(t, db.url)
				clients, _ := newClients(t, random(t), 1, db.tenants)
				c := clients[0]
				c.base = s.base
				// send sends an entry with an idempotency key and returns its identifier.
				send := func(key string, status int) (id string, replayed bool) {
					t.Helper()
					a, ok := c.send(http.MethodPost, "/v0/account_logs", db.tenants[0].key, key, []byte(`{"source":"crm","domain":"lost.example","payload":{}}`))
					if !ok || a.status != status {
						t.Fatalf("%s: %d %s, want %d", key, a.status, a.body, status)
					}
					var r struct{ AccountLogID string }
					if err := json.Unmarshal(a.body, &r); err != nil {
						t.Fatal(err)
					}
					return r.AccountLogID, a.header.Get("Idempotency-Replayed") == "true"
				}
				before, _ := send("before", http.StatusCreated)
				if err := lose(path, kept); err != nil {
					t.Fatal(err)
				}
				send("during", http.StatusServiceUnavailable)
				send("during", http.StatusServiceUnavailable)
				send("before", http.StatusServiceUnavailable)
				if ready, alive := s.status("/readyz"), s.status("/healthz"); ready != http.StatusServiceUnavailable || alive != http.StatusOK {
					t.Errorf("/readyz: %d, /healthz: %d", ready, alive)
				}
				if line := s.waitLog(filesError); !strings.Contains(line, path) {
					t.Errorf("the log says %q", line)
				}
				if err := os.Rename(kept, path); err != nil {
					t.Fatal(err)
				}
				if ready := s.status("/readyz"); ready != http.StatusOK {
					t.Errorf("/readyz after the file was restored: %d", ready)
				}
				during, _ := send("during", http.StatusCreated)
				s.signalAndWait()
				c.base = start(t, db.url).base
				for key, want := range map[string]string{"before": before, "during": during} {
					if id, replayed := send(key, http.StatusCreated); id != want || !replayed {
						t.Errorf("%s is %s after a restart, replayed: %v, want %s", key, id, replayed, want)
					}
				}
			})
		}
	}
}
