package nodes_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"atrium/test/nodes"
	"atrium/test/receiver"
)

const (
	replays       = 10 // of each delivery
	deliveries    = 5
	signingSecret = "a-secret-of-a-test-with-32-bytes"
)

// addReceiver creates a receiver whose deliveries are signed with their time, and returns its path.
func (s *service) addReceiver(t *testing.T, keyFile string) string {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(signingSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	var made struct{ ReceiverID string }
	out := nodes.Must(t, "receivers", "create", "--database", s.database, "--secrets-key-file", keyFile, "--tenant", string(s.tenant), "-o", "json",
		"--name", "Shop", "--provider", "hmac", "--source", "shop", "--secret-file", secret, "--header", "X-Signature", "--algorithm", "sha256", "--encoding", "hex",
		"--content", "{timestamp}.{body}", "--timestamp-header", "X-Time", "--tolerance", "5m",
		"--type", "body.type", "--domain", "body.domain", "--event-id", "body.id")
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.ReceiverID == "" {
		t.Fatalf("%s: %v", out, err)
	}
	return "/in/" + made.ReceiverID
}

// signed returns the headers of a delivery.
func signed(secret, body string, at time.Time) []string {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(seconds + "." + body))
	return []string{"Content-Type: application/json", "X-Time: " + seconds, "X-Signature: " + hex.EncodeToString(mac.Sum(nil))}
}

func TestConcurrentReplaysOfADeliveryOnAllNodesCreateOneEntry(t *testing.T) {
	keys := receiver.KeyFile(t)
	s := newService(t, "--secrets-key-file", keys)
	path := s.addReceiver(t, keys)
	client := &http.Client{Timeout: settled, Transport: &http.Transport{MaxIdleConnsPerHost: replays}}
	defer client.CloseIdleConnections()
	for n := range deliveries {
		body := fmt.Sprintf(`{"id":"delivery %d","type":"order.paid","domain":"shop%d.example","text":"a  b"}`, n, n)
		headers := signed(signingSecret, body, time.Now())
		responses := make([]response, replays)
		var group sync.WaitGroup
		for i := range responses {
			url := "http://" + s.nodes[i%len(s.nodes)].Addr + path
			group.Go(func() { responses[i] = send(client, "POST", url, "", body, headers...) })
		}
		group.Wait()
		for i, a := range responses {
			if a.status/100 != 2 {
				t.Fatalf("response %d to delivery %d is %s", i, n, a)
			}
		}
	}
	accounts, entries := s.export(t)
	if len(accounts) != deliveries || len(entries) != deliveries {
		t.Errorf("%d accounts and %d entries are stored, want %d of each", len(accounts), len(entries), deliveries)
	}
}

func TestEveryNodeRefusesADeliveryThatDoesNotVerify(t *testing.T) {
	keys := receiver.KeyFile(t)
	s := newService(t, "--secrets-key-file", keys)
	path := s.addReceiver(t, keys)
	const body = `{"id":"refused","type":"order.paid","domain":"shop.example"}`
	now := time.Now()
	whole := signed(signingSecret, body, now)
	requests := map[string]struct {
		body    string
		headers []string
	}{
		"an altered byte":    {`{"id":"refused","type":"order.paid","domain":"shoq.example"}`, whole},
		"an old timestamp":   {body, signed(signingSecret, body, now.Add(-time.Hour))},
		"another secret":     {body, signed("another-secret-of-a-test-32-bytes", body, now)},
		"no signature":       {body, whole[:2]},
		"no timestamp":       {body, []string{whole[0], whole[2]}},
		"an empty signature": {body, []string{whole[0], whole[1], "X-Signature: "}},
	}
	want := ""
	for name, r := range requests {
		for i, n := range s.nodes {
			a := send(nodes.Client(t), "POST", "http://"+n.Addr+path, "", r.body, r.headers...)
			var problem map[string]any
			if err := json.Unmarshal([]byte(a.body), &problem); err != nil || a.status != 401 {
				t.Errorf("%s, node %d: %s, want 401", name, i, a)
				continue
			}
			delete(problem, "requestId")
			got, _ := json.Marshal(problem) //nolint:errchkjson // it was decoded from JSON
			if want == "" {
				want = string(got)
			}
			if string(got) != want {
				t.Errorf("%s, node %d: %s, and another response is %s", name, i, got, want)
			}
		}
	}
	if accounts, entries := s.export(t); len(accounts)+len(entries) != 0 {
		t.Errorf("%d accounts and %d entries are stored, want none", len(accounts), len(entries))
	}
}
