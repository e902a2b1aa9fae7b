package nodes_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/test/nodes"
	"atrium/test/receiver"
)

const signingSecret = "a-secret-of-a-test-with-32-bytes"

// A sender is a system that sends webhooks.
type sender struct {
	create    []string                                             // flags of a receiver for it
	sign      func(secret, id, body string, at time.Time) []string // returns the headers of a delivery; the last one has the signature
	signsTime bool                                                 // in the header before the last one
}

var senders = map[string]sender{
	"github": {
		[]string{"--provider", "github"},
		func(secret, id, body string, _ time.Time) []string {
			return []string{"X-GitHub-Event: push", "X-GitHub-Delivery: " + id, "X-Hub-Signature-256: sha256=" + digest(secret, body)}
		},
		false,
	},
	"hmac": {
		[]string{
			"--provider", "hmac", "--header", "X-Signature", "--algorithm", "sha256", "--encoding", "hex",
			"--content", "{timestamp}.{body}", "--timestamp-header", "X-Time", "--tolerance", "5m", "--event-id", `headers["x-id"]`,
		},
		func(secret, id, body string, at time.Time) []string {
			seconds := strconv.FormatInt(at.Unix(), 10)
			return []string{"X-Id: " + id, "X-Time: " + seconds, "X-Signature: " + digest(secret, seconds+"."+body)}
		},
		true,
	},
}

func digest(secret, content string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(content))
	return hex.EncodeToString(mac.Sum(nil))
}

// onEverySender runs a test with a receiver for each sender, which has the path, on three nodes.
func onEverySender(t *testing.T, test func(t *testing.T, s *service, from sender, path string)) {
	t.Helper()
	for name, from := range senders {
		t.Run(name, func(t *testing.T) {
			keys := receiver.KeyFile(t)
			s := newService(t, "--secrets-key-file", keys)
			secret := filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(secret, []byte(signingSecret), 0o600); err != nil {
				t.Fatal(err)
			}
			out := nodes.Must(t, append([]string{
				"receivers", "create", "--database", s.database, "--secrets-key-file", keys, "--tenant", string(s.tenant), "-o", "json",
				"--name", "Shop", "--source", "shop", "--secret-file", secret, "--type", "body.type", "--domain", "body.domain",
			}, from.create...)...)
			var made struct{ ReceiverID string }
			if err := json.Unmarshal([]byte(out), &made); err != nil || made.ReceiverID == "" {
				t.Fatalf("%s: %v", out, err)
			}
			test(t, s, from, "/in/"+made.ReceiverID)
		})
	}
}

func TestConcurrentReplaysOfADeliveryOnAllNodesCreateOneEntry(t *testing.T) {
	onEverySender(t, func(t *testing.T, s *service, from sender, path string) {
		bodies := map[string]bool{}
		for n := range rounds {
			body := fmt.Sprintf(`{"type": "order.paid", "domain":"shop%d.example",  "n":1.00}`, n)
			bodies[body] = true
			headers := from.sign(signingSecret, fmt.Sprint("delivery ", n), body, time.Now())
			first := 0
			for i, a := range s.atOnce(t, path, "", func(int) string { return body }, headers...) {
				replayed := a.header.Get("Idempotency-Replayed") != ""
				want := `{"entries":1,"replayed":0,"filtered":0,"quarantined":false}`
				if replayed {
					want = `{"entries":1,"replayed":1,"filtered":0,"quarantined":false}`
				} else {
					first++
				}
				if a.status/100 != 2 || a.body != want {
					t.Fatalf("response %d to delivery %d is %s, want %s", i, n, a, want)
				}
			}
			if first != 1 {
				t.Errorf("%d responses to delivery %d are not replays, want 1", first, n)
			}
		}
		if accounts, entries := s.export(t); len(accounts) != rounds || len(entries) != rounds {
			t.Errorf("%d accounts and %d entries are stored, want %d of each", len(accounts), len(entries), rounds)
		}
		if err := openStore(t, s.database).Export(t.Context(), s.tenant, func(r store.Record) error {
			if e, ok := r.(*atrium.Entry); ok && !bodies[string(e.Payload)] { // s.export has compact JSON
				t.Errorf("a payload is %q, which was not sent", e.Payload)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
}

func TestEveryNodeRefusesADeliveryThatDoesNotVerify(t *testing.T) {
	onEverySender(t, func(t *testing.T, s *service, from sender, path string) {
		const id, body = "refused", `{"type":"order.paid","domain":"shop.example"}`
		now := time.Now()
		whole := from.sign(signingSecret, id, body, now)
		last := len(whole) - 1
		signature, _, _ := strings.Cut(whole[last], ": ")
		type request struct {
			path, body string
			headers    []string
		}
		requests := map[string]request{
			"an altered byte":      {path, `{"type":"order.paid","domain":"shoq.example"}`, whole},
			"another secret":       {path, body, from.sign("another-secret-of-a-test-32-bytes", id, body, now)},
			"no signature":         {path, body, whole[:last]},
			"an empty signature":   {path, body, append(whole[:last:last], signature+": ")},
			"an unknown receiver":  {"/in/receiver_zzzzzzzzzzzzzzzzzzzzzzzzzz", body, whole},
			"no valid identifier":  {"/in/receiver", body, whole},
			"a repeated signature": {path, body, append(whole[:last+1:last+1], whole[last])},
		}
		if from.signsTime {
			requests["an old timestamp"] = request{path, body, from.sign(signingSecret, id, body, now.Add(-time.Hour))}
			requests["a future timestamp"] = request{path, body, from.sign(signingSecret, id, body, now.Add(time.Hour))}
			requests["no timestamp"] = request{path, body, append(whole[:last-1:last-1], whole[last])}
		}
		want := ""
		for name, r := range requests {
			for i, n := range s.nodes {
				a := send(nodes.Client(t), "POST", "http://"+n.Addr+r.path, "", r.body, append(r.headers[:len(r.headers):len(r.headers)], "X-Request-Id: same")...)
				if want == "" {
					want = a.body
				}
				if a.status != 401 || a.body != want {
					t.Errorf("%s, node %d: %s, want 401 and the body of the others, %s", name, i, a, want)
				}
			}
		}
		if accounts, entries := s.export(t); len(accounts)+len(entries) != 0 {
			t.Errorf("%d accounts and %d entries are stored, want none", len(accounts), len(entries))
		}
		var waiting []any
		out := nodes.Must(t, "receivers", "quarantine", strings.TrimPrefix(path, "/in/"), "--database", s.database, "--tenant", string(s.tenant), "-o", "json")
		if err := json.Unmarshal([]byte(out), &waiting); err != nil || len(waiting) > 0 {
			t.Errorf("in quarantine are %s, want none", out)
		}
	})
}
