package browser_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"

	"atrium"
	"atrium/internal/store/engine/postgrestest"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

func TestEveryPageOfTheConsoleIsAccessible(t *testing.T) {
	o := newOffice(t, "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"))
	o.countEntries(t)
	for _, template := range []atrium.SummaryTemplate{{Source: "crm", Template: "Deal {/stage}: {/amount} " + hostile[:40]}, {Source: "product", Type: "signup", Template: "Signed up for {/plan}"}} {
		if _, err := o.store.PutSummaryTemplate(t.Context(), atrium.CommandLine(o.tenant), template, func(atrium.SummaryTemplates) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	deals, _, err := o.store.FindEntries(t.Context(), o.tenant, atrium.EntryFilter{IdempotencyKey: "demo-1"}, nil, 1, false)
	if err != nil || len(deals) != 1 {
		t.Fatal(deals, err)
	}
	browser := newBrowser(t)
	for _, v := range views() {
		t.Run(v.name, func(t *testing.T) {
			b := newTab(t, browser, o.base, v)
			b.signIn(o, atrium.RoleAdmin)
			of := "/console/" + string(o.tenant)
			for _, page := range []struct{ name, path, heading string }{
				{"overview", "?range=90d", "Overview"},
				{"overview-day", "", "Overview"},
				{"find", "/search?q=north", "Search"},
				{"find-none", "/search?q=nobody", "Search"},
				{"accounts", "/accounts", "Accounts"},
				{"accounts-search", "/accounts?q=north", "Accounts"},
				{"accounts-none", "/accounts?q=nobody", "Accounts"},
				{"account", "/accounts/account_01kzdemo0000000000000000a1", "Northwind"},
				{"merge", "/accounts/account_01kzdemo0000000000000000a1/merge?into=blueharbor.example", "Merge Northwind"},
				{"erase", "/accounts/account_01kzdemo0000000000000000a1/erase", "Erase Northwind"},
				{"prospects", "/prospects", "Prospects"},
				{"prospect", "/prospects/prospect_01kzdemo0000000000000000r1", "Dana Whitfield"},
				{"activity", "/activity", "Activity"},
				{"summaries", "/activity/summaries", "Summaries"},
				{"summaries-edit", "/activity/summaries?source=crm", "Summaries"},
				{"active", "/accounts/active?range=30d", "Most active accounts"},
				{"entry", "/activity/" + string(deals[0].ID), "deal.updated"},
				{"pages", "/pages", "Pages"},
				{"page", "/pages/page_01kzdemo0000000000000000p1", "Spring launch"},
				{"edit", "/pages/page_01kzdemo0000000000000000p1/edit", "Edit Spring launch"},
				{"page-new", "/pages/new", "New page"},
				{"audience", "/pages/page_01kzdemo0000000000000000p1/audiences/audience_01kzdemo0000000000000000s1", "Logistics companies"},
				{"version", "/pages/page_01kzdemo0000000000000000p1/audiences/audience_01kzdemo0000000000000000s1/versions/3", "Version 3"},
				{"compare", "/pages/page_01kzdemo0000000000000000p1/audiences/audience_01kzdemo0000000000000000s1/compare?from=2&to=3", "Version 2 and version 3"},
				{"keys", "/keys", "Keys"},
				{"people", "/people", "Users"},
				{"reads", "/reads", "Reads of personal data"},
				{"refused", "/refused", "Refused requests"},
				{"refused-one", "/refused?requestId=hostile", "Refused requests"},
				{"refused-none", "/refused?code=conflict", "Refused requests"},
				{"audit", "/audit", "Audit log"},
				{"moves", "/moves", "Moves"},
				{"moves-new", "/moves/new?to=northwind.example&claimedName=nobody", "Move entries"},
				{"brands", "/brands", "Brands"},
				{"pages-deleted", "/pages?deleted=true", "Pages"},
				{"privacy", "/privacy", "Privacy"},
				{"person", "/privacy/person", "Find a person"},
				{"retention", "/privacy/retention", "Retention rules"},
				{"transfer", "/transfer", "Import and export"},
			} {
				b.open(of + page.path)
				b.heading(page.heading)
				b.screenshot("console-" + page.name)
				b.checkLook(page.name)
				b.checkAccess(page.name)
			}
			b.open(of + "/privacy/person")
			b.fill(`input[name="text"]`, "dana@northwind.example")
			b.submit(`form.stack button`)
			if found := b.seen("#found"); found != "Found: 3 entries and 1 prospect" {
				t.Errorf("the search says %q", found)
			}
			b.screenshot("console-person-found")
			b.checkLook("person-found")
			b.checkAccess("person-found")
			b.submit(`button[name="erase"]`)
			b.heading("Erase a person")
			b.screenshot("console-person-erase")
			b.checkLook("person-erase")
			b.checkAccess("person-erase")
			b.open(of + "/privacy/person")
			b.fill(`input[name="text"]`, "nobody@northwind.example")
			b.submit(`form.stack button`)
			b.screenshot("console-person-none")
			b.checkLook("person-none")
			b.checkAccess("person-none")
		})
	}
}

// Everything that a page offers is done as a person does it: with and without scripts, on both engines.
func TestConsoleDoesWhatAPersonNeeds(t *testing.T) {
	engines(t, func(t *testing.T, database string) {
		o := newOffice(t, database)
		scripting(t, o, func(t *testing.T, b *tab) {
			of := "/console/" + string(o.tenant)
			account := func(domain string) string {
				t.Helper()
				found, _, err := o.store.Accounts(t.Context(), o.tenant, atrium.AccountFilter{Domain: domain}, atrium.AccountsNewest, nil, 1)
				if err != nil || len(found) != 1 {
					t.Fatalf("%s: %d accounts, %v", domain, len(found), err)
				}
				return string(found[0].ID)
			}
			suffix := strings.ToLower(strings.TrimPrefix(string(atrium.NewID[atrium.EntryID]()), "prospectlog_"))
			first, second := "a"+suffix+".example", "b"+suffix+".example"
			for _, domain := range []string{first, second} {
				o.record(t, atrium.Submission{Source: "crm", Type: "deal.won", Payload: []byte(`{"deal":"D-7"}`), Claim: atrium.Claim{Domain: domain}})
			}
			b.signIn(o, atrium.RoleAdmin)
			b.heading("Overview")
			b.open(of + "/accounts")
			b.heading("Accounts")

			// Find an account, and rename it.
			b.fill(`main input[name="q"]`, "https://www."+first+"/contact")
			b.submit(`main form[role="search"] button`)
			b.submit("tbody a")
			b.heading(first)
			if summary := b.seen(".summary"); summary != "deal D-7" {
				t.Errorf("the timeline shows %q", summary)
			}
			b.fill(`#edit + form input[name="name"]`, hostile)
			b.submit(`#edit + form button`)
			b.heading(strings.TrimSpace(hostile[:40]))

			// Merge it, and split it off again.
			b.submit(`.head a`)
			b.fill(`input[name="into"]`, second)
			b.submit(`form.line button`)
			b.submit(`button.primary`)
			if id := account(second); !strings.HasSuffix(get[string](b, `location.pathname`), id) {
				t.Errorf("after the merge, the page is %s, not that of %s", get[string](b, `location.pathname`), id)
			}
			if entries := get[int](b, `document.querySelectorAll(".timeline li").length`); entries != 2 {
				t.Errorf("the merged account shows %d entries", entries)
			}
			b.submit(`form[action$="/split"] button`)
			if id := account(first); !strings.HasSuffix(get[string](b, `location.pathname`), id) {
				t.Errorf("after the split, the page is %s, not that of %s", get[string](b, `location.pathname`), id)
			}

			// Move an entry, and undo that.
			b.submit(`.timeline a`)
			b.heading("deal.won")
			b.fill(`input[name="account"]`, "nobody.example")
			b.ignoring("404")
			b.submit(`form[action$="/move"] button`)
			b.heading("deal.won")
			if problem := b.seen(".problem"); !strings.Contains(problem, "No account has the domain or name nobody.example.") {
				t.Errorf("the problem is %q", problem)
			}
			if kept := get[string](b, `document.querySelector('input[name="account"]').value`); kept != "nobody.example" {
				t.Errorf("the form lost what was entered: %q", kept)
			}
			b.fill(`input[name="account"]`, second)
			b.submit(`form[action$="/move"] button`)
			if back := get[string](b, `document.querySelector(".crumbs a:last-child").pathname`); back != of+"/accounts/"+account(second) {
				t.Errorf("the moved entry belongs to %s", back)
			}
			b.submit(`form[action$="/undo"] button`)
			if back := get[string](b, `document.querySelector(".crumbs a:last-child").pathname`); back != of+"/accounts/"+account(first) {
				t.Errorf("after the undo, the entry belongs to %s", back)
			}

			// Add a prospect, change it, and take it from the account.
			b.open(of + "/accounts/" + account(first))
			b.click(`details:has(form[action$="/prospects"]) summary`)
			b.fill(`form[action$="/prospects"] input[name="name"]`, "Kim")
			b.submit(`form[action$="/prospects"] button`)
			b.submit(`#prospects + ul a`)
			b.heading("Kim")
			b.fill(`input[name="email"]`, "kim@"+first)
			b.submit(`button.primary`)
			if kept := get[string](b, `document.querySelector('input[name="email"]').value`); kept != "kim@"+first {
				t.Errorf("the prospect has the address %q", kept)
			}
			b.open(of + "/accounts/" + account(first))
			b.submit(`form[action$="/unlink"] button`)
			b.submit(`form.done button`)
			b.submit(`form[action$="/unlink"] button`)
			if left := get[int](b, `document.querySelectorAll('form[action$="/unlink"]').length`); left != 0 {
				t.Errorf("%d prospects are left", left)
			}

			// Write a template of summaries, with a preview, and delete it.
			b.open(of + "/activity")
			b.submit(`.head a[href$="/summaries"]`)
			b.heading("Summaries")
			b.fill(`input[name="source"]`, "crm")
			b.fill(`input[name="type"]`, "deal.won")
			b.fill(`textarea[name="template"]`, "Won <b>{/deal}</b>")
			b.submit(`button[name="preview"]`)
			if line := b.seen("#line"); line != "Won <b>D-7</b>" {
				t.Errorf("the preview is %q", line)
			}
			b.submit(`button[name="save"]`)
			b.open(of + "/accounts/" + account(first))
			if line := b.seen(".summary"); line != "Won <b>D-7</b>" {
				t.Errorf("the timeline shows %q", line)
			}
			b.open(of + "/activity/summaries")
			b.confirm(`button[name="delete"]`)
			if line := b.seen(".empty"); line != "There is no template yet." {
				t.Errorf("after the deletion, the page shows %q", line)
			}

			// Publish a page.
			b.open(of + "/pages/page_01kzdemo0000000000000000p3")
			for _, step := range []struct{ action, status string }{{"publish", "published"}, {"unpublish", "draft"}, {"archive", "archived"}, {"restore", "draft"}} {
				button := fmt.Sprintf(`form[action$="/%s"] button`, step.action)
				asked := get[bool](b, fmt.Sprintf(`document.querySelector(%q).form.elements.question !== undefined`, button))
				if asked != (step.action == "unpublish") {
					t.Errorf("%s asks before it is done: %v", step.action, asked)
				}
				if asked {
					b.confirm(button)
				} else {
					b.submit(button)
				}
				if status := b.seen(".status"); status != step.status {
					t.Errorf("after %s, the page is %q", step.action, status)
				}
			}

			// Schedule the page, in the zone of the browser if scripts run.
			b.do(call(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "America/Los_Angeles"}))
			b.open(of + "/pages/page_01kzdemo0000000000000000p3")
			at := func(name, value string) {
				get[int](b, fmt.Sprintf(`((i) => { i.value = %q; i.dispatchEvent(new Event("input")) })(document.querySelectorAll('input[type="datetime-local"]')[%s]), 0`, value, name))
			}
			at("0", "2999-07-02T10:00")
			at("1", "2999-07-01T10:00")
			b.ignoring("400")
			b.submit(`form[action$="/schedule"] button`)
			if problem := b.seen(".problem li b"); problem != "Unpublish at" {
				t.Errorf("the fault is about %q", problem)
			}
			at("1", "2999-07-03T10:00")
			b.submit(`form[action$="/schedule"] button`)
			hour := map[bool]string{true: "2999-07-02T10:00:00Z", false: "2999-07-02T17:00:00Z"}[b.scriptsOff]
			if shown := get[string](b, `document.querySelectorAll(".facts time")[1].dateTime`); shown != hour {
				t.Errorf("the page will be published at %s, want %s", shown, hour)
			}
			at("0", "")
			at("1", "")
			b.submit(`form[action$="/schedule"] button`)

			// Create a key and a person.
			b.open(of + "/keys")
			b.fill(`input[name="name"]`, "key "+suffix)
			b.click(`input[value="account_logs:write"]`)
			last := func(day time.Time) {
				get[int](b, fmt.Sprintf(`(document.querySelector('input[type="date"]').value = %q, 0)`, day.Format(time.DateOnly)))
			}
			last(time.Now().AddDate(-1, 0, 0))
			b.ignoring("400")
			b.submit(`button.primary`)
			if problem := b.seen(".problem"); !strings.Contains(problem, "Last day has passed") {
				t.Errorf("the problem is %q", problem)
			}
			end := time.Now().UTC().AddDate(0, 1, 0)
			last(end)
			b.submit(`button.primary`)
			ends := get[string](b, fmt.Sprintf(`[...document.querySelectorAll("tbody tr")].find(row => row.textContent.includes(%q)).cells[4].querySelector("time").dateTime`, "key "+suffix))
			if !strings.HasPrefix(ends, end.AddDate(0, 0, 1).Format(time.DateOnly)+"T00:00:0") {
				t.Errorf("the key with the last day %s ends at %s", end.Format(time.DateOnly), ends)
			}
			if key := b.seen(".done code"); !strings.HasPrefix(key, "atr_") {
				t.Errorf("the new key is %q", key)
			}
			b.fill(`form[action$="for=site"] input[name="name"]`, "site "+suffix)
			b.fill(`form[action$="for=site"] textarea`, "https://"+first+"/path")
			b.ignoring("400")
			b.submit(`form[action$="for=site"] button`)
			if problem := b.seen(".problem li b"); problem != "Sites" {
				t.Errorf("the fault is about %q", problem)
			}
			if kept := get[string](b, `document.querySelector('form[action$="for=site"] textarea').value`); kept != "https://"+first+"/path" {
				t.Errorf("the form lost what was entered: %q", kept)
			}
			b.fill(`form[action$="for=site"] textarea`, "https://"+first+"\nhttps://"+second)
			b.submit(`form[action$="for=site"] button`)
			if scopes := get[string](b, fmt.Sprintf(`[...document.querySelectorAll("tbody tr")].find(row => row.textContent.includes(%q)).cells[1].textContent`, "site "+suffix)); strings.Join(strings.Fields(scopes), " ") != "content:read https://"+first+" https://"+second {
				t.Errorf("the key for a site has %q", scopes)
			}
			b.open(of + "/people")
			b.fill(`input[name="name"]`, "Kim "+suffix)
			b.submit(`button.primary`)
			b.heading("Kim " + suffix)
			b.submit(`button.primary`)
			link := b.seen(".done code")
			if !strings.HasPrefix(link, o.base+"/console/login?token=atl_") {
				t.Fatalf("the login link is %q", link)
			}

			// Erase an account by typing its domain.
			b.open(of + "/accounts/" + account(second) + "/erase")
			b.fill(`input[name="domain"]`, first)
			b.ignoring("400")
			b.submit(`button.danger`)
			if problem := b.seen(".problem"); !strings.Contains(problem, first) {
				t.Errorf("a wrong domain says %q", problem)
			}
			b.fill(`input[name="domain"]`, second)
			b.submit(`button.danger`)
			b.heading("Accounts")
			if found, _, err := o.store.Accounts(t.Context(), o.tenant, atrium.AccountFilter{Domain: second}, atrium.AccountsNewest, nil, 1); err != nil || len(found) != 0 {
				t.Errorf("%d accounts are left, %v", len(found), err)
			}
			// The new person reads, and changes nothing.
			b.open(strings.TrimPrefix(link, o.base))
			b.submit(`form[action="/console/login"] button`)
			b.open(of + "/accounts/" + account(first))
			if forms := get[int](b, `document.querySelectorAll("main form").length`); forms != 0 {
				t.Errorf("a viewer sees %d forms", forms)
			}
			b.submit(`form[action="/console/logout"] button:not([type])`)
			b.heading("Sign in")
			b.open(of + "/accounts")
			b.heading("Sign in")
		})
	})
}

// A page is written, shown to an audience and published without any other tool. Of two people who change it
// at the same time, the second one sees both changes, and none is lost.
func TestConsoleWritesPages(t *testing.T) {
	engines(t, func(t *testing.T, database string) {
		o := newOffice(t, database)
		scripting(t, o, func(t *testing.T, b *tab) {
			b.signIn(o, atrium.RoleEditor)
			b.open("/console/" + string(o.tenant) + "/pages")
			b.submit(`.head a.primary`)
			b.fill(`input[name="name"]`, "Fair")
			b.fill(`input[name="title"]`, "Meet us")
			b.submit(`button.primary`)
			b.heading("Edit Fair")
			b.fill(`textarea[name="pageContext"]`, "Visitors <of> the fair\nin May")
			b.unfold()
			b.fill(`textarea[name="footerLinks"]`, `[{"id":"a"`)
			b.ignoring("400")
			b.submit(`button.primary`)
			if fault := b.seen(".fault"); fault != "Footer links is not valid JSON: line 1, column 11: it ends too early" {
				t.Errorf("the fault is %q", fault)
			}
			if kept := get[string](b, `document.querySelector('textarea[name="pageContext"]').value`); kept != "Visitors <of> the fair\nin May" {
				t.Errorf("the form lost what was entered: %q", kept)
			}
			b.fill(`textarea[name="footerLinks"]`, `[]`)
			addAction := func() {
				if !b.scriptsOff {
					b.click(`.list > .rows > button`)
				}
			}
			addAction()
			b.fill(`input[name="actions:0:buttonTitle"]`, "Book <b>a</b> call")
			b.fill(`input[name="actions:0:url"]`, "https://www.example.com/call")
			b.submit(`button.primary`)
			b.heading("Fair")
			edit := get[string](b, `document.querySelector(".actions a").pathname`)

			// Two more actions come before the first one, which becomes that of the header.
			b.open(edit)
			if b.scriptsOff {
				b.fill(`input[name="actions:1:buttonTitle"]`, "Docs")
				b.fill(`input[name="actions:0:position"]`, "2")
				b.submit(`button.primary`)
				b.open(edit)
				b.fill(`input[name="actions:2:buttonTitle"]`, "Prices")
				b.fill(`input[name="actions:2:position"]`, "2")
			} else {
				addAction()
				b.fill(`input[name="actions:1:buttonTitle"]`, "Docs")
				addAction()
				b.fill(`input[name="actions:2:buttonTitle"]`, "Prices")
				b.fill(`input[name="actions:0:position"]`, "3")
			}
			get[string](b, `document.querySelector('select[name="headerActionId"]').value = "book-b-a-b-call"`)
			b.submit(`button.primary`)
			b.heading("Fair")
			var actions []string
			b.open(edit)
			for i := range 3 {
				actions = append(actions, get[string](b, fmt.Sprintf(`document.querySelector('input[name="actions:%d:buttonTitle"]').value`, i)))
			}
			if want := []string{"Docs", "Prices", "Book <b>a</b> call"}; !slices.Equal(actions, want) {
				t.Errorf("the actions are %q", actions)
			}
			if header := get[string](b, `document.querySelector('select[name="headerActionId"]').value`); header != "book-b-a-b-call" {
				t.Errorf("the action of the header is %q", header)
			}

			// Another person changes the title and the context while this one edits the title.
			page := atrium.PageID(strings.Split(edit, "/")[4])
			b.open(edit)
			title, told := "Theirs", "Their visitors"
			o.changePage(t, page, title, told)
			b.fill(`input[name="title"]`, "Mine")
			b.ignoring("412")
			b.submit(`button.primary`)
			if shown := b.seen(".theirs pre"); shown != told && shown != title {
				t.Errorf("the page shows the value %q of the other person", shown)
			}
			if mine := get[string](b, `document.querySelector('input[name="title"]').value`); mine != "Mine" {
				t.Errorf("the form has the title %q", mine)
			}
			if theirs := get[string](b, `document.querySelector('textarea[name="pageContext"]').value`); theirs != told {
				t.Errorf("the form has the context %q, which only the other person has changed", theirs)
			}
			b.submit(`button.primary`)
			b.heading("Fair")
			if shown := b.seen("main"); !strings.Contains(shown, "Mine") || !strings.Contains(shown, told) {
				t.Errorf("after the second save, the page has %q", shown)
			}

			// An audience with two versions, one of which is published.
			b.fill(`form[action$="/audiences"] input`, "Readers")
			b.submit(`form[action$="/audiences"] button`)
			b.heading("Readers")
			b.unfold()
			b.fill(`textarea[name="content"]`, `{"headline":"One","list":[1,2]}`)
			b.submit(`button.primary`)
			b.fill(`input[name="text:/headline"]`, "Two")
			b.submit(`button.primary`)
			b.submit(`tr:first-child form[action$="/publish"] button`)
			if told := b.seen(".done"); !strings.Contains(told, "once the page is published") {
				t.Errorf("the page is a draft, and the console says %q", told)
			}
			if state := b.seen("tr:first-child .status"); state != "published" {
				t.Errorf("the newest version is %q", state)
			}
			own := get[string](b, `location.pathname`)

			// A preview shows the other version, although the page is a draft.
			b.open(own + "/versions/1")
			b.submit(`form[action$="/preview"] button`)
			if shown := read(t, b.seen(".done code")); !strings.Contains(shown, `"One"`) {
				t.Errorf("the preview shows %s", shown)
			}
			b.open(own + "/compare?from=1&to=2")
			if removed, added := b.seen("del"), b.seen("ins"); !strings.Contains(removed, "One") || !strings.Contains(added, "Two") {
				t.Errorf("the comparison shows %q and %q", removed, added)
			}
			if changed := get[int](b, `document.querySelectorAll("ins").length`); changed != 1 {
				t.Errorf("%d texts are marked", changed)
			}
		})
	})
}

// read returns what an address shows to everyone.
func read(t *testing.T, address string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s %v", address, response.Status, body, err)
	}
	return string(body)
}

func TestAFieldWithoutALabelIsFound(t *testing.T) {
	o := newOffice(t, "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"))
	b := newTab(t, newBrowser(t), o.base, views()[0])
	b.signIn(o, atrium.RoleAdmin)
	b.open("/console/" + string(o.tenant) + "/accounts")
	get[int](b, `(document.querySelectorAll("label").forEach(l => l.replaceWith(...l.querySelectorAll("input, select"))), 0)`)
	if faults := b.faultsOfAccess(); len(faults) == 0 || !strings.Contains(faults[0], "label") && !strings.Contains(faults[0], "name") {
		t.Errorf("the faults are %q", faults)
	}
}
