package browser_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"atrium"
)

// deliver sends a webhook as GitHub does, and returns the status of the response.
func deliver(t *testing.T, address, secret, id, body string) int {
	t.Helper()
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(mac, body)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "X-GitHub-Event": "issues", "X-GitHub-Delivery": id, "X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil)),
	} {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func TestReceiversInTheConsole(t *testing.T) {
	engines(t, func(t *testing.T, database string) {
		o := newOffice(t, database, withWebhooks(t))
		scripting(t, o, func(t *testing.T, b *tab) {
			receivers := "/console/" + string(o.tenant) + "/receivers"
			b.signIn(o, atrium.RoleAdmin)
			b.follow(receivers)
			b.heading("Receivers")

			// A refused receiver keeps what was entered.
			b.fill(`input[name="name"]`, hostile[:60])
			b.unfold()
			b.fill(`textarea[name="mapping:type"]`, "body.")
			b.ignoring("400")
			b.submit(`form.stack button.primary`)
			if problem := b.seen(".problem"); !strings.Contains(problem, "Type") || !strings.Contains(problem, "line 1") {
				t.Errorf("the problem is %q", problem)
			}
			if kept := get[string](b, `document.querySelector('input[name="name"]').value`); kept != hostile[:60] {
				t.Errorf("the form lost what was entered: %q", kept)
			}
			b.unfold()
			b.fill(`textarea[name="mapping:type"]`, "body.kind")
			b.submit(`form.stack button.primary`)
			secret := get[string](b, `document.querySelector(".done code").textContent`)
			own := strings.TrimSuffix(receivers, "/receivers") + "/receivers/" + get[string](b, `document.querySelector(".facts div:last-child code").textContent`)
			address := get[string](b, `document.querySelector(".facts code").textContent`)

			// What is verified and cannot be mapped waits until the mapping is corrected.
			for id, want := range map[string]int{"1": 202, "2": 202} {
				if status := deliver(t, address, secret, id, fmt.Sprintf(`{"number":%s,"organization":{"login":"Example"}}`, id)); status != want {
					t.Errorf("delivery %s: status %d, want %d", id, status, want)
				}
			}
			if status := deliver(t, address, "wrong", "3", "{}"); status != http.StatusUnauthorized {
				t.Errorf("a delivery with a wrong signature: status %d", status)
			}
			b.open(own)
			if rows := get[int](b, `document.querySelectorAll("#quarantine ~ .scroll tbody tr").length`); rows != 2 {
				t.Errorf("%d deliveries are in quarantine", rows)
			}
			b.submit(`#quarantine ~ .scroll tbody a`)
			b.heading("Delivery in quarantine")
			if problem := b.seen(".problem"); !strings.Contains(problem, "type") {
				t.Errorf("the fault is %q", problem)
			}
			b.open(own + "/edit")
			b.fill(`textarea[name="mapping:type"]`, `"issue." + string(body.number)`)
			b.submit(`form.stack button.primary`)
			b.submit(`form[action$="/map"] button`)
			if result := b.seen(".done"); !strings.Contains(result, "2 deliveries were mapped: 2 new entries") || !strings.Contains(result, "0 are in quarantine") {
				t.Errorf("after they were mapped again: %q", result)
			}

			// A trial stores nothing.
			b.open(own)
			b.fill(`textarea[name="headers"]`, "X-GitHub-Event: issues")
			b.fill(`textarea[name="body"]`, `{"number":7}`)
			b.submit(`form[action$="/try"] button`)
			if result := b.seen("#try ~ .scroll"); !strings.Contains(result, "issue.7") || !strings.Contains(result, "without an account") {
				t.Errorf("the trial shows %q", result)
			}
			if result := b.seen("#try ~ [role=status]"); !strings.Contains(result, "Not verified") {
				t.Errorf("the trial shows %q", result)
			}
			b.submit(`button[name="sample"]`)
			if body := get[string](b, `document.querySelector("textarea[name=body]").value`); !strings.Contains(body, "refs/heads/main") {
				t.Errorf("the sample has the body %q", body)
			}
			if result := b.seen("#try ~ [role=status]"); !strings.Contains(result, "It would go to quarantine: type:") { // a push has no number
				t.Errorf("the trial of the sample shows %q", result)
			}
			b.open("/console/" + string(o.tenant) + "/activity?source=github")
			if rows := b.seen("main"); !strings.Contains(rows, "issue.1") || !strings.Contains(rows, "issue.2") || strings.Contains(rows, "issue.7") {
				t.Errorf("the activity shows %q", rows)
			}

			b.submit(`main ol a, main table a`)
			if sender := get[string](b, `Array.from(document.querySelectorAll("dd a")).find(a => a.pathname === "`+own+`").textContent`); !strings.HasPrefix(sender, hostile[:20]) {
				t.Errorf("the entry was sent by %q", sender)
			}

			b.open(own)
			b.submit(`form[action$="/rotate"] button`)
			if text := b.seen(".done"); !strings.Contains(text, "This is the secret") {
				t.Errorf("after the rotation, the page shows %q", text)
			}
			b.open(own)
			b.confirm(`form[action$="/disable"] button`)
			if state := b.seen("h1 .status"); state != "disabled" {
				t.Errorf("after it was disabled, the receiver is %q", state)
			}
			b.submit(`form[action$="/enable"] button`)
			b.confirm(`form[action$="/delete"] button`)
			b.heading("Receivers")
			if left := get[int](b, `document.querySelectorAll("tbody a").length`); left != 0 {
				t.Errorf("%d receivers are left", left)
			}
		})
	})
}

func TestThePagesOfReceiversAreAccessible(t *testing.T) {
	o := newOffice(t, "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), withWebhooks(t))
	browser := newBrowser(t)
	receivers, own, delivery := "/console/"+string(o.tenant)+"/receivers", "", ""
	for _, v := range views() {
		t.Run(v.name, func(t *testing.T) {
			b := newTab(t, browser, o.base, v)
			b.signIn(o, atrium.RoleAdmin)
			if own == "" {
				b.open(receivers)
				b.screenshot("console-receivers-none")
				b.fill(`input[name="name"]`, "Issues "+hostile[:40])
				b.unfold()
				b.fill(`textarea[name="mapping:type"]`, `"issue." + string(body.number)`)
				b.submit(`form.stack button.primary`)
				b.screenshot("console-receiver-new")
				secret := get[string](b, `document.querySelector(".done code").textContent`)
				own = receivers + "/" + get[string](b, `document.querySelector(".facts div:last-child code").textContent`)
				address := get[string](b, `document.querySelector(".facts code").textContent`)
				for id, body := range map[string]string{"1": `{"number":1}`, "2": `{"title":"no number"}`} {
					if status := deliver(t, address, secret, id, body); status/100 != 2 {
						t.Fatalf("status %d", status)
					}
				}
				b.open(own)
				delivery = get[string](b, `document.querySelector("#quarantine ~ .scroll tbody a").pathname`)
			}
			for _, page := range []struct{ name, path, heading string }{
				{"receivers", receivers, "Receivers"}, {"receiver", own, "Issues"}, {"receiver-edit", own + "/edit", "Edit the receiver"}, {"quarantined", delivery, "Delivery in quarantine"},
			} {
				b.open(page.path)
				b.heading(page.heading)
				b.unfold()
				b.screenshot("console-" + page.name)
				b.checkLook(page.name)
				b.checkAccess(page.name)
			}
			b.open(own)
			b.fill(`textarea[name="body"]`, `[{"number":7},{"number":8}]`)
			b.submit(`form[action$="/try"] button`)
			b.submit(`button[name="sample"]`)
			b.screenshot("console-receiver-try")
			b.checkLook("receiver-try")
			b.checkAccess("receiver-try")
		})
	}
}
