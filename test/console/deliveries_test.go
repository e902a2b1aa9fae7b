package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/secrets"
)

// withEncryption lets a server store secrets and call receivers on this machine.
func withEncryption(t *testing.T) func(*app.Config) {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys")
	if _, _, err := secrets.AddKey(keys, false); err != nil {
		t.Fatal(err)
	}
	return func(c *app.Config) { c.Settings.SecretsKeyFile, c.Settings.WebhookAllow = keys, "127.0.0.0/8" }
}

// The page of a test event waits for the response, and shows it.
func TestATestEventLeadsToItsResponse(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		respond := make(chan struct{})
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			<-respond
			w.WriteHeader(http.StatusAccepted)
		}))
		t.Cleanup(receiver.Close)
		cookie, webhooks := s.signIn(atrium.RoleAdmin), "/console/"+string(s.tenants[0])+"/webhooks"
		made := s.ask(http.MethodPost, webhooks, url.Values{"url": {receiver.URL}}, cookie)
		own := regexp.MustCompile(webhooks + `/webhook_[0-9a-z]+`).FindString(made.body)
		if own == "" {
			t.Fatalf("no webhook: %s %s", made.Status, made.body)
		}
		sent := s.ask(http.MethodPost, own+"/test", nil, cookie)
		for range 5 { // each has its own page
			former := sent.Header.Get("Location")
			if sent = s.ask(http.MethodPost, own+"/test", nil, cookie); sent.Header.Get("Location") == former {
				t.Errorf("two tests lead to %s", former)
			}
		}
		at := sent.Header.Get("Location")
		if sent.StatusCode != http.StatusSeeOther || !strings.HasPrefix(at, own+"/deliveries/event_") {
			t.Fatalf("the test leads to %s %q", sent.Status, at)
		}
		const waits = "Waiting for the response."
		a := s.ask(http.MethodGet, at, nil, cookie)
		if a.StatusCode != http.StatusOK || !strings.Contains(a.body, waits) || !strings.Contains(a.body, `<a href="`+strings.ReplaceAll(at, "&", "&amp;")+`">Check again</a>`) {
			t.Errorf("before the response: %s %s", a.Status, a.body)
		}
		other := strings.Replace(at, "/deliveries/event_", "/deliveries/event_0", 1)
		for _, wrong := range []string{other, strings.Split(at, "?")[0] + "?position=x", strings.Split(at, "?")[0] + "?position=0"} {
			if a := s.ask(http.MethodGet, wrong, nil, cookie); a.StatusCode != http.StatusNotFound {
				t.Errorf("%s: %s", wrong, a.Status)
			}
		}
		close(respond)
		for began := time.Now(); strings.Contains(a.body, waits); time.Sleep(50 * time.Millisecond) {
			if time.Since(began) > 20*time.Second {
				t.Fatalf("the response is not shown: %s", a.body)
			}
			a = s.ask(http.MethodGet, at, nil, cookie)
		}
		if a.StatusCode != http.StatusOK || !strings.Contains(a.body, ">202<") {
			t.Errorf("after the response: %s %s", a.Status, a.body)
		}
	}, withEncryption(t))
}
