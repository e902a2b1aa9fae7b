package examples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// senders are the commands of the senders, without the directory.
func senders(t *testing.T) map[string][]string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "sender")
	run(t, ".", nil, "go", "build", "-o", binary, "./sender")
	return map[string][]string{"go": {binary}, "python": {"python3", "sender/sender.py"}}
}

// A service responds to each entry with the statuses of its list, one after the other. 0 breaks the connection.
type service struct {
	statuses map[string][]int // by idempotency key
	got      []string
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var entry struct{ IdempotencyKey string }
	if err := json.Unmarshal(body, &entry); err != nil || r.Header.Get("X-Api-Key") != "atr_test" || r.URL.Path != "/v0/account_logs" {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	status := s.statuses[entry.IdempotencyKey][0]
	s.statuses[entry.IdempotencyKey] = s.statuses[entry.IdempotencyKey][1:]
	s.got = append(s.got, fmt.Sprint(entry.IdempotencyKey, " ", status))
	if status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Retry-After", "0")
	w.WriteHeader(status)
}

func TestSendersRetryUntilTheOutcomeIsKnown(t *testing.T) {
	for name, command := range senders(t) {
		t.Run(name, func(t *testing.T) {
			for what, c := range map[string]struct {
				statuses map[string][]int
				got      []string
				left     []string
				fails    bool
			}{
				"stored, with retries":     {map[string][]int{"a": {503, 201}, "b": {0, 201}}, []string{"a 503", "a 201", "b 0", "b 201"}, nil, false},
				"refused for good":         {map[string][]int{"a": {400}, "b": {201}}, []string{"a 400", "b 201"}, []string{"a.rejected"}, false},
				"a key that was used":      {map[string][]int{"a": {422}, "b": {429, 201}}, []string{"a 422", "b 429", "b 201"}, []string{"a.rejected"}, false},
				"a key that was withdrawn": {map[string][]int{"a": {401}}, []string{"a 401"}, []string{"a.json", "b.json"}, true},
			} {
				t.Run(what, func(t *testing.T) {
					t.Parallel()
					s := &service{statuses: c.statuses}
					server := httptest.NewServer(s)
					defer server.Close()
					dir := t.TempDir()
					for _, key := range []string{"b", "a"} {
						if err := os.WriteFile(filepath.Join(dir, key+".json"), fmt.Appendf(nil, `{"source":"s","payload":{},"idempotencyKey":%q}`, key), 0o600); err != nil {
							t.Fatal(err)
						}
					}
					cmd := exec.Command(command[0], append(slices.Clone(command[1:]), dir)...)
					cmd.Env = append(os.Environ(), "ATRIUM_SERVER="+server.URL, "ATRIUM_KEY=atr_test")
					if out, err := cmd.CombinedOutput(); (err != nil) != c.fails {
						t.Errorf("%v: %s", err, out)
					}
					files, err := os.ReadDir(dir)
					if err != nil {
						t.Fatal(err)
					}
					var left []string
					for _, f := range files {
						left = append(left, f.Name())
					}
					if !slices.Equal(s.got, c.got) || !slices.Equal(left, c.left) {
						t.Errorf("sent %q, want %q; %q is left, want %q", s.got, c.got, left, c.left)
					}
				})
			}
		})
	}
}

func TestPageOfActivityShowsTheSenderThatIsTested(t *testing.T) {
	page, err := os.ReadFile("../docs/activity.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("sender/sender.py")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(page, fmt.Appendf(nil, "```python\n%s```\n", text)) {
		t.Error("the page does not show sender/sender.py")
	}
}
