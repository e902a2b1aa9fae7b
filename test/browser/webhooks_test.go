package browser_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/secrets"
)

// A receiver records the requests of webhooks. It responds with hostile text.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	ids []string // of events; guarded by mu
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		r.mu.Lock()
		r.ids = append(r.ids, req.Header.Get("webhook-id"))
		r.mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, hostile)
	}))
	t.Cleanup(r.Close)
	return r
}

// received returns how often an event was received.
func (r *receiver) received(id string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, received := range r.ids {
		if received == id {
			n++
		}
	}
	return n
}

// withWebhooks lets a server encrypt secrets and call receivers on this machine.
func withWebhooks(t *testing.T) func(*app.Config) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if _, _, err := secrets.AddKey(path, false); err != nil {
		t.Fatal(err)
	}
	return func(c *app.Config) {
		c.Settings.SecretsKeyFile, c.Settings.WebhookAllow = path, "127.0.0.0/8"
	}
}

// untilReloaded opens a page again and again until it shows a text in a place.
func (b *tab) untilReloaded(path, selector, want string) {
	b.t.Helper()
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		b.open(path)
		if get[bool](b, fmt.Sprintf(`[...document.querySelectorAll(%q)].some(e => e.textContent.includes(%q))`, selector, want)) {
			return
		}
		if time.Since(began) > 30*time.Second {
			b.screenshot("failed")
			b.t.Fatalf("%s does not show %q in %s", path, want, selector)
		}
	}
}

func TestWebhooksInTheConsole(t *testing.T) {
	engines(t, func(t *testing.T, database string) {
		o := newOffice(t, database, withWebhooks(t))
		receiver := newReceiver(t)
		scripting(t, o, func(t *testing.T, b *tab) {
			webhooks := "/console/" + string(o.tenant) + "/webhooks"
			b.signIn(o, atrium.RoleAdmin)
			b.follow(webhooks)
			b.heading("Webhooks")

			// A refused webhook keeps what was entered.
			b.fill(`input[name="url"]`, "http://192.0.2.1/hook")
			b.fill(`input[name="description"]`, hostile[:60])
			b.ignoring("400")
			b.submit(`form.stack button.primary`)
			if problem := b.seen(".problem"); !strings.Contains(problem, "URL") {
				t.Errorf("the problem is %q", problem)
			}
			if kept := get[string](b, `document.querySelector('input[name="description"]').value`); kept != hostile[:60] {
				t.Errorf("the form lost what was entered: %q", kept)
			}
			b.fill(`input[name="url"]`, receiver.URL)
			b.click(`input[value="page.published"]`)
			b.unfold()
			b.fill(`textarea[name="headers"]`, "Authorization: Bearer hidden")
			b.submit(`form.stack button.primary`)
			if secret := b.seen(".done"); !strings.Contains(secret, "whsec_") {
				t.Errorf("the page of a new webhook shows %q", secret)
			}
			b.submit(`tbody a`)
			own := get[string](b, `location.pathname`)

			// A test event arrives, and its delivery shows the request and the response.
			b.submit(`form[action$="/test"] button`)
			b.heading("webhook.test")
			if b.scriptsOff {
				b.untilReloaded(get[string](b, `location.pathname + location.search`), ".rows-open .status", "200")
			} else {
				b.until(`document.querySelector(".rows-open .status")?.textContent === "200" && !document.querySelector("[data-poll]")`)
			}
			b.untilReloaded(own, "tbody .status", "succeeded")
			list := get[string](b, `(() => { const r = new XMLHttpRequest(); r.open("GET", document.querySelector('a[href*="/deliveries.csv"]').href, false); r.send(); return r.responseText })()`)
			if !strings.Contains(list, "webhook.test,succeeded,1,200") {
				t.Errorf("the deliveries as CSV are %q", list)
			}
			b.submit(`#deliveries ~ .scroll tbody a`)
			b.heading("webhook.test")
			b.unfold()
			if response := b.seen("pre"); response != strings.TrimSpace(hostile) {
				t.Errorf("the response is shown as %q", response)
			}
			delivery := get[string](b, `location.pathname`)
			event := delivery[strings.LastIndex(delivery, "/")+1:]
			if n := receiver.received(event); n != 1 {
				t.Errorf("the event was received %d times", n)
			}
			b.submit(`form[action$="/redeliver"] button`)
			b.untilReloaded(delivery, ".rows-open li:nth-child(2) .status", "200")
			if n := receiver.received(event); n != 2 {
				t.Errorf("after it was sent again, the event was received %d times", n)
			}

			// A replay says how many events it sends, before it does.
			b.open(own)
			b.submit(`a[href$="/replay"]`)
			b.submit(`form[method="get"] button`)
			if counted := b.seen(`form [role="status"]`); counted != "1 event matches." {
				t.Errorf("the replay would send %q", counted)
			}

			// Change it, and delete it.
			b.open(own)
			b.submit(`a[href$="/edit"]`)
			b.fill(`input[name="description"]`, "Changed")
			b.submit(`form.stack button.primary`)
			b.heading("Changed")
			b.confirm(`form[action$="/rotate"] button`)
			if secret := b.seen(".done"); !strings.Contains(secret, "whsec_") {
				t.Errorf("after the rotation, the page shows %q", secret)
			}
			b.open(own)
			b.confirm(`form[action$="/disable"] button`)
			if state := b.seen("h1 .status"); state != "disabled" {
				t.Errorf("after it was disabled, the webhook is %q", state)
			}
			b.submit(`form[action$="/enable"] button`)
			if state := b.seen("h1 .status"); state != "healthy" {
				t.Errorf("after it was enabled, the webhook is %q", state)
			}
			b.confirm(`form[action$="/delete"] button`)
			b.heading("Webhooks")
			if left := get[int](b, `document.querySelectorAll("tbody a").length`); left != 0 {
				t.Errorf("%d webhooks are left", left)
			}
		})
	})
}

func TestThePagesOfWebhooksAreAccessible(t *testing.T) {
	o := newOffice(t, "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), withWebhooks(t))
	receiver := newReceiver(t)
	browser := newBrowser(t)
	webhooks, own, delivery := "/console/"+string(o.tenant)+"/webhooks", "", ""
	for _, v := range views() {
		t.Run(v.name, func(t *testing.T) {
			b := newTab(t, browser, o.base, v)
			b.signIn(o, atrium.RoleAdmin)
			if own == "" {
				b.open(webhooks)
				b.screenshot("console-webhooks-none")
				b.fill(`input[name="url"]`, receiver.URL)
				b.fill(`input[name="description"]`, "Deals for the warehouse "+hostile[:40])
				b.submit(`form.stack button.primary`)
				b.submit(`tbody a`)
				own = get[string](b, `location.pathname`)
				b.submit(`form[action$="/test"] button`)
				b.untilReloaded(own, "tbody .status", "succeeded")
				delivery = get[string](b, `document.querySelector("#deliveries ~ .scroll tbody a").pathname`)
			}
			for _, page := range []struct{ name, path, heading string }{
				{"webhooks", webhooks, "Webhooks"}, {"webhook", own, "Deals for the warehouse"}, {"webhook-week", own + "?range=7d", "Deals for the warehouse"},
				{"webhook-edit", own + "/edit", "Edit the webhook"}, {"delivery", delivery, "webhook.test"}, {"replay", own + "/replay?check=yes", "Replay events"},
			} {
				b.open(page.path)
				b.heading(page.heading)
				b.unfold()
				b.screenshot("console-" + page.name)
				b.checkLook(page.name)
				b.checkAccess(page.name)
			}
		})
	}
}
