package browser_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"atrium"
)

// A sender sends entries, and reads what sites read, with keys that the console has shown.
type sender struct {
	t    *testing.T
	base string
	key  string
}

// ask sends a request and returns its body; "" for GET's without one.
func (s sender) ask(method, path, body string) string {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, bytes.NewReader([]byte(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", s.key)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		s.t.Fatalf("%s %s: %s %s %v", method, path, response.Status, answer, err)
	}
	return string(answer)
}

// record posts an entry and returns the account that it went to.
func (s sender) record(body string) string {
	s.t.Helper()
	var receipt struct{ AccountID string }
	if err := json.Unmarshal([]byte(s.ask(http.MethodPost, "/v0/account_logs", body)), &receipt); err != nil {
		s.t.Fatal(err)
	}
	return receipt.AccountID
}

// row is the row of a table that has a text.
func row(text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("tbody tr")].find(row => row.textContent.includes(%q))`, text)
}

// press clicks a button in a row of a table, and confirms it.
func (b *tab) press(text, selector string) {
	b.t.Helper()
	get[int](b, fmt.Sprintf(`(%s.querySelector(%q).id = "pressed", 0)`, row(text), selector))
	b.confirm("#pressed")
}

// The day that docs/working-day.md describes, in the console: nothing of it needs another tool but what senders
// send and sites read.
func TestAWorkingDayInTheConsole(t *testing.T) {
	engines(t, func(t *testing.T, database string) {
		o := newOffice(t, database)
		scripting(t, o, func(t *testing.T, b *tab) { workingDay(t, o, b) })
	})
}

func workingDay(t *testing.T, o *office, b *tab) {
	// 8:30: a tenant and its keys.
	b.signIn(o, atrium.RoleOperator)
	b.open("/console/tenants")
	b.fill(`form[action="/console/tenants"] input`, "Northwind "+hostile[:24])
	b.submit(`form[action="/console/tenants"] button`)
	of := strings.Join(strings.Split(get[string](b, `location.pathname`), "/")[:3], "/")
	b.open(of + "/keys")
	b.fill(`input[name="name"]`, "crm")
	for _, scope := range atrium.ExternalScopes() {
		b.click(fmt.Sprintf(`input[value=%q]`, scope))
	}
	b.submit(`button.primary`)
	crm := sender{t, o.base, b.seen(".done code")}

	// 9:00: publish a page.
	b.open(of + "/brands")
	b.fill(`form.line:not(.tight) input`, "Northwind Tools")
	b.submit(`form.line:not(.tight) button`)
	b.open(of + "/pages/new")
	b.fill(`input[name="name"]`, "spring-fair")
	b.fill(`input[name="title"]`, "Meet us at the spring fair")
	b.submit(`button.primary`)
	b.heading("Edit spring-fair")
	page := strings.TrimSuffix(get[string](b, `location.pathname`), "/edit")
	b.open(page)
	b.submit(`form[action$="/publish"] button`)
	b.fill(`form[action$="/audiences"] input`, "Visitors from retail")
	b.submit(`form[action$="/audiences"] button`)
	b.heading("Visitors from retail")
	audience := get[string](b, `location.pathname`)
	version := func(headline, note string) {
		t.Helper()
		b.open(audience)
		b.fill(`input[name="text:/headline"]`, headline)
		b.fill(`input[name="note"]`, note)
		b.submit(`button.primary`)
	}
	version("Tools that last", "first draft")
	b.submit(`form[action$="/versions/1/publish"] button`)
	if listed := crm.ask(http.MethodGet, "/v0/pages?status=published", ""); !strings.Contains(listed, "spring-fair") {
		t.Errorf("sites do not see the page: %s", listed)
	}

	// 10:00: two editors at once. The second one has an old page.
	id := atrium.PageID(page[strings.LastIndex(page, "/")+1:])
	b.open(page + "/edit")
	tenant := *o
	tenant.tenant = atrium.TenantID(of[strings.LastIndex(of, "/")+1:])
	tenant.changePage(t, id, "Meet us in hall 4", "")
	b.fill(`input[name="title"]`, "Meet us in Lisbon")
	b.ignoring("412")
	b.submit(`button.primary`)
	if theirs := b.seen(".theirs pre"); theirs != "Meet us in hall 4" {
		t.Errorf("the second editor sees %q", theirs)
	}
	b.submit(`button.primary`)
	b.heading("spring-fair")

	// 11:00: a new version, then a rollback.
	version("Tools that last, in hall 4", "with the hall")
	b.submit(`form[action$="/versions/2/publish"] button`)
	b.open(audience + "/compare?from=1&to=2")
	if added := b.seen("ins"); !strings.Contains(added, "in hall 4") {
		t.Errorf("the comparison shows %q", added)
	}
	b.open(audience)
	b.submit(`form[action$="/versions/1/publish"] button`)
	if state := get[string](b, row("first draft")+`.querySelector(".status").textContent`); state != "published" {
		t.Errorf("after the rollback, version 1 is %q", state)
	}

	// 13:00: incoming activity. One entry has only a name: it is moved to the right account.
	hearth := crm.record(`{"source":"crm","type":"deal.opened","domain":"www.hearth.example","name":"Hearth","payload":{"deal":"D-1"},"idempotencyKey":"deal-1"}`)
	lost := crm.record(`{"source":"forms","type":"form.sent","name":"Hearth and Home","payload":{"form":"fair"},"idempotencyKey":"form-1"}`)
	if lost == hearth {
		t.Fatal("the entry with an unknown name went to an account")
	}
	b.open(of + "/activity?unattributed=true")
	b.submit(`a[href$="/moves/new"]`)
	b.fill(`input[name="to"]`, "hearth.example")
	b.fill(`input[name="claimedName"]`, "hearth and home")
	b.submit(`form[method="get"] button`)
	if found := b.seen(`[role="status"] b`); found != "1" {
		t.Errorf("the rule selects %q entries", found)
	}
	b.submit(`button.primary`)
	b.heading("Moves")
	b.open(of + "/accounts/" + hearth)
	if entries := b.seen("section.wide"); !strings.Contains(entries, "form fair") || !strings.Contains(entries, "deal D-1") {
		t.Errorf("the timeline shows %q", entries)
	}

	// 15:00: merge two accounts. New entries for the old domain go to the survivor.
	ads := crm.record(`{"source":"ads","type":"ad.clicked","domain":"hearth-home.example","payload":{"campaign":7},"idempotencyKey":"click-1"}`)
	b.open(of + "/accounts/" + ads + "/merge")
	b.fill(`input[name="into"]`, "hearth.example")
	b.submit(`form.line button`)
	b.submit(`button.primary`)
	b.heading("Hearth")
	if to := crm.record(`{"source":"ads","type":"ad.clicked","domain":"hearth-home.example","payload":{"campaign":8},"idempotencyKey":"click-2"}`); to != hearth {
		t.Errorf("an entry for the merged domain went to %s, not %s", to, hearth)
	}

	// 17:00: review the changes of the page.
	b.open(of + "/audit?subject=" + string(id) + "&action=page.update")
	if records := get[int](b, `document.querySelectorAll("tbody tr").length`); records != 2 {
		t.Errorf("the audit log has %d changes of the page", records)
	}

	// After the day: privacy, and what was only for the demonstration.
	b.open(of + "/privacy/person")
	b.fill(`input[name="text"]`, "FAIR")
	b.submit(`form.stack button`)
	if found := b.seen("#found"); !strings.HasPrefix(found, "Found: 1 entry and 0 prospects") {
		t.Errorf("the search for a person says %q", found)
	}
	if data := b.download(`form[action$=".ndjson"] button`, "person.ndjson"); !strings.HasPrefix(data, `{"kind":"accountLog"`) || !strings.Contains(data, `{"form":"fair"}`) {
		t.Errorf("the data of a person: %q", data)
	}
	b.submit(`button[name="erase"]`)
	b.heading("Erase a person")
	b.fill(`input[name="confirm"]`, "no")
	b.ignoring("400")
	b.submit(`button.danger`)
	if problem := b.seen(".problem"); !strings.Contains(problem, "Nothing was erased") {
		t.Errorf("a wrong confirmation says %q", problem)
	}
	b.fill(`input[name="confirm"]`, "erase")
	b.submit(`button.danger`)
	b.heading("Privacy")
	b.open(of + "/privacy/retention")
	b.fill(`input[name="source:0"]`, "ads")
	b.fill(`input[name="days:0"]`, "90")
	b.submit(`form.stack button`)
	if says := b.seen("main"); !strings.Contains(says, "source ads: after 90 days, 0 now") {
		t.Errorf("the check of the rules says %q", says)
	}
	b.submit(`button[name="confirm"]`)
	if says := b.seen("main"); !strings.Contains(says, "source ads: deleted after 90 days") {
		t.Errorf("the rules are %q", says)
	}
	b.open(of + "/keys")
	b.press("crm", `form[action$="/rotate"] button`)
	renewed := sender{t, o.base, b.seen(".done code")}
	renewed.ask(http.MethodGet, "/v0/pages", "")
	crm.ask(http.MethodGet, "/v0/pages", "") // the previous secret works for another day
	b.open(page)
	b.confirm(`form[action$="/delete"] button`)
	if shown := b.seen("h1"); !strings.Contains(shown, "deleted") {
		t.Errorf("the deleted page has the heading %q", shown)
	}
	b.open(of + "/pages?deleted=true")
	b.submit("tbody a")
	b.submit(`form[action$="/undelete"] button`)
	b.open(of + "/tenant")
	b.fill(`input[name="confirmName"]`, "Northwind "+hostile[:24])
	b.ignoring("404") // the tenant may be gone already
	b.submit(`button.danger`)
	b.open("/console/tenants")
	if shown := get[string](b, row("Northwind")+`?.textContent ?? "gone"`); shown != "gone" && !strings.Contains(shown, "being deleted") {
		t.Errorf("the tenants show %q", shown)
	}
}
