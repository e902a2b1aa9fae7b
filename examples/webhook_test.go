package examples

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	webhookSecret = "It's a Secret to Everybody"
	pushed        = `{"ref": "refs/heads/main", "size": 1.50, "repository": {"owner": {"login": "Northwind"}}}`
)

// receivers are the commands of the receivers, without the address.
func receivers(t *testing.T) map[string][]string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "webhook")
	run(t, ".", nil, "go", "build", "-o", binary, "./webhook")
	return map[string][]string{"go": {binary}, "python": {"python3", "webhook/receiver.py"}}
}

// startReceiver starts a receiver and returns its URL.
func startReceiver(t *testing.T, command []string, env []string) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	_ = free.Close()
	cmd := exec.Command(command[0], append(command[1:], addr)...)
	cmd.Env = append(append(os.Environ(), "WEBHOOK_SECRET="+webhookSecret), env...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close()
			return "http://" + addr
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v does not listen: %s", command, &log)
		}
	}
}

// deliver sends a webhook as GitHub does, signed with a secret. It returns the status.
func deliver(t *testing.T, receiver, secret, delivery, body string) int {
	t.Helper()
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, receiver+"/github", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "X-Github-Event": {"push"},
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))},
	}
	if delivery != "" {
		r.Header.Set("X-GitHub-Delivery", delivery)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// recorded returns the entries that have the key of a delivery.
func (s server) recorded(t *testing.T, delivery string) (items []struct{ AccountID, Source, Type string }) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/manage/v0/account_logs?idempotencyKey=github-"+delivery, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("x-api-key", s.manageKey)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body)
	var list struct {
		Items []struct{ AccountID, Source, Type string }
	}
	if err := json.Unmarshal(body, &list); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", response.Status, body, err)
	}
	return list.Items
}

func TestReceiversRecordEachSignedDeliveryOnce(t *testing.T) {
	s := start(t)
	for name, command := range receivers(t) {
		t.Run(name, func(t *testing.T) {
			receiver := startReceiver(t, command, s.env())
			for _, c := range []struct {
				what, secret, delivery, body string
				want, entries                int
			}{
				{"a signed delivery", webhookSecret, name + "-1", pushed, 200, 1},
				{"the same delivery again", webhookSecret, name + "-1", pushed, 200, 1},
				{"another secret", "guess", name + "-2", pushed, 401, 0},
				{"no identifier", webhookSecret, "", pushed, 400, 0},
				{"not JSON", webhookSecret, name + "-3", "{", 400, 0},
				{"a body that Atrium refuses", webhookSecret, name + "-4", `[1]`, 0, 0},
				{"the identifier of another event", webhookSecret, name + "-1", `{"other": 1}`, 502, 1},
				{"an event without a repository", webhookSecret, name + "-5", `{"zen": "Keep it logically awesome."}`, 200, 1},
			} {
				got := deliver(t, receiver, c.secret, c.delivery, c.body)
				if got != c.want && (c.want != 0 || got < 400) {
					t.Errorf("%s: %d, want %d", c.what, got, c.want)
				}
				entries := s.recorded(t, c.delivery)
				if len(entries) != c.entries {
					t.Errorf("%s: %d entries, want %d", c.what, len(entries), c.entries)
				}
				if len(entries) == 1 && (entries[0].Source != "github" || entries[0].Type != "push") {
					t.Errorf("%s: %+v", c.what, entries)
				}
			}
			if of := s.recorded(t, name+"-1"); len(of) != 1 || of[0].AccountID != "account_01kzdemo0000000000000000a1" {
				t.Errorf("the delivery of Northwind is in %+v", of)
			}
		})
	}
}

func TestReceiversFailIfAtriumDoes(t *testing.T) {
	for name, command := range receivers(t) {
		t.Run(name, func(t *testing.T) {
			receiver := startReceiver(t, command, []string{"ATRIUM_SERVER=http://127.0.0.1:1", "ATRIUM_KEY=atr_x"})
			if got := deliver(t, receiver, webhookSecret, "1", pushed); got != http.StatusBadGateway {
				t.Errorf("while Atrium is away: %d", got)
			}
		})
	}
}

func TestPageShowsTheReceiversThatAreTested(t *testing.T) {
	page, err := os.ReadFile("../docs/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	for file, language := range map[string]string{"webhook/main.go": "go", "webhook/receiver.py": "python"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(page, []byte("```"+language+"\n"+string(text)+"```\n")) {
			t.Errorf("the page does not show %s", file)
		}
	}
}
