package examples

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// eventSecret is the secret of the specification's example.
const eventSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// sign returns a signature as Standard Webhooks describes it.
func sign(t *testing.T, secret, id, timestamp, body string) string {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "." + body))
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func TestSignaturesOfTheTestAreThoseOfTheSpecification(t *testing.T) {
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	if got := sign(t, eventSecret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", `{"test": 2432232314}`); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// checkEndpoint sends requests to an endpoint that only sometimes are events of Atrium.
func checkEndpoint(t *testing.T, command []string) {
	t.Helper()
	endpoint := startReceiver(t, command, []string{"WEBHOOK_SECRET=" + eventSecret})
	other := "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32))
	now := func(off time.Duration) string { return strconv.FormatInt(time.Now().Add(off).Unix(), 10) }
	const body = `{"id":"event_1","type":"account_log.created","timestamp":"2026-03-02T09:00:00.000Z","tenantId":"tenant_1","position":1,"data":{"name":"Ünal"}}`
	for what, c := range map[string]struct {
		timestamp, signed, sent string
		signatures              func(string) string // of the valid one
		want                    int
	}{
		"an event":                 {now(0), body, body, nil, 204},
		"the same event again":     {now(-time.Second), body, body, nil, 204},
		"a rotated secret":         {now(0), body, body, func(s string) string { return sign(t, other, "event_1", now(0), body) + " " + s }, 204},
		"a future version":         {now(0), body, body, func(s string) string { return "v2,abc " + s }, 204},
		"another body":             {now(0), body, strings.Replace(body, "Ünal", "Anal", 1), nil, 401},
		"an old request":           {now(-10 * time.Minute), body, body, nil, 401},
		"a request from later":     {now(10 * time.Minute), body, body, nil, 401},
		"no time":                  {"", body, body, nil, 401},
		"a time that is no number": {"soon", body, body, nil, 401},
		"another secret":           {now(0), body, body, func(string) string { return sign(t, other, "event_1", now(0), body) }, 401},
		"no signature":             {now(0), body, body, func(string) string { return "" }, 401},
		"no valid signature":       {now(0), body, body, func(string) string { return "v1 v1, ,x v1,AAAA" }, 401},
		"not an event":             {now(0), `[1]`, `[1]`, nil, 400},
		"a body that is too large": {now(0), body, strings.Repeat(" ", 2<<20), nil, 413},
	} {
		signature := sign(t, eventSecret, "event_1", c.timestamp, c.signed)
		if c.signatures != nil {
			signature = c.signatures(signature)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint+"/events", strings.NewReader(c.sent))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("webhook-id", "event_1")
		r.Header.Set("webhook-timestamp", c.timestamp)
		r.Header.Set("webhook-signature", signature)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			if c.want == http.StatusRequestEntityTooLarge { // an endpoint may close the connection before it has read all
				continue
			}
			t.Errorf("%s: %v", what, err)
			continue
		}
		_ = response.Body.Close()
		if response.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", what, response.StatusCode, c.want)
		}
	}
}

func TestEndpointsAcceptOnlySignedEvents(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "events")
	run(t, ".", nil, "go", "build", "-o", binary, "./events")
	for name, command := range map[string][]string{"go": {binary}, "python": {"python3", "events/endpoint.py"}} {
		t.Run(name, func(t *testing.T) { checkEndpoint(t, command) })
	}
}

func TestPageOfEventsShowsTheEndpointsThatAreTested(t *testing.T) {
	page, err := os.ReadFile("../docs/receive-events.md")
	if err != nil {
		t.Fatal(err)
	}
	for file, language := range map[string]string{"events/main.go": "go", "events/endpoint.py": "python", "typescript/events.ts": "ts"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(page, fmt.Appendf(nil, "```%s\n%s```\n", language, text)) {
			t.Errorf("the page does not show %s", file)
		}
	}
}
